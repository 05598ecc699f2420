use std::io::Write as _;
use std::time::Duration;

use duolog_join::{Error, IdempotencyKey};
use duolog_log::Error as LogError;
use duolog_state::Sql;
use duolog_state::owned::repairs::RepairAction;
use duolog_state::owned::sessions;
use duolog_testkit::disk::EIO;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_testkit::{CallKind, Fault, SimDisk};
use duolog_types::limits::Limits;
use duolog_types::{Durability, Epoch, HomeId, OperationId};

use crate::kit::{
    POWER, PROCESS, batch, limits, lines, open, open_on, open_with, put, session, while_repairs_are_held,
};

on_both_engines!(
    a_log_with_a_failed_write_is_closed_until_repaired,
    a_change_of_sealed_bytes_is_found_and_never_sealed,
    a_log_deleted_by_hand_is_reported_and_recorded,
    a_torn_tail_is_recorded_even_if_the_append_fails,
    an_append_succeeds_even_if_a_torn_tail_cannot_be_recorded,
    torn_bytes_of_a_dead_process_are_recorded_by_the_next,
    a_log_in_use_is_not_deleted_and_an_interrupted_deletion_is_finished,
    a_log_deletion_whose_file_stays_reports_the_deletion,
    a_session_deletion_whose_row_stays_reports_the_deletion,
    blobs_are_kept_while_a_log_lacks_recorded_bytes
);

fn a_log_with_a_failed_write_is_closed_until_repaired(place: &Place) {
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let (a, b) = (open_on(place, &disk, home), open_on(place, &disk, home));
    let id = session(&a, "s");
    a.append(&id, &batch(&["{\"n\":1}"]), &POWER).unwrap();
    put(&b, &id, "{\"n\":2}");
    disk.fail_kind_from(CallKind::Sync, 0, Fault::Error(EIO));
    assert!(matches!(a.append(&id, &batch(&["{\"n\":3}"]), &POWER), Err(Error::Log(LogError::Poisoned(_)))));
    for join in [&a, &b] {
        assert!(matches!(join.append(&id, &batch(&["{}"]), &PROCESS), Err(Error::Log(LogError::Poisoned(_)))));
    }
    assert!(a.is_poisoned(&id).unwrap());
    let repaired = b.repair(&id).unwrap();
    assert_eq!(repaired.epoch, Epoch(1));
    assert!(repaired.done.iter().any(|row| row.repair.action == RepairAction::Rewritten));
    let kept = lines(&b, &id);
    assert!(kept.starts_with(&["{\"n\":1}".to_owned()]), "{kept:?}");
    put(&b, &id, "{\"n\":4}");
    put(&a, &id, "{\"n\":5}");
    assert_eq!(lines(&a, &id).last().map(String::as_str), Some("{\"n\":5}"));
}

fn a_change_of_sealed_bytes_is_found_and_never_sealed(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    (0..20).for_each(|n| put(&join, &id, &format!("{{\"n\":{n}}}")));
    join.catch_up(u64::MAX).unwrap();
    assert_eq!(join.verify(&id, |_, _| {}).unwrap().seals, 1);
    // One digit is changed by hand: the line is still valid JSON.
    let file = place.home().join("sessions/threads/s.jsonl");
    let mut text = std::fs::read(&file).unwrap();
    text[5] = b'7';
    std::fs::write(&file, &text).unwrap();
    let verified = join.verify(&id, |_, _| {}).unwrap();
    assert_eq!((verified.damaged, verified.events), (1, 20));
    put(&join, &id, "{\"n\":20}");
    join.catch_up(u64::MAX).unwrap();
    assert_eq!(join.verify(&id, |_, _| {}).unwrap().damaged, 1, "sealing continued and hid nothing");
    assert!(join.repairs_of(&id).unwrap().iter().any(|row| row.repair.action == RepairAction::Unsealed));
}

fn a_log_deleted_by_hand_is_reported_and_recorded(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{\"n\":1}");
    std::fs::remove_file(place.home().join("sessions/threads/s.jsonl")).unwrap();
    let answer = join.append(&id, &batch(&["{\"n\":2}"]), &PROCESS);
    assert!(matches!(answer, Err(Error::LogChanged { epoch: Epoch(1), .. })), "{answer:?}");
    put(&join, &id, "{\"n\":3}");
    assert_eq!(lines(&join, &id), ["{\"n\":3}"]);
    let row = &join.repairs_of(&id).unwrap()[0].repair;
    assert_eq!((row.action, row.epoch), (RepairAction::Missing, Epoch(0)));
}

fn a_torn_tail_is_recorded_even_if_the_append_fails(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{}");
    let mut file =
        std::fs::OpenOptions::new().append(true).open(place.home().join("sessions/threads/s.jsonl")).unwrap();
    file.write_all(b"{\"torn").unwrap();
    let how = duolog_log::Append { if_position: Some(duolog_types::Position(99)), ..PROCESS };
    assert!(join.append(&id, &batch(&["{}"]), &how).is_err());
    let rows = join.repairs_of(&id).unwrap();
    assert_eq!(rows.iter().map(|row| row.repair.action).collect::<Vec<_>>(), [RepairAction::Quarantined]);
}

fn an_append_succeeds_even_if_a_torn_tail_cannot_be_recorded(place: &Place) {
    let limits = Limits { busy_timeout: Duration::from_millis(200), ..limits() };
    let join = open_with(place, limits);
    let id = session(&join, "s");
    put(&join, &id, "{\"n\":1}");
    let path = place.home().join("sessions/threads/s.jsonl");
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"torn").unwrap();
    // The state is locked: the repair of the torn tail cannot be recorded now.
    while_repairs_are_held(place, || put(&join, &id, "{\"n\":2}"));
    assert_eq!(lines(&join, &id), ["{\"n\":1}", "{\"n\":2}"]);
    assert!(join.repairs_of(&id).unwrap().is_empty());
    put(&join, &id, "{\"n\":3}");
    let rows = join.repairs_of(&id).unwrap();
    assert_eq!(rows.iter().map(|row| row.repair.action).collect::<Vec<_>>(), [RepairAction::Quarantined]);
}

fn torn_bytes_of_a_dead_process_are_recorded_by_the_next(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{}");
    let path = place.home().join("sessions/threads/s.jsonl");
    let hash = blake3::hash(b"{\"torn").to_hex();
    let record = format!("{{\"position\":3,\"len\":6,\"blake3\":\"{hash}\"}}\n{{\"torn\n");
    std::fs::write(duolog_log::torn_path(&path), record).unwrap();
    drop(join);
    let join = open(place);
    for _ in 0..2 {
        let rows = join.repair(&id).map(|_| join.repairs_of(&id).unwrap()).unwrap();
        let found: Vec<_> =
            rows.iter().map(|row| (row.repair.action, row.repair.position.0, row.repair.bytes)).collect();
        assert_eq!(found, [(RepairAction::Quarantined, 3, 6)]);
    }
}

fn a_log_in_use_is_not_deleted_and_an_interrupted_deletion_is_finished(place: &Place) {
    let join = open_with(place, Limits { busy_timeout: Duration::from_millis(100), ..limits() });
    let (held, begun) = (session(&join, "held"), session(&join, "begun"));
    put(&join, &held, "{}");
    put(&join, &begun, "{}");
    let file = std::fs::File::open(place.home().join("sessions/threads/held.jsonl")).unwrap();
    file.lock().unwrap();
    assert!(matches!(join.delete(&held), Err(Error::Log(LogError::Busy { .. }))));
    assert!(join.state().read(|tx| sessions::find(tx, &held)).unwrap().is_some_and(|row| row.deleted_at.is_none()));
    file.unlock().unwrap();
    join.delete(&held).unwrap();
    let row = &join.repairs_of(&held).unwrap()[0].repair;
    assert_eq!((row.action, row.bytes), (RepairAction::Deleted, 3));
    // As after a crash: the tombstone exists, and so do the files.
    let (id, at) = (begun.clone(), join.clock().now());
    let path = "sessions/threads/begun.jsonl";
    join.state().write(duolog_types::Durability::Power, move |tx| sessions::tombstone(tx, &id, path, at)).unwrap();
    drop(join);
    let join = open(place);
    assert!(join.state().read(|tx| sessions::find(tx, &begun)).unwrap().is_none());
    assert!(!place.home().join("sessions/threads/begun.jsonl").exists());
}

fn a_log_deletion_whose_file_stays_reports_the_deletion(place: &Place) {
    for fault in [CallKind::Unlink, CallKind::SyncDir] {
        let (disk, home) = (SimDisk::new(), HomeId::new());
        let join = open_on(place, &disk, home);
        let id = session(&join, &format!("{fault:?}").to_lowercase());
        join.append(&id, &batch(&["{\"n\":1}"]), &POWER).unwrap();
        let operation = OperationId::parse(&format!("d-{fault:?}")).unwrap();
        let key = IdempotencyKey::new("delete_log", &operation, &id).unwrap();
        disk.fail_every(fault, Fault::Error(EIO));
        for attempt in 0..2 {
            let error = join.remove_log_once(Some(&key), &id, None).expect_err("the disk fails");
            assert!(matches!(error, Error::Unfinished { .. }), "{fault:?}, attempt {attempt}: {error:?}");
            assert!(error.to_string().contains("log of session"), "{error}");
        }
        disk.heal();
        assert_eq!(join.remove_log_once(Some(&key), &id, None).unwrap().bytes, 8);
        assert_eq!(lines(&join, &id), Vec::<String>::new());
        let row = join.state().read(|tx| sessions::find(tx, &id)).unwrap().unwrap();
        assert!(!row.unlink_due, "{fault:?}");
    }
}

fn a_session_deletion_whose_row_stays_reports_the_deletion(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{}");
    let refuse = Sql::each(
        "CREATE TRIGGER refuse BEFORE DELETE ON sessions BEGIN SELECT RAISE(ABORT, 'refused'); END",
        "CREATE RULE refuse AS ON DELETE TO sessions DO INSTEAD SELECT 1 / 0",
    );
    place.open().write(Durability::Power, move |tx| tx.execute(refuse, &[]).map(drop)).unwrap();
    let error = join.delete(&id).expect_err("the row stays");
    assert!(matches!(error, Error::Unfinished { .. }), "{error:?}");
    assert!(matches!(join.append(&id, &batch(&["{}"]), &PROCESS), Err(Error::Deleted(_) | Error::NoSession(_))));
    let allow = Sql::each("DROP TRIGGER refuse", "DROP RULE refuse ON sessions");
    place.open().write(Durability::Power, move |tx| tx.execute(allow, &[]).map(drop)).unwrap();
    drop(join);
    let row = open(place).state().read(|tx| sessions::find(tx, &id)).unwrap();
    assert!(row.is_none(), "the next open removes the row");
}

fn blobs_are_kept_while_a_log_lacks_recorded_bytes(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{\"n\":1}");
    put(&join, &id, "{\"n\":2}");
    join.catch_up(u64::MAX).unwrap();
    let (logs, away) = (place.home().join("sessions"), place.home().join("sessions.away"));
    let file = logs.join("threads/s.jsonl");
    let whole = std::fs::read(&file).unwrap();
    let refused = |what: &str| {
        let error = join.count_blobs(|_| ()).and_then(duolog_join::BlobScan::prune).expect_err(what);
        assert!(matches!(&error, Error::LogLost { session, .. } if *session == id), "{what}: {error:?}");
    };
    std::fs::rename(&logs, &away).unwrap();
    refused("the logs are away");
    std::fs::rename(&away, &logs).unwrap();
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(8).unwrap();
    refused("the log was cut");
    std::fs::write(&file, b"{\"n\":3}\n{\"n\":4}\n").unwrap();
    refused("the log was replaced");
    std::fs::write(&file, whole).unwrap();
    assert!(join.count_blobs(|_| ()).unwrap().prune().unwrap().removed.is_empty());
}
