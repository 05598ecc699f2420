use std::sync::Arc;

use duolog_log::{Claim, Error, Lock, Open, Place, Reader, SyncLog, Watermark, Writer, sync_logs};
use duolog_testkit::disk::{EIO, ENOSPC};
use duolog_testkit::{CallKind, Crash, Fault, Loss, SimDisk};
use duolog_types::Position;

use crate::kit::{self, LOG, POWER, PROCESS, batch, limits, open, put, raw, reader, rewrite_log, writer};

fn is_poisoned(error: &Error) -> bool {
    matches!(error, Error::Poisoned(path) if path.as_os_str() == LOG)
}

#[test]
fn a_short_write_is_taken_back_and_reported_as_full() {
    let text = "{\"b\":\"é\"}\n{\"c\":1}\n";
    for fault in (0..text.len()).map(Fault::Short).chain([Fault::Error(ENOSPC)]) {
        let disk = SimDisk::new();
        let log = writer(&disk);
        put(&log, "{\"a\":1}");
        disk.fail_kind_from(CallKind::Append, 0, fault);
        let error = log.append(&batch(text), &POWER).unwrap_err();
        assert!(matches!(error, Error::Full(_)), "{fault:?}: {error}");
        assert_eq!(kit::read(&disk), "{\"a\":1}\n");
        assert_eq!(put(&log, text).start, Position(8), "there is space again");
        assert_eq!(disk.mode(LOG), Some(0o600));
    }
}

#[test]
fn a_write_that_cannot_be_taken_back_closes_the_log() {
    for fault in [Fault::Short(3), Fault::Error(ENOSPC), Fault::Error(EIO)] {
        let disk = SimDisk::new();
        let log = writer(&disk);
        put(&log, "{\"a\":1}");
        let other = writer(&disk.process());
        disk.fail_kind_from(CallKind::Append, 0, fault);
        disk.fail_kind_from(CallKind::SetLen, 0, Fault::Error(EIO));
        let error = log.append(&batch("{\"b\":1}"), &PROCESS).unwrap_err();
        assert!(!matches!(error, Error::Full(_)), "{fault:?}: it was not rolled back: {error}");
        closed_until_rewritten(&disk, &[&log, &other], "{\"a\":1}\n");
    }
}

#[test]
fn a_write_that_fails_closes_the_log() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&log, "{\"a\":1}");
    let other = writer(&disk.process());
    disk.fail_kind_from(CallKind::Append, 0, Fault::Error(EIO));
    let error = log.append(&batch("{\"b\":1}"), &PROCESS).unwrap_err();
    assert!(matches!(error, Error::Closed { .. }), "{error}");
    closed_until_rewritten(&disk, &[&log, &other], "{\"a\":1}\n");
}

#[test]
fn a_sync_that_fails_closes_the_log_and_keeps_what_was_synced_before() {
    for kind in [CallKind::Sync, CallKind::SyncDir] {
        let disk = SimDisk::new();
        let log = writer(&disk);
        if kind == CallKind::Sync {
            log.append(&batch("{\"a\":1}"), &POWER).unwrap();
        } else {
            put(&log, "{\"a\":1}");
        }
        let other = writer(&disk.process());
        disk.fail_kind_from(kind, 0, Fault::Error(EIO));
        assert!(is_poisoned(&log.append(&batch("{\"b\":1}"), &POWER).unwrap_err()));
        assert!(is_poisoned(&log.sync_to(Position(8)).map(|_| ()).err().unwrap_or(Error::Poisoned(LOG.into()))));
        closed_until_rewritten(&disk, &[&log, &other], "{\"a\":1}\n{\"b\":1}\n");
    }
}

/// Checks that no writer can append to a closed log, and that a rewrite opens it with all readable bytes.
fn closed_until_rewritten(disk: &SimDisk, writers: &[&duolog_log::Writer], expected: &str) {
    assert_eq!(disk.mode(LOG), Some(0o400));
    let before = disk.snapshot();
    for (which, log) in writers.iter().enumerate() {
        for how in [&PROCESS, &POWER] {
            let error = log.append(&batch("{\"no\":1}"), how).unwrap_err();
            assert!(is_poisoned(&error), "writer {which}: {error}");
        }
    }
    assert!(is_poisoned(&open(disk).map(|_| ()).unwrap_err()));
    assert_eq!(disk.snapshot(), before);

    let end = rewrite_log(disk).unwrap().end;
    assert_eq!(kit::read(disk), expected);
    assert_eq!(end, Position(expected.len() as u64));
    assert_eq!(disk.mode(LOG), Some(0o600));
    for loss in Loss::all(3) {
        assert_eq!(kit::read(&disk.crash(Crash::Power(loss))), expected, "{loss:?}");
    }
    for log in writers {
        let error = log.append(&batch("{\"no\":1}"), &PROCESS).unwrap_err();
        assert!(is_poisoned(&error) || matches!(error, Error::Replaced(_)), "the old file is not the log: {error}");
    }
    writer(disk).append(&batch("{\"c\":1}"), &POWER).unwrap();
    assert_eq!(kit::read(&disk.crash(Crash::Power(Loss::DropUnsynced))), format!("{expected}{{\"c\":1}}\n"));
}

/// The page cache shows bytes that the device does not have; a later successful sync does not change that.
#[test]
fn after_a_failed_sync_no_later_sync_is_believed() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    log.append(&batch("{\"a\":1}"), &POWER).unwrap();
    let reader = reader(&disk);
    disk.fail_kind_from(CallKind::Sync, 0, Fault::Error(EIO));
    // Even if the mode cannot be set, this writer knows that its sync failed.
    disk.fail_kind_from(CallKind::SetMode, 0, Fault::Error(EIO));
    assert!(is_poisoned(&log.append(&batch("{\"b\":1}"), &POWER).unwrap_err()));
    assert!(is_poisoned(&log.sync_to(Position(16)).unwrap_err()));
    assert_eq!(log.synced().position(), Position(8));
    drop(reader);
}

#[test]
fn a_readers_failed_sync_closes_the_log_even_while_someone_is_inside() {
    for busy in [false, true] {
        let disk = SimDisk::new();
        let log = writer(&disk);
        put(&log, "{}");
        let reader = reader(&disk);
        let other = disk.process();
        let file = raw(&other).unwrap();
        let (holds, path) = (file.clone(), LOG.to_owned());
        // The lock is taken between the stat and the sync.
        disk.on_call(Arc::new(move |call| {
            if busy && call.kind == CallKind::Sync && call.path.as_os_str() == path.as_str() {
                assert!(holds.try_lock(Lock::Exclusive).unwrap());
            }
        }));
        disk.fail_kind_from(CallKind::Sync, 0, Fault::Error(EIO));
        let mut synced = sync_logs(&[SyncLog { reader: &reader, with_name: false }], limits().busy_timeout);
        assert!(is_poisoned(&synced.pop().unwrap().unwrap_err()), "busy: {busy}");
        file.unlock().unwrap();
        assert_eq!(disk.mode(LOG), Some(0o400));
        assert!(is_poisoned(&log.append(&batch("{}"), &PROCESS).unwrap_err()));
    }
}

/// Enough logs for several threads.
const MANY: usize = 40;

fn many_logs(disk: &SimDisk) -> Vec<Place> {
    let places: Vec<Place> = (0..MANY).map(|n| Place::file(format!("scope-{}/{n}.jsonl", n % 2))).collect();
    for place in &places {
        let (log, _) = Writer::open(&disk.as_disk(), place, &Watermark::default(), &limits()).unwrap();
        put(&log, "{}");
    }
    places
}

fn sync_many(disk: &SimDisk, places: &[Place]) -> Vec<duolog_log::Result<duolog_log::Synced>> {
    let open = |place| Reader::open(&disk.as_disk(), place).unwrap().unwrap();
    let readers: Vec<Reader> = places.iter().map(open).collect();
    let logs: Vec<SyncLog<'_>> = readers.iter().map(|reader| SyncLog { reader, with_name: true }).collect();
    sync_logs(&logs, limits().busy_timeout)
}

#[test]
fn logs_that_are_synced_together_survive_a_power_cut_and_each_directory_is_synced_once() {
    let disk = SimDisk::new();
    let places = many_logs(&disk);
    let before = disk.calls().len();
    for synced in sync_many(&disk, &places) {
        assert_eq!(synced.unwrap().position(), Position(3));
    }
    let kinds: Vec<CallKind> = disk.calls().iter().skip(before).map(|call| call.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == CallKind::Sync).count(), MANY);
    assert_eq!(kinds.iter().filter(|kind| **kind == CallKind::SyncDir).count(), 3);
    let left = disk.crash(Crash::Power(Loss::DropUnsynced));
    for place in &places {
        assert_eq!(left.read(&place.path).as_deref(), Some(&b"{}\n"[..]), "{}", place.path.display());
    }
}

#[test]
fn a_failed_sync_closes_only_its_own_log() {
    let disk = SimDisk::new();
    let places = many_logs(&disk);
    disk.fail_kind_from(CallKind::Sync, MANY - 1, Fault::Error(EIO));
    let synced = sync_many(&disk, &places);
    let failed: Vec<usize> = (0..MANY).filter(|at| synced[*at].is_err()).collect();
    assert_eq!(failed.len(), 1);
    for (at, place) in places.iter().enumerate() {
        assert_eq!(disk.mode(&place.path) == Some(0o400), at == failed[0], "{at}");
    }
}

#[test]
fn a_writers_failed_sync_closes_the_log_even_while_it_is_locked() {
    let disk = SimDisk::new();
    let (log, other) = (writer(&disk), disk.process());
    put(&log, "{}");
    let file = raw(&other).unwrap();
    let holds = file.clone();
    // Another process takes the lock after the line is written, and keeps it past the deadline.
    disk.on_call(Arc::new(move |call| {
        if call.kind == CallKind::Sync {
            assert!(holds.try_lock(Lock::Exclusive).unwrap());
        }
    }));
    disk.fail_kind_from(CallKind::Sync, 0, Fault::Error(EIO));
    assert!(is_poisoned(&log.append(&batch("{}"), &POWER).unwrap_err()));
    assert_eq!(disk.mode(LOG), Some(0o400));
    file.unlock().unwrap();
    disk.heal();
    assert!(is_poisoned(&log.append(&batch("{}"), &PROCESS).unwrap_err()));
    assert!(matches!(open(&other), Err(error) if is_poisoned(&error)));
}

#[test]
fn a_claim_does_not_open_a_log_that_a_failed_sync_closed() {
    for write_fails in [false, true] {
        let disk = SimDisk::new();
        let (log, other) = (writer(&disk), disk.process());
        put(&log, "{}");
        let file = raw(&other).unwrap();
        // A sync failed in another process: the log is closed, though its lock is held here.
        let mut claim = |_, _| {
            file.set_mode(0o400).unwrap();
            Claim::Made
        };
        if write_fails {
            disk.fail_kind_from(CallKind::Append, 0, Fault::Short(1));
        }
        let appended = log.append_claimed(&batch("{}"), &PROCESS, &mut claim, &mut || true);
        assert_eq!(appended.is_err(), write_fails);
        assert_eq!(disk.mode(LOG), Some(0o400), "the write fails: {write_fails}");
    }
}

#[test]
fn a_reader_syncs_up_to_the_last_complete_line() {
    let disk = SimDisk::new();
    put(&writer(&disk), "{\"a\":1}");
    raw(&disk.process()).unwrap().append(b"{\"b").unwrap();
    assert_eq!(reader(&disk).sync_with_name(limits().busy_timeout).unwrap().position(), Position(8));
    assert!(kit::read(&disk.crash(Crash::Power(Loss::DropUnsynced))).starts_with("{\"a\":1}\n"));
}

/// Between the stat and the lock another process may close the log after a disk error.
#[test]
fn a_log_that_is_closed_while_it_is_opened_is_not_repaired() {
    let disk = SimDisk::new();
    disk.write(LOG, b"{}\n{\"torn");
    let before = disk.snapshot();
    let file = raw(&disk.process()).unwrap();
    disk.on_call(Arc::new(move |call| {
        if call.kind == CallKind::Lock {
            file.set_mode(0o400).unwrap();
        }
    }));
    assert!(is_poisoned(&open(&disk).map(|_| ()).unwrap_err()));
    assert_eq!(disk.snapshot(), before);
}

#[test]
fn a_log_that_another_process_created_and_closed_is_refused() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&writer(&disk.process()), "{}");
    raw(&disk.process()).unwrap().set_mode(0o400).unwrap();
    assert!(is_poisoned(&log.append(&batch("{}"), &PROCESS).unwrap_err()));
}

#[test]
fn two_concurrent_rewrites_leave_one_log() {
    let disk = SimDisk::new();
    put(&writer(&disk), "{\"a\":1}");
    raw(&disk).unwrap().set_mode(0o400).unwrap();
    let (other, once) = (disk.process(), std::sync::Once::new());
    disk.on_call(Arc::new(move |call| {
        if call.kind == CallKind::Lock && call.process == 1 {
            once.call_once(|| {
                rewrite_log(&other).unwrap();
                put(&writer(&other), "{\"b\":1}");
            });
        }
    }));
    let error = rewrite_log(&disk).unwrap_err();
    assert!(matches!(error, Error::Replaced(_)), "{error}");
    assert_eq!(kit::read(&disk), "{\"a\":1}\n{\"b\":1}\n");
    assert_eq!(disk.snapshot().len(), 1);
}

#[test]
fn a_reader_of_the_old_file_still_reads_it() {
    let disk = SimDisk::new();
    put(&writer(&disk), "{\"a\":1}");
    let old = reader(&disk);
    rewrite_log(&disk).unwrap();
    put(&writer(&disk), "{\"b\":1}");
    assert_eq!(old.stable_end(limits().busy_timeout).unwrap(), Position(8));
    assert_ne!(old.ident(), reader(&disk).ident());
    assert!(disk.as_disk().open(LOG.as_ref(), Open::Append).is_ok());
}
