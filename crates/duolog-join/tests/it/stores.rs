use std::sync::Barrier;
use std::time::Duration;

use duolog_join::{Error, IdempotencyKey, Join, NewLog, Stem, prepare};
use duolog_log::Error as LogError;
use duolog_state::OpenState;
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_testkit::SimDisk;
use duolog_testkit::disk::{CallKind, EIO, Fault};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::Limits;
use duolog_types::{HomeId, OperationId, SessionId};

use crate::kit::{POWER, PROCESS, batch, join, limits, lines, open, open_on, open_with, put, session};

on_both_engines!(
    a_session_whose_log_is_locked_is_not_deleted,
    a_missing_session_gets_no_file,
    an_operation_that_failed_is_done_after_its_log_is_deleted,
    an_operation_that_was_done_is_not_done_again_after_deletions_of_its_log,
    two_states_of_one_home_never_choose_the_same_path,
    the_first_state_of_a_home_has_plain_file_names,
    a_rebuild_during_log_deletions_finds_no_loss,
    repairs_of_one_closed_log_at_once_all_succeed,
    a_retry_of_an_append_changes_no_row,
    a_finished_append_to_a_closed_log_is_answered_again,
    lines_that_were_not_synced_are_reported_as_written,
    a_session_whose_first_append_failed_is_removed,
    the_draft_of_a_dead_import_is_replaced,
);

fn operation(name: &str) -> OperationId {
    OperationId::parse(name).unwrap()
}

fn row(join: &Join, id: &SessionId) -> sessions::SessionRow {
    join.state().read(|tx| sessions::find(tx, id)).unwrap().expect("a session")
}

fn a_session_whose_log_is_locked_is_not_deleted(place: &Place) {
    let join = open_with(place, Limits { busy_timeout: Duration::from_millis(1), ..limits() });
    let id = session(&join, "s");
    put(&join, &id, "{}");
    let held = std::fs::File::open(place.home().join(row(&join, &id).log_path)).unwrap();
    // Like a reader: it blocks writers, but no readers.
    held.lock_shared().unwrap();
    let refused = join.delete(&id);
    assert!(matches!(refused, Err(Error::Log(LogError::Busy { .. }))), "{refused:?}");
    assert_eq!(row(&join, &id).deleted_at, None);
    drop(held);
    assert_eq!(lines(&open(place), &id), ["{}"]);
    assert_eq!(join.delete(&id).unwrap().bytes, 3);
}

fn a_missing_session_gets_no_file(place: &Place) {
    let (a, b) = (open(place), open(place));
    let id = session(&a, "s");
    put(&a, &id, "{}");
    let path = place.home().join(row(&a, &id).log_path);
    let start = Barrier::new(2);
    let done = std::thread::scope(|scope| {
        let both = [&a, &b].map(|join| {
            let (id, start) = (&id, &start);
            scope.spawn(move || {
                start.wait();
                join.delete(id)
            })
        });
        both.map(|one| one.join().unwrap())
    });
    assert!(done.iter().any(Result::is_ok), "{done:?}");
    assert!(done.iter().all(|one| matches!(one, Ok(_) | Err(Error::NoSession(_)))), "{done:?}");
    assert!(!path.exists());
}

fn an_operation_that_failed_is_done_after_its_log_is_deleted(place: &Place) {
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let join = open_on(place, &disk, home);
    let id = session(&join, "s");
    put(&join, &id, "{}");
    disk.fail_kind_from(CallKind::Append, 0, Fault::Error(EIO));
    let failed = join.append_once(&id, &operation("op"), &batch(&["{\"n\":1}"]), &PROCESS);
    assert!(matches!(failed, Err(Error::Log(LogError::Closed { .. }))), "{failed:?}");
    disk.heal();
    join.remove_log(&id, None).unwrap();
    for _ in 0..2 {
        join.append_once(&id, &operation("op"), &batch(&["{\"n\":1}"]), &PROCESS).unwrap();
    }
    assert_eq!(lines(&join, &id), ["{\"n\":1}"]);
}

fn an_operation_that_was_done_is_not_done_again_after_deletions_of_its_log(place: &Place) {
    let joins = [open(place), open(place), open(place)];
    let id = session(&joins[0], "s");
    for round in 0..10 {
        let name = operation(&format!("op-{round}"));
        joins[0].append_once(&id, &name, &batch(&["{}"]), &PROCESS).unwrap();
        let start = Barrier::new(joins.len());
        std::thread::scope(|scope| {
            for join in &joins {
                let (id, start) = (&id, &start);
                scope.spawn(move || {
                    start.wait();
                    join.remove_log(id, None).unwrap();
                });
            }
        });
        joins[1].append_once(&id, &name, &batch(&["{}"]), &PROCESS).unwrap();
        assert!(lines(&joins[2], &id).is_empty(), "round {round}: it was deleted");
    }
}

fn two_states_of_one_home_never_choose_the_same_path(place: &Place) {
    let elsewhere = tempfile::tempdir().unwrap();
    let other = || {
        let prepared = prepare(place.home()).unwrap();
        join(OpenState::at(elsewhere.path()), prepared.disk, prepared.id, limits()).unwrap()
    };
    let states = [open(place), other()];
    // Neither has a file yet.
    let ids = [&states[0], &states[1]].map(|join| session(join, "demo"));
    let paths = [0, 1].map(|n| row(&states[n], &ids[n]).log_path);
    assert_ne!(paths[0], paths[1]);
    for (join, id) in states.iter().zip(&ids) {
        put(join, id, "{}");
    }
    states[1].delete(&ids[1]).unwrap();
    assert_eq!(lines(&states[0], &ids[0]), ["{}"]);
    // A name that looks like the file name of the other state.
    let stem = paths[1].rsplit('/').next().unwrap().strip_suffix(".jsonl").unwrap().replace('+', "_");
    assert_ne!(row(&states[0], &session(&states[0], &stem)).log_path, paths[1]);
}

fn the_first_state_of_a_home_has_plain_file_names(place: &Place) {
    let path = |name: &str| {
        let join = open(place);
        let id = session(&join, name);
        row(&join, &id).log_path
    };
    assert_eq!(path("one"), "sessions/threads/one.jsonl");
    let elsewhere = tempfile::tempdir().unwrap();
    let prepared = prepare(place.home()).unwrap();
    let other = join(OpenState::at(elsewhere.path()), prepared.disk, prepared.id, limits()).unwrap();
    let id = session(&other, "two");
    assert!(row(&other, &id).log_path.starts_with("sessions/threads/two+"));
    assert_eq!(path("two"), "sessions/threads/two.jsonl");
}

fn a_rebuild_during_log_deletions_finds_no_loss(place: &Place) {
    let (a, b) = (open(place), open(place));
    let id = session(&a, "s");
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| {
            for _ in 0..60 {
                put(&a, &id, "{\"a\":\"line\"}");
                a.catch_up(u64::MAX).unwrap();
                a.remove_log(&id, None).unwrap();
            }
        });
        while !deleting.is_finished() {
            let rebuilt = b.rebuild(|_| {}).unwrap();
            assert!(rebuilt.failed.is_empty(), "{:?}", rebuilt.failed);
        }
    });
    let repairs = a.repairs_of(&id).unwrap();
    assert!(repairs.iter().all(|row| !row.repair.action.is_loss()), "{repairs:?}");
}

fn repairs_of_one_closed_log_at_once_all_succeed(place: &Place) {
    use std::os::unix::fs::PermissionsExt as _;
    let joins: Vec<_> = (0..4).map(|_| open(place)).collect();
    let id = session(&joins[0], "s");
    put(&joins[0], &id, "{}");
    let path = place.home().join(row(&joins[0], &id).log_path);
    for round in 0..8 {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        let start = Barrier::new(joins.len());
        std::thread::scope(|scope| {
            for join in &joins {
                let (id, start) = (&id, &start);
                scope.spawn(move || {
                    start.wait();
                    let repaired = join.repair(id);
                    assert!(repaired.is_ok(), "round {round}: {:?}", repaired.err());
                });
            }
        });
        assert_eq!(lines(&joins[0], &id), ["{}"]);
    }
}

fn a_retry_of_an_append_changes_no_row(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    let name = operation("op");
    let first = join.append_once(&id, &name, &batch(&["{}"]), &PROCESS).unwrap();
    let before = row(&join, &id);
    for how in [PROCESS, POWER] {
        let retry = open(place);
        assert_eq!(retry.append_once(&id, &name, &batch(&["{}"]), &how).unwrap(), first);
        assert_eq!(row(&retry, &id), before);
    }
}

fn a_finished_append_to_a_closed_log_is_answered_again(place: &Place) {
    use std::os::unix::fs::PermissionsExt as _;
    let join = open(place);
    let id = session(&join, "s");
    let first = join.append_once(&id, &operation("done"), &batch(&["{}"]), &POWER).unwrap();
    join.catch_up(u64::MAX).unwrap();
    let later = join.append_once(&id, &operation("later"), &batch(&["{}"]), &PROCESS).unwrap();
    let path = place.home().join(row(&join, &id).log_path);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    let retry = open(place);
    assert_eq!(retry.append_once(&id, &operation("done"), &batch(&["{}"]), &POWER).unwrap(), first);
    assert_eq!(retry.append_once(&id, &operation("later"), &batch(&["{}"]), &PROCESS).unwrap(), later);
    let refused = retry.append_once(&id, &operation("later"), &batch(&["{}"]), &POWER);
    assert!(
        matches!(refused, Err(Error::Log(LogError::Poisoned(_)))),
        "what the disk holds is not certain: {refused:?}"
    );
    assert!(retry.append_once(&id, &operation("new"), &batch(&["{}"]), &PROCESS).is_err());
}

fn lines_that_were_not_synced_are_reported_as_written(place: &Place) {
    const EMFILE: i32 = 24;
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let join = open_on(place, &disk, home);
    let id = session(&join, "s");
    disk.fail_kind_from(CallKind::SyncDir, 0, Fault::Error(EMFILE));
    let unsynced = join.append_once(&id, &operation("op"), &batch(&["{}"]), &POWER);
    assert!(matches!(unsynced, Err(Error::Log(LogError::NotSynced { .. }))), "{unsynced:?}");
    assert_eq!(lines(&join, &id), ["{}"]);
    disk.heal();
    join.append_once(&id, &operation("op"), &batch(&["{}"]), &POWER).unwrap();
    assert_eq!(lines(&join, &id), ["{}"]);
}

fn a_session_whose_first_append_failed_is_removed(place: &Place) {
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let join = open_on(place, &disk, home);
    let key = IdempotencyKey::new("log.append", &operation("op"), &"s").unwrap();
    let id = session(&join, "s");
    disk.fail_kind_from(CallKind::Append, 0, Fault::Error(EIO));
    assert!(join.append_once(&id, &operation("op"), &batch(&["{}"]), &PROCESS).is_err());
    disk.heal();
    let path = row(&join, &id).log_path;
    assert!(join.unmake(Some(&key), &id).unwrap());
    assert_eq!(join.state().read(|tx| sessions::find(tx, &id)).unwrap(), None);
    assert_eq!(disk.mode(&path), None, "its file is removed");
    let id = session(&join, "s");
    put(&join, &id, "{}");
    assert!(!join.unmake(None, &id).unwrap(), "a session with a line stays");
    assert_eq!(lines(&join, &id), ["{}"]);
    let other = session(&join, "renamed");
    crate::kit::rename(&join, &other, "used").unwrap();
    assert!(!join.unmake(None, &other).unwrap(), "it is in use");
    assert_eq!(row(&join, &other).name.as_deref(), Some("used"));
}

/// Imports a session with one line.
fn adopt(join: &Join, name: &str, line: &str) -> duolog_join::Result<sessions::SessionRow> {
    let mut draft = join.draft()?;
    draft.line(line.as_bytes())?;
    let row = SessionRow::new(SessionId::parse(name).unwrap(), join.home(), "threads", "", join.clock().now());
    let stem = Stem { scope: "threads".to_owned(), file: name.to_owned(), name: name.to_owned() };
    join.adopt(None, NewLog { row, stem }, draft, |_, _| Ok(()))
}

fn the_draft_of_a_dead_import_is_replaced(place: &Place) {
    for next in ["import", "create"] {
        let mut nth = 0;
        loop {
            let (disk, home) = (SimDisk::new(), HomeId::new());
            let join = open_on(place, &disk, home);
            let name = format!("{next}-{nth}");
            disk.fail_at(disk.call_count() + nth, Fault::Stop { after_bytes: None });
            let died = adopt(&join, &name, "{\"first\":1}").is_err();
            disk.heal();
            if !died {
                assert!(nth > 5, "only {nth} calls were tried");
                break;
            }
            nth += 1;
            let join = open_on(place, &disk, home);
            let id = SessionId::parse(&name).unwrap();
            if join.state().read(|tx| sessions::find(tx, &id)).unwrap().is_some() {
                assert_eq!(lines(&join, &id), ["{\"first\":1}"], "it was committed");
                continue;
            }
            let path = if next == "import" {
                adopt(&join, &name, "{\"again\":1}").unwrap().log_path
            } else {
                let id = session(&join, &name);
                put(&join, &id, "{\"again\":1}");
                row(&join, &id).log_path
            };
            assert_eq!(path, format!("sessions/threads/{name}.jsonl"), "call {nth}");
            assert_eq!(lines(&join, &id), ["{\"again\":1}"], "call {nth}");
            assert_eq!(join.log_files().unwrap(), [path], "call {nth}: nothing else is left");
        }
    }
}
