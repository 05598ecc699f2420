use super::*;
use crate::{Home, StoreOptions};

fn batch(lines: &[&str]) -> Batch {
    let mut batch = Batch::default();
    for line in lines {
        batch.push(line.as_bytes()).expect("a line");
    }
    batch
}

fn open(directory: &tempfile::TempDir) -> Store {
    Store::open(StoreOptions::at(Home::beneath(directory.path())).one_shot()).expect("opens")
}

#[test]
fn odd_but_legal_lines_come_back_byte_for_byte() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&directory);
    let session = store.sessions().open_thread("odd").expect("made").id;
    let lines = [
        "{\"lone\":\"\\ud83d\"}",
        "{\"nul\":\"\\u0000\"}",
        "{\"sep\":\"\u{2028}\"}",
        "{\"b\":1,\"a\":2,\"b\":3}",
        " {} \r",
    ];
    store.log(&session).append(&batch(&lines), Durability::Power).expect("appended");
    let read = store.log(&session).last(10).expect("reads");
    assert_eq!(read, lines.map(|line| line.as_bytes().to_vec()));
}

#[test]
fn an_empty_batch_succeeds_and_does_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&directory);
    let session = store.sessions().open_thread("empty").expect("made");
    let committed = store.log(&session.id).append(&Batch::default(), Durability::Power).expect("succeeds");
    assert_eq!((committed.lines, committed.end), (0, Position::ZERO));
    assert!(!directory.path().join("state").join(&session.log_path).exists());
}

#[test]
fn a_conditional_append_succeeds_only_at_the_end_of_the_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&directory);
    let session = store.sessions().open_thread("cas").expect("made").id;
    let at = |position| AppendOptions { if_position: Some(Position(position)), ..AppendOptions::default() };
    let first = store.log(&session).append_with(&batch(&["{}"]), &at(0)).expect("appended");
    let refused = store.log(&session).append_with(&batch(&["{}"]), &at(0)).expect_err("moved");
    assert_eq!(refused.kind(), crate::ErrorKind::Stale);
    assert_eq!(store.log(&session).end().expect("reads"), first.end);
}

#[test]
fn an_operation_happens_once_even_across_openings() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines = batch(&["{\"a\":1}", "{\"a\":2}"]);
    let once = AppendOptions { durability: Durability::Power, ..AppendOptions::default() }
        .once(OperationId::parse("op-1").expect("an id"));
    let session;
    let first = {
        let store = open(&directory);
        session = store.sessions().open_thread("ops").expect("made").id;
        store.log(&session).append_with(&lines, &once).expect("appended")
    };
    let store = open(&directory);
    store.log(&session).append(&batch(&["{\"between\":true}"]), Durability::Process).expect("appended");
    let again = store.log(&session).append_with(&lines, &once).expect("answered");
    assert_eq!(again, first);
    assert_eq!(store.log(&session).last(10).expect("reads").len(), 3);
    let other = store.log(&session).append_with(&batch(&["{\"other\":1}"]), &once).expect_err("refused");
    assert_eq!(other.kind(), crate::ErrorKind::Conflict);
}

#[test]
fn a_replaced_log_is_noticed_by_writer_and_follower() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&directory);
    let session = store.sessions().open_thread("victim").expect("made");
    let log = store.log(&session.id);
    let file = directory.path().join("state").join(&session.log_path);
    for what in ["deleted", "replaced", "moved away"] {
        log.append(&batch(&["{\"n\":1}", "{\"n\":2}"]), Durability::Process).expect("appended");
        let mut follow = log.follow(None).expect("follows");
        let mut seen = 0;
        while follow.poll(&mut |_| seen += 1).expect("polls") != crate::Seen::Idle {}
        assert!(seen >= 2, "{what}");
        match what {
            "deleted" => std::fs::remove_file(&file).expect("removed"),
            "moved away" => std::fs::rename(&file, file.with_extension("aside")).expect("moved"),
            _ => {
                std::fs::write(file.with_extension("other"), "{\"other\":1}\n").expect("written");
                std::fs::rename(file.with_extension("other"), &file).expect("replaced");
            }
        }
        let before = store.sessions().get(&session.id).expect("found").log_epoch;
        let refused = log.append(&batch(&["{\"n\":3}"]), Durability::Process).expect_err(what);
        assert_eq!(refused.kind(), crate::ErrorKind::Damaged, "{what}: {refused}");
        let reset = follow.poll(&mut |_| {}).expect("polls");
        assert!(matches!(reset, crate::Seen::Reset(cursor) if cursor.epoch > before), "{what}: {reset:?}");
        log.append(&batch(&["{\"n\":4}"]), Durability::Process).expect("goes on");
    }
    assert_eq!(store.join.repairs_of(&session.id).expect("reads").len(), 3);
}
