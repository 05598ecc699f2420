use std::collections::BTreeMap;
use std::path::PathBuf;

use duolog_log::{
    Append, LogIdentity, MendKind, Place, Segment, TornRecord, Watermark, Writer, hash_line, torn_records,
};
use duolog_testkit::disk::{EIO, ENOSPC};
use duolog_testkit::{CallKind, Crash, Fault, Loss, SimDisk};
use duolog_types::Position;
use serde::de::IgnoredAny;

use crate::kit::{self, LOG, PROCESS, batch, limits, open, open_known, put, raw, reader, reopen, rewrite_log, writer};

const LINES: &str = "{\"a\":\"é 日本 😀\"}\n\
                     {\"crlf\":1}\r\n\
                     {\"sep\":\"x\u{2028}y\u{2029}\u{85}\"}\n\
                     {\"lone\":\"\\ud83d\",\"nul\":\"\\u0000\"}\n\
                     \x20{ \"deep\" : [ { \"b\" : [ ] } , null ] }\t\n\
                     {}\n";

fn is_complete_object(fragment: &[u8]) -> bool {
    let text = std::str::from_utf8(fragment).unwrap_or("");
    text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// After a crash at any byte the log opens, keeps every complete line, and accepts the next append.
#[test]
fn any_prefix_of_a_log_opens() {
    for cut in 0..=LINES.len() {
        let bytes = &LINES.as_bytes()[..cut];
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let fragment = &bytes[whole..];
        let disk = SimDisk::new();
        disk.write(LOG, bytes);
        let (log, recovery) = open(&disk).expect("opens");
        assert_eq!(recovery.identity, LogIdentity::Same);

        let mut expected = bytes.to_vec();
        let kind = match fragment {
            [] => None,
            _ if is_complete_object(fragment) => {
                expected.push(b'\n');
                Some(MendKind::Completed)
            }
            _ => {
                expected.truncate(whole);
                Some(MendKind::Quarantined)
            }
        };
        assert_eq!(recovery.mend.map(|mend| mend.kind), kind, "cut at byte {cut}");
        if let Some(mend) = recovery.mend {
            assert_eq!((mend.position.0, mend.bytes), (whole as u64, fragment.len() as u64), "cut at byte {cut}");
            assert_eq!(mend.hash, hash_line(fragment));
        }
        assert_eq!(disk.read(LOG).unwrap(), expected, "cut at byte {cut}");
        assert_eq!(recovery.end, Position(expected.len() as u64));

        let records = torn_records(&disk.as_disk(), LOG.as_ref()).unwrap();
        if kind == Some(MendKind::Quarantined) {
            let blake3 = blake3::hash(fragment).to_hex().to_string();
            let record = TornRecord { position: whole as u64, len: fragment.len() as u64, blake3 };
            assert_eq!(records, [record], "cut at byte {cut}");
            let saved = disk.read(kit::torn()).unwrap();
            assert_eq!(saved[saved.len() - fragment.len() - 1..], [fragment, b"\n"].concat());
        } else {
            assert!(records.is_empty() && disk.read(kit::torn()).is_none(), "cut at byte {cut}");
        }

        let before = disk.snapshot();
        assert_eq!(open(&disk).expect("opens again").1.mend, None);
        assert_eq!(disk.snapshot(), before, "opening twice changes no byte (cut at {cut})");
        put(&log, "{\"next\":1}");
        expected.extend_from_slice(b"{\"next\":1}\n");
        assert_eq!(disk.read(LOG).unwrap(), expected, "cut at byte {cut}");
    }
}

/// The fragment appears while a writer has the log open.
#[test]
fn a_fragment_that_another_process_left_is_mended_by_the_next_append() {
    let fragment = "{\"left\":\"é\"}";
    for cut in 1..=fragment.len() {
        let disk = SimDisk::new();
        let log = writer(&disk);
        put(&log, "{\"a\":1}");
        raw(&disk.process()).unwrap().append(&fragment.as_bytes()[..cut]).unwrap();
        let next = put(&log, "{\"b\":1}");
        let whole = cut == fragment.len();
        assert_eq!(next.mend.unwrap().kind, if whole { MendKind::Completed } else { MendKind::Quarantined });
        let between = if whole { "{\"left\":\"é\"}\n" } else { "" };
        assert_eq!(kit::read(&disk), format!("{{\"a\":1}}\n{between}{{\"b\":1}}\n"));
        assert_eq!(next.start, Position(8 + between.len() as u64));
    }
}

#[test]
fn fragments_are_collected_in_one_file_in_order() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&log, "{}");
    let fragments: [&[u8]; 4] = [b"{\"a", b"\0\0\0\0", b"{\"b\":\"\xff", b"nope\n{\"c"];
    for fragment in fragments {
        raw(&disk.process()).unwrap().append(fragment).unwrap();
        put(&log, "{}");
    }
    let records = torn_records(&disk.as_disk(), LOG.as_ref()).unwrap();
    assert_eq!(
        records.iter().map(|record| (record.position, record.len)).collect::<Vec<_>>(),
        [(3, 3), (6, 4), (9, 7), (17, 3)]
    );
    assert_eq!(kit::read(&disk), "{}\n{}\n{}\n{}\nnope\n{}\n", "a damaged line in the middle is not a torn tail");
}

#[test]
fn bytes_below_the_seal_are_terminated_and_never_cut() {
    let text = "{\"a\":1}\n{\"b\":\"é\"}\n";
    for cut in 9..text.len() {
        for by_rewrite in [false, true] {
            let disk = SimDisk::new();
            let known = Watermark { sealed_to: Position(text.len() as u64), ..Watermark::default() };
            disk.write(LOG, &text.as_bytes()[..cut]);
            let expected = [&text.as_bytes()[..cut], b"\n"].concat();
            if by_rewrite {
                let done = duolog_log::rewrite(&disk.as_disk(), &kit::place(), known.sealed_to, &limits(), |_| Ok(()))
                    .unwrap();
                assert_eq!(done.mend.unwrap().kind, MendKind::Terminated);
                assert_eq!(done.end, Position(cut as u64 + 1));
            } else {
                let (log, recovery) = open_known(&disk, &known).unwrap();
                assert_eq!(recovery.identity, LogIdentity::Shorter(Position(cut as u64)));
                assert_eq!(recovery.mend.unwrap().kind, MendKind::Terminated, "cut at byte {cut}");
                assert_eq!(recovery.end, Position(cut as u64 + 1));
                put(&log, "{}");
            }
            assert!(disk.read(LOG).unwrap().starts_with(&expected), "cut at byte {cut}");
            assert_eq!(disk.read(kit::torn()), None);
        }
    }
}

#[test]
fn a_fragment_is_cut_down_to_a_seal_made_while_the_log_was_open() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    let end = put(&log, "{}").end;
    log.sealed(end);
    raw(&disk.process()).unwrap().append(b"{\"a").unwrap();
    assert_eq!(put(&log, "{}").mend.unwrap().kind, MendKind::Quarantined, "it is above the seal");
    log.sealed(Position(end.0 + 100));
    raw(&disk.process()).unwrap().append(b"{\"b").unwrap();
    assert_eq!(put(&log, "{}").mend.unwrap().kind, MendKind::Terminated);
    assert_eq!(kit::read(&disk), "{}\n{}\n{\"b\n{}\n");
}

#[test]
fn a_log_is_compared_with_what_the_state_knows() {
    let (first, second) = ("{\"a\":1}", "{\"b\":22}");
    let bytes = format!("{first}\n{second}\n");
    let (mid, end) = (Position(8), Position(17));
    let folded = |at, line: &str| Some((at, hash_line(line.as_bytes())));
    let cases = [
        (Watermark::default(), LogIdentity::Same),
        (
            Watermark { sealed_to: end, recorded_to: end, folded: folded(end, second), ..Watermark::default() },
            LogIdentity::Same,
        ),
        (Watermark { folded: folded(mid, first), ..Watermark::default() }, LogIdentity::Same),
        (Watermark { recorded_to: Position(18), ..Watermark::default() }, LogIdentity::Shorter(end)),
        (Watermark { sealed_to: Position(18), ..Watermark::default() }, LogIdentity::Shorter(end)),
        (Watermark { folded: folded(mid, second), ..Watermark::default() }, LogIdentity::Replaced),
        (Watermark { folded: folded(Position(5), second), ..Watermark::default() }, LogIdentity::Replaced),
        (Watermark { folded: folded(Position(40), second), ..Watermark::default() }, LogIdentity::Replaced),
    ];
    for (known, expected) in cases {
        let disk = SimDisk::new();
        disk.write(LOG, bytes.as_bytes());
        assert_eq!(open_known(&disk, &known).unwrap().1.identity, expected, "{known:?}");
        assert_eq!(kit::read(&disk), bytes);
        let missing = if known.recorded_to.max(known.sealed_to) > Position::ZERO {
            LogIdentity::Missing
        } else {
            LogIdentity::Same
        };
        assert_eq!(open_known(&SimDisk::new(), &known).unwrap().1.identity, missing, "{known:?}");
    }
}

/// After archiving, all folded lines are in sealed segments, and the hot file has nothing to compare.
#[test]
fn a_log_whose_hot_file_starts_where_the_fold_stopped_is_the_same_log() {
    let disk = SimDisk::new();
    disk.write("scope/0", b"{\"a\":1}\n");
    let place = Place {
        path: LOG.into(),
        base: Position(8),
        sealed: vec![Segment { path: "scope/0".into(), base: Position::ZERO, end: Position(8) }],
    };
    let known = Watermark {
        sealed_to: Position(8),
        recorded_to: Position(8),
        folded: Some((Position(8), hash_line(b"{\"a\":1}"))),
        ..Watermark::default()
    };
    for hot in [&b""[..], b"{\"b\":1}\n"] {
        disk.write(LOG, hot);
        let (log, recovery) = Writer::open(&disk.as_disk(), &place, &known, &limits()).unwrap();
        assert_eq!(recovery.identity, LogIdentity::Same);
        assert_eq!(recovery.end, Position(8 + hot.len() as u64));
        assert_eq!(put(&log, "{}").start, recovery.end);
    }
}

/// The log that both crash tests below repair: complete lines, then a fragment.
fn torn_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.write(LOG, "{\"a\":1}\n{\"b\":\"é\"}\n{\"torn\":\"é".as_bytes());
    disk
}

/// Every file except the torn one, and the records of that one: an unfinished record may be between its records.
fn comparable_content(disk: &SimDisk) -> (BTreeMap<PathBuf, Vec<u8>>, Vec<TornRecord>) {
    let mut files = disk.snapshot();
    files.remove(&kit::torn());
    (files, torn_records(&disk.as_disk(), LOG.as_ref()).unwrap())
}

/// After a crash at any call of a repair, and at any written byte, the next repair has the same result.
fn crash_at_every_call(prepare: impl Fn() -> SimDisk, repair: impl Fn(&SimDisk) -> bool) {
    let whole = prepare();
    assert!(repair(&whole));
    drop(reopen(&whole));
    let expected = comparable_content(&whole);
    let losses: Vec<Crash> = Loss::all(6).into_iter().map(Crash::Power).chain([Crash::Process]).collect();
    for call in whole.calls() {
        let bytes = if call.kind == CallKind::Append { call.len } else { 0 };
        let mut faults: Vec<Fault> = vec![Fault::Error(EIO), Fault::Error(ENOSPC), Fault::Stop { after_bytes: None }];
        faults.extend((1..=bytes).map(|n| Fault::Stop { after_bytes: usize::try_from(n).ok() }));
        faults.extend((0..bytes).map(|n| Fault::Short(usize::try_from(n).unwrap())));
        for fault in faults {
            let disk = prepare();
            disk.fail_at(call.index, fault);
            let done = repair(&disk);
            let what = format!("{fault:?} at {call:?}");
            for crash in &losses {
                let image = disk.crash(*crash);
                drop(reopen(&image));
                assert_eq!(comparable_content(&image), expected, "{what}, then {crash:?}");
                let once = image.snapshot();
                drop(reopen(&image));
                assert_eq!(image.snapshot(), once, "{what}, then {crash:?}: repairing twice changes no byte");
                assert!(put(&writer(&image), "{}").mend.is_none());
            }
            if !disk.has_stopped() && !done {
                drop(reopen(&disk));
                assert_eq!(comparable_content(&disk), expected, "{what}, then a retry");
            }
        }
    }
}

#[test]
fn a_crash_inside_the_quarantine_is_recovered_to_the_same_bytes() {
    crash_at_every_call(torn_disk, |disk| open(disk).is_ok());
}

#[test]
fn a_crash_inside_a_rewrite_is_recovered_to_the_same_bytes() {
    let poisoned = || {
        let disk = torn_disk();
        let file = raw(&disk).unwrap();
        file.set_mode(0o400).unwrap();
        file.sync().unwrap();
        disk.crash(Crash::Process)
    };
    crash_at_every_call(poisoned, |disk| rewrite_log(disk).is_ok());
}

/// After a failed repair the writer knows that there is still a tail to repair.
#[test]
fn an_append_never_joins_a_fragment_that_could_not_be_repaired() {
    let prepare = || {
        let disk = SimDisk::new();
        let log = writer(&disk);
        put(&log, "{\"a\":1}");
        raw(&disk.process()).unwrap().append(b"{\"torn").unwrap();
        (disk, log)
    };
    let (disk, log) = prepare();
    let from = disk.call_count();
    put(&log, "{\"b\":1}");
    for index in from..disk.call_count() {
        for errno in [EIO, ENOSPC] {
            let (disk, log) = prepare();
            disk.fail_at(index, Fault::Error(errno));
            let first = log.append(&batch("{\"b\":1}"), &PROCESS);
            let second = log.append(&batch("{\"c\":1}"), &PROCESS);
            drop(reopen(&disk));
            let mut expected = "{\"a\":1}\n".to_owned();
            for (acknowledged, line) in [(first.is_ok(), "{\"b\":1}\n"), (second.is_ok(), "{\"c\":1}\n")] {
                expected.push_str(if acknowledged { line } else { "" });
            }
            assert_eq!(kit::read(&disk), expected, "error {errno} at {:?}", disk.calls()[index]);
            assert_eq!(torn_records(&disk.as_disk(), LOG.as_ref()).unwrap().len(), 1);
        }
    }
}

#[test]
fn a_reader_never_sees_a_fragment() {
    let disk = torn_disk();
    let log = reader(&disk);
    assert_eq!(log.stable_end(limits().busy_timeout).unwrap(), Position(19));
    open(&disk).unwrap();
    assert_eq!(log.stable_end(limits().busy_timeout).unwrap(), Position(19));
}

#[test]
fn damage_in_a_torn_file_hides_no_other_record_and_cuts_none() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&log, "{}");
    for fragment in ["{\"a", "{\"b", "{\"c"] {
        raw(&disk.process()).unwrap().append(fragment.as_bytes()).unwrap();
        put(&log, "{}");
    }
    let mut saved = disk.read(kit::torn()).unwrap();
    let second = saved.windows(3).position(|bytes| bytes == b"{\"b").unwrap();
    saved[second] ^= 1;
    // The last record is unfinished.
    saved.extend_from_slice(b"{\"position\":99,\"len\":40,");
    disk.write(kit::torn(), &saved);
    raw(&disk.process()).unwrap().append(b"{\"d").unwrap();
    put(&log, "{}");
    let positions: Vec<u64> =
        torn_records(&disk.as_disk(), LOG.as_ref()).unwrap().iter().map(|record| record.position).collect();
    assert_eq!(positions, [3, 9, 12]);
    assert!(disk.read(kit::torn()).unwrap().starts_with(&saved));
}

#[test]
fn a_repair_is_reported_even_if_the_append_after_it_fails() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&log, "{}");
    raw(&disk.process()).unwrap().append(b"{\"a").unwrap();
    let how = Append { if_position: Some(Position(99)), ..PROCESS };
    assert!(log.append(&batch("{}"), &how).is_err());
    let deferred = log.take_deferred_mends();
    assert_eq!(deferred.iter().map(|mend| mend.kind).collect::<Vec<_>>(), [MendKind::Quarantined]);
    assert!(log.take_deferred_mends().is_empty(), "once");
}

#[test]
fn a_writer_notices_that_its_bytes_were_overwritten_in_place() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&log, "{\"mine\":1}");
    disk.write(LOG, b"{\"other\":1}\n{\"other\":2}\n");
    let refused = log.append(&batch("{\"mine\":2}"), &PROCESS);
    assert!(matches!(refused, Err(duolog_log::Error::Overwritten(_))), "{refused:?}");
    assert_eq!(log.compare_with_path(Position::ZERO).unwrap(), LogIdentity::Replaced);
    assert_eq!(kit::read(&disk), "{\"other\":1}\n{\"other\":2}\n");
}
