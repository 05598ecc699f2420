use std::sync::Barrier;

use duolog_join::{Error, Folder, IdempotencyKey, Join, Write};
use duolog_log::Append;
use duolog_state::owned::outbox;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{Durability, OperationId, Position, SessionId};

use crate::kit::{PROCESS, batch, lines, open, put, raise, rename, session};

on_both_engines!(
    a_transition_has_one_line_however_many_drain,
    lines_stay_in_the_outbox_while_their_log_cannot_be_written,
    concurrent_calls_of_one_operation_append_once,
    an_operation_continues_after_a_crash,
    an_operation_checks_its_position,
    a_transition_with_an_operation_id_happens_once,
    lines_about_changes_come_before_later_appends,
    a_long_answer_is_repeated_completely
);

/// Answers that fit one row exactly, are a byte longer, need several rows, and have a character across the limit of a
/// row.
fn a_long_answer_is_repeated_completely(place: &Place) {
    let join = open(place);
    // The two quotation marks are part of the stored text.
    let row = duolog_types::limits::METADATA_BYTES_MAX - 2;
    let answers = [row - 4, row - 1, row, row + 1, 3 * row].map(|len| "a".repeat(len));
    let wide = format!("{}{}", "a".repeat(row - 1), "\u{1f600}".repeat(40_000));
    for (number, answer) in answers.into_iter().chain([wide]).enumerate() {
        let operation = OperationId::parse(&format!("o{number}")).expect("an id");
        let ask = |answer: String| {
            let key = IdempotencyKey::new("test", &operation, &"request").expect("a key");
            let how = Write::once(Durability::Process, Some(key));
            join.transact::<String, Error>(how, move |_| Ok((answer.clone(), Vec::new())))
        };
        assert_eq!(ask(answer.clone()).expect("answers"), answer);
        assert_eq!(ask("other".to_owned()).expect("answers again"), answer);
    }
    let endless = IdempotencyKey::new("test", &OperationId::parse("long").expect("an id"), &"request").expect("a key");
    let how = Write::once(Durability::Process, Some(endless.clone()));
    let refused = join.transact::<String, Error>(how, move |_| Ok(("a".repeat(5 << 20), Vec::new())));
    assert!(matches!(refused, Err(Error::TooLong(_))), "{refused:?}");
    assert_eq!(join.answer_to::<String>(&endless).expect("looks"), None, "nothing of it is stored");
}

fn a_transition_has_one_line_however_many_drain(place: &Place) {
    let joins: Vec<_> = (0..4).map(|_| open(place)).collect();
    let id = session(&joins[0], "s");
    let start = Barrier::new(joins.len());
    std::thread::scope(|scope| {
        for (number, join) in joins.iter().enumerate() {
            let (id, start) = (&id, &start);
            scope.spawn(move || {
                start.wait();
                for step in 0..10 {
                    rename(join, id, &format!("{number}-{step}")).unwrap();
                    join.drain(id).unwrap();
                }
            });
        }
    });
    assert_eq!(joins[0].state().read(outbox::count).unwrap(), 0);
    let found = lines(&joins[0], &id);
    for number in 0..4 {
        for step in 0..10 {
            let needle = format!("\"name\":\"{number}-{step}\"");
            assert_eq!(found.iter().filter(|line| line.contains(&needle)).count(), 1, "{needle}");
        }
    }
}

fn lines_stay_in_the_outbox_while_their_log_cannot_be_written(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{}");
    drop(join);
    // A directory is at the log's path: the transition is committed, and its line stays in the outbox.
    let file = place.home().join("sessions/threads/s.jsonl");
    let aside = place.home().join("aside");
    std::fs::rename(&file, &aside).unwrap();
    std::fs::create_dir(&file).unwrap();
    let join = open(place);
    rename(&join, &id, "other").unwrap();
    let waiting = join.state().read(|tx| outbox::pending(tx, &id, &join.home(), 10)).unwrap();
    assert_eq!(waiting.len(), 1);
    assert!(waiting[0].attempts > 0 && waiting[0].last_error.is_some(), "{waiting:?}");
    drop(join);
    std::fs::remove_dir(&file).unwrap();
    std::fs::rename(&aside, &file).unwrap();
    let join = open(place);
    assert_eq!(join.state().read(outbox::count).unwrap(), 0, "opening the home appends the pending lines");
    assert_eq!(lines(&join, &id).len(), 2);
}

fn concurrent_calls_of_one_operation_append_once(place: &Place) {
    let joins: Vec<_> = (0..4).map(|_| open(place)).collect();
    let id = session(&joins[0], "s");
    let mut written = Vec::new();
    for round in 0..20 {
        let operation = OperationId::parse(&format!("op-{round}")).unwrap();
        let pair = [1, 2].map(|part| format!("{{\"a\":{part},\"round\":{round}}}"));
        let work = batch(&[&pair[0], &pair[1]]);
        let ask = &|join: &Join| join.append_once(&id, &operation, &work, &PROCESS).unwrap().end;
        let ends: Vec<Position> = std::thread::scope(|scope| {
            let asked: Vec<_> = joins.iter().map(|join| scope.spawn(move || ask(join))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
        written.extend(pair);
    }
    assert_eq!(lines(&joins[0], &id), written);
}

fn an_operation_continues_after_a_crash(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    let operation = OperationId::parse("op").unwrap();
    let work = batch(&["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"]);
    join.append_once(&id, &operation, &work, &PROCESS).unwrap();
    drop(join);
    // As if the process had died after the first line; then another process appends.
    let file = place.home().join("sessions/threads/s.jsonl");
    std::fs::write(&file, "{\"a\":1}\n").unwrap();
    let join = open(place);
    put(&join, &id, "{\"other\":1}");
    join.append_once(&id, &operation, &work, &PROCESS).unwrap();
    join.append_once(&id, &operation, &work, &PROCESS).unwrap();
    assert_eq!(lines(&join, &id), ["{\"a\":1}", "{\"other\":1}", "{\"a\":2}", "{\"a\":3}"]);
    let other = join.append_once(&id, &operation, &batch(&["{}"]), &PROCESS);
    assert!(matches!(other, Err(Error::OperationReused { .. })));
}

fn an_operation_checks_its_position(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{}");
    let how = Append { if_position: Some(Position(99)), ..PROCESS };
    let refused = join.append_once(&id, &OperationId::parse("op").unwrap(), &batch(&["{\"a\":1}"]), &how);
    assert!(matches!(refused, Err(Error::Log(duolog_log::Error::Moved { .. }))), "{refused:?}");
    assert_eq!(lines(&join, &id), ["{}"]);
}

fn a_transition_with_an_operation_id_happens_once(place: &Place) {
    let joins: Vec<_> = (0..4).map(|_| open(place)).collect();
    let id = session(&joins[0], "s");
    let start = Barrier::new(joins.len());
    let answers: Vec<u64> = std::thread::scope(|scope| {
        let asked: Vec<_> = joins
            .iter()
            .map(|join| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    raise(join, "op", "s").unwrap()
                })
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert_eq!(answers, [1; 4]);
    assert_eq!(raise(&joins[1], "op", "s").unwrap(), 1);
    assert_eq!(raise(&joins[2], "another", "s").unwrap(), 2);
    let other = raise(&joins[3], "op", "t");
    assert!(matches!(other, Err(Error::OperationReused { .. })), "{other:?}");
    assert_eq!(lines(&joins[0], &id).len(), 2, "each has one line");
}

/// The line of a change is in the log when the change is acknowledged, and its outbox row is deleted with the next
/// sync.
fn lines_about_changes_come_before_later_appends(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    let folder = Folder::start(&join).unwrap();
    let mut expected = Vec::new();
    for n in 0..80 {
        rename(&join, &id, &format!("name-{n}")).unwrap();
        expected.push(format!("name-{n}"));
        if n % 3 == 0 {
            put(&join, &id, &format!("{{\"n\":{n}}}"));
            expected.push(n.to_string());
        }
        assert_eq!(line_values(&join, &id), expected, "a reader finds them");
    }
    drop(folder);
    join.leave(u64::MAX).unwrap();
    assert_eq!(join.state().read(outbox::count).unwrap(), 0);
    assert_eq!(line_values(&join, &id), expected);
}

/// Returns the values in the lines of a log: a name or a number.
fn line_values(join: &Join, id: &SessionId) -> Vec<String> {
    let read = |line: &String| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["name"].as_str().map_or_else(|| line["n"].to_string(), str::to_owned)
    };
    lines(join, id).iter().map(read).collect()
}
