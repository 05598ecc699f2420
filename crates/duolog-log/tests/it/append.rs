use duolog_log::{Append, Error, LogIdentity, Synced, Watermark, Writer};
use duolog_testkit::{CallKind, SimDisk};
use duolog_types::limits::Limits;
use duolog_types::{Batch, Durability, Position};

use crate::kit::{self, LOG, POWER, PROCESS, batch, place, put, raw, writer};

#[test]
fn a_batch_is_at_the_returned_positions() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    let first = put(&log, "{\"a\":1}\n{\"b\":2}\n");
    assert_eq!((first.start, first.end, first.synced), (Position(0), Position(16), None));
    let second = log.append(&batch("{\"c\":3}"), &POWER).unwrap();
    assert_eq!((second.start, second.end), (Position(16), Position(24)));
    assert_eq!(second.synced.unwrap().position(), Position(24));
    assert_eq!(log.synced(), second.synced.unwrap());
    assert_eq!(log.written(), Position(24));
    assert_eq!(kit::read(&disk), "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n");
}

#[test]
fn an_append_costs_four_calls() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&log, "{}");
    let before = disk.call_count();
    put(&log, "{}");
    let kinds: Vec<_> = disk.calls()[before..].iter().map(|call| call.kind).collect();
    assert_eq!(kinds, [CallKind::Lock, CallKind::Stat, CallKind::Append, CallKind::Unlock]);
}

#[test]
fn nothing_is_written_if_the_log_does_not_end_at_the_expected_position() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    let at = |position| Append { if_position: Some(Position(position)), durability: Durability::Process };
    for (text, expected) in [("", 1), ("{}", 1)] {
        let error = log.append(&batch(text), &at(expected)).unwrap_err();
        assert!(matches!(error, Error::Moved { expected: Position(1), found: Position(0) }), "{error}");
    }
    let end = log.append(&batch("{}"), &at(0)).unwrap().end;
    for wrong in [0, end.0 - 1, end.0 + 1] {
        let error = log.append(&batch("{}"), &at(wrong)).unwrap_err();
        assert!(matches!(error, Error::Moved { found, .. } if found == end), "{error}");
    }
    // Another process appends first.
    put(&writer(&disk.process()), "{}");
    assert!(matches!(log.append(&batch("{}"), &at(end.0)), Err(Error::Moved { .. })));
    log.append(&batch("{}"), &at(end.0 * 2)).unwrap();
    assert_eq!(kit::read(&disk), "{}\n{}\n{}\n");
}

#[test]
fn an_empty_batch_writes_nothing_and_creates_no_file() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    for how in [&PROCESS, &POWER] {
        let nothing = log.append(&Batch::default(), how).unwrap();
        assert_eq!((nothing.start, nothing.end), (Position::ZERO, Position::ZERO));
    }
    assert!(disk.snapshot().is_empty());
    assert!(disk.mutations().is_empty());
    put(&log, "{}");
    let nothing = log.append(&Batch::default(), &PROCESS).unwrap();
    assert_eq!((nothing.start, nothing.end), (Position(3), Position(3)));
    assert_eq!(kit::read(&disk), "{}\n");
}

#[test]
fn an_empty_batch_returns_the_end_of_a_file_that_another_process_created() {
    let disk = SimDisk::new();
    let (early, other) = (writer(&disk), writer(&disk));
    assert_eq!(early.append(&batch(""), &PROCESS).unwrap().end, Position(0));
    put(&other, "{\"a\":1}");
    assert_eq!(early.append(&batch(""), &PROCESS).unwrap().end, Position(8));
    let at_start = Append { if_position: Some(Position(0)), ..PROCESS };
    assert!(matches!(early.append(&batch(""), &at_start), Err(Error::Moved { found: Position(8), .. })));
}

#[test]
fn an_empty_batch_with_power_durability_syncs_lines_of_other_processes() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&log, "{}");
    put(&writer(&disk.process()), "{\"other\":1}");
    let barrier = log.append(&Batch::default(), &POWER).unwrap();
    assert_eq!(barrier.end, Position(15));
    assert_eq!(barrier.synced.unwrap().position(), barrier.end);
}

#[test]
fn a_sync_covers_lines_of_other_processes_and_refuses_a_position_after_the_end() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    assert_eq!(log.sync_to(Position::ZERO).unwrap(), Synced::ZERO);
    put(&log, "{}");
    let end = put(&writer(&disk.process()), "{}").end;
    assert_eq!(log.sync_to(end).unwrap().position(), end);
    assert!(matches!(log.sync_to(Position(end.0 + 1)), Err(Error::BeyondEnd { .. })));
}

#[test]
fn a_batch_over_the_limit_is_refused_whole() {
    let disk = SimDisk::new();
    let limits = Limits { batch_bytes_max: 10, ..kit::limits() };
    let (log, _) = Writer::open(&disk.as_disk(), &place(), &Watermark::default(), &limits).unwrap();
    log.append(&batch("{\"a\":12}\n"), &PROCESS).unwrap();
    let fits = batch("{}\n{}\n{}\n");
    log.append(&fits, &PROCESS).unwrap();
    let error = log.append(&batch("{}\n{}\n{\"a\":1}\n"), &PROCESS).unwrap_err();
    assert!(matches!(error, Error::BatchTooLarge { bytes: 14, max: 10 }), "{error}");
    assert_eq!(kit::read(&disk), "{\"a\":12}\n{}\n{}\n{}\n");
}

#[test]
fn ten_thousand_lines_are_one_write() {
    let disk = SimDisk::new();
    let text: String = (0..10_000).flat_map(|n| ["{\"n\":".into(), n.to_string(), "}\n".into()]).collect();
    writer(&disk).append(&batch(&text), &POWER).unwrap();
    assert_eq!(kit::read(&disk), text);
    assert_eq!(disk.calls().iter().filter(|call| call.kind == CallKind::Append).count(), 1);
}

#[test]
fn append_absent_appends_only_absent_lines() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    let floor = put(&log, "{\"a\":1}\n{\"below\":1}").end;
    put(&log, "{\"b\":1}\n{\"c\":1}");
    let wanted = batch("{\"b\":1}\n{\"d\":1}\n{\"below\":1}");
    let done = log.append_absent(&wanted, floor).unwrap();
    assert_eq!(kit::read(&disk)[usize::try_from(done.start.0).unwrap()..], *"{\"d\":1}\n{\"below\":1}\n");
    let before = disk.snapshot();
    let again = writer(&disk.process()).append_absent(&wanted, floor).unwrap();
    assert_eq!((again.start, again.end), (done.end, done.end));
    assert_eq!(disk.snapshot(), before);
    // The same bytes inside another line are not the line.
    put(&log, "{\"x\":{\"e\":1}}");
    let end = log.append_absent(&batch("{\"e\":1}"), done.end).unwrap().end;
    assert_eq!(end, Position(disk.read(LOG).unwrap().len() as u64));
    assert!(kit::read(&disk).ends_with("\n{\"e\":1}\n"));
}

/// Lines that another process appends before the lock are compared under the lock, even after a torn tail.
#[test]
fn append_absent_finds_a_line_of_another_process_under_the_lock() {
    for torn in [false, true] {
        let disk = SimDisk::new();
        let log = writer(&disk);
        let floor = put(&log, "{\"a\":1}").end;
        let (other, once) = (raw(&disk.process()).unwrap(), std::sync::Once::new());
        disk.on_call(std::sync::Arc::new(move |call| {
            if call.process == 1 && call.kind == CallKind::Unlock {
                let line: &[u8] = if torn { b"{\"b\":1}" } else { b"{\"b\":1}\n" };
                once.call_once(|| assert_eq!(other.append(line).unwrap(), line.len()));
            }
        }));
        let done = log.append_absent(&batch("{\"b\":1}"), floor).unwrap();
        assert_eq!((done.start, done.end, done.mend.is_some()), (Position(16), Position(16), torn));
        assert_eq!(kit::read(&disk), "{\"a\":1}\n{\"b\":1}\n");
    }
}

#[test]
fn a_refused_writer_compares_its_bytes_with_those_at_the_path() {
    type Change = fn(&SimDisk);
    let cases: [(&str, Change, LogIdentity); 5] = [
        ("nothing", |_| {}, LogIdentity::Same),
        ("a copy that went on", |disk| disk.replace(LOG, b"{\"a\":1}\n{\"b\":1}\n{}\n"), LogIdentity::Same),
        ("other bytes", |disk| disk.replace(LOG, b"{\"a\":1}\n{\"x\":1}\n{}\n"), LogIdentity::Replaced),
        ("a shorter file", |disk| disk.replace(LOG, b"{\"a\":1}\n{\"b\":1}"), LogIdentity::Shorter(Position(8))),
        ("no file", |disk| disk.remove(LOG), LogIdentity::Missing),
    ];
    for (what, change, expected) in cases {
        let disk = SimDisk::new();
        let log = writer(&disk);
        put(&log, "{\"a\":1}\n{\"b\":1}");
        change(&disk);
        assert_eq!(log.compare_with_path(Position(8)).unwrap(), expected, "{what}");
        assert_eq!(log.compare_with_path(Position(16)).unwrap(), LogIdentity::Same, "{what}: nothing to compare");
    }
}

/// A hot file with a base does not contain the bytes below it.
#[test]
fn a_comparison_starts_at_the_hot_file() {
    let disk = SimDisk::new();
    let place = duolog_log::Place { base: Position(100), ..place() };
    let (log, _) = Writer::open(&disk.as_disk(), &place, &Watermark::default(), &kit::limits()).unwrap();
    assert_eq!(put(&log, "{}").start, Position(100));
    assert_eq!(log.compare_with_path(Position::ZERO).unwrap(), LogIdentity::Same);
    assert_eq!(log.append_absent(&batch("{}"), Position::ZERO).unwrap().end, Position(103));
}

#[test]
fn a_truncated_deleted_or_replaced_log_is_refused_until_it_is_reopened() {
    type Change = fn(&SimDisk);
    type Check = fn(&Error) -> bool;
    let cases: [(&str, Change, Check); 4] = [
        ("cut", |disk| disk.write(LOG, b"{}\n"), |e| matches!(e, Error::Shrunk { found: Position(3), .. })),
        ("deleted", |disk| disk.remove(LOG), |e| matches!(e, Error::Replaced(_))),
        ("replaced by a copy", |disk| disk.replace(LOG, &disk.read(LOG).unwrap()), |e| matches!(e, Error::Replaced(_))),
        ("replaced", |disk| disk.replace(LOG, b"{}\n"), |e| matches!(e, Error::Replaced(_))),
    ];
    for (what, change, is_right) in cases {
        let disk = SimDisk::new();
        let log = writer(&disk);
        put(&log, "{\"a\":1}");
        change(&disk);
        let before = disk.snapshot();
        for _ in 0..2 {
            let error = log.append(&batch("{\"lost\":1}"), &PROCESS).unwrap_err();
            assert!(is_right(&error), "{what}: {error}");
            // The writer stays closed even if the file is restored.
            assert_eq!(disk.snapshot(), before, "{what}: nothing was written anywhere");
        }
        put(&writer(&disk), "{\"anew\":1}");
        assert!(kit::read(&disk).ends_with("{\"anew\":1}\n"), "{what}");
    }
}

#[test]
fn a_log_is_locked_only_while_it_is_written() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&log, "{}");
    let other = disk.process();
    let file = raw(&other).unwrap();
    assert!(file.try_lock(duolog_log::Lock::Exclusive).unwrap(), "no writer holds the lock");
    let error = log.append(&batch("{}"), &PROCESS).unwrap_err();
    assert!(matches!(&error, Error::Busy { holder: Some(pid), .. } if *pid == other.pid()), "{error}");
    assert!(matches!(kit::open(&disk), Err(Error::Busy { .. })));
    assert!(matches!(kit::reader(&disk).stable_end(kit::limits().busy_timeout), Err(Error::Busy { .. })));
    other.stop();
    put(&log, "{}");
    assert_eq!(kit::read(&disk), "{}\n{}\n");
}
