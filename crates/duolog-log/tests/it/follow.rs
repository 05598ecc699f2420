use duolog_log::{Error, Follower, Item, Lock, Place, Polled, ResetReason, Segment};
use duolog_testkit::disk::EIO;
use duolog_testkit::{CallKind, Fault, SimDisk};
use duolog_types::Position;

use crate::kit::{LOG, POWER, PROCESS, batch, limits, open, place, put, raw, rewrite_log, writer};

/// A follower and the lines that it delivered.
struct Watch {
    follower: Follower,
    lines: Vec<String>,
}

impl Watch {
    fn from(disk: &SimDisk, place: &Place, position: u64) -> Self {
        let limits = limits();
        let follower =
            Follower::new(&disk.as_disk(), place, Position(position), limits.busy_timeout, limits.line_bytes_max);
        Self { follower, lines: Vec::new() }
    }

    fn new(disk: &SimDisk) -> Self {
        Self::from(disk, &place(), 0)
    }

    fn poll(&mut self) -> duolog_log::Result<Polled> {
        let lines = &mut self.lines;
        self.follower.poll(&mut |item| match item {
            Item::Line(line) => lines.push(String::from_utf8(line.bytes.to_vec()).expect("text")),
            Item::TooLong { .. } => lines.push("too long".into()),
        })
    }

    /// Polls until nothing is new; returns the resets in order.
    fn drain(&mut self) -> Vec<(u64, ResetReason)> {
        let mut resets = Vec::new();
        loop {
            match self.poll().expect("polls") {
                Polled::Idle => return resets,
                Polled::Delivered => {}
                Polled::Reset { to, why } => resets.push((to.0, why)),
            }
        }
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

#[test]
fn lines_are_delivered_once_and_in_order() {
    let disk = SimDisk::new();
    let mut watch = Watch::new(&disk);
    assert_eq!(watch.poll().unwrap(), Polled::Idle, "there is no file yet");
    let log = writer(&disk);
    put(&log, "{\"a\":1}\n{\"b\":1}");
    assert_eq!(watch.poll().unwrap(), Polled::Delivered);
    assert_eq!(watch.poll().unwrap(), Polled::Idle);
    put(&log, "{\"c\":1}");
    put(&writer(&disk.process()), "{\"d\":1}");
    assert_eq!(watch.drain(), []);
    assert_eq!(watch.take(), ["{\"a\":1}", "{\"b\":1}", "{\"c\":1}", "{\"d\":1}"]);
    assert_eq!(watch.follower.position(), Position(32));
    let mut late = Watch::from(&disk, &place(), 16);
    assert_eq!(late.drain(), []);
    assert_eq!(late.take(), ["{\"c\":1}", "{\"d\":1}"]);
}

/// A writer that dies at any byte never shows a part of a line; after the repair each line is delivered once.
#[test]
fn a_follower_sees_only_whole_lines_that_stay() {
    let text = "{\"b\":\"é\"}\n{\"c\":\"日本\"}\n";
    for cut in 0..=text.len() {
        let disk = SimDisk::new();
        let mut watch = Watch::new(&disk.process());
        let log = writer(&disk);
        put(&log, "{\"a\":1}");
        disk.fail_kind_from(CallKind::Append, 0, Fault::Stop { after_bytes: Some(cut) });
        assert!(log.append(&batch(text), &PROCESS).is_err());
        assert_eq!(watch.drain(), []);
        let complete = text.as_bytes()[..cut].split(|byte| *byte == b'\n').count() - 1;
        let lines: Vec<&str> = std::iter::once("{\"a\":1}").chain(text.lines().take(complete)).collect();
        assert_eq!(watch.lines, lines, "cut at byte {cut}");
        // The repair completes a line that lacks only its newline, and removes every other fragment.
        let lines: Vec<&str> = text.lines().take(complete + 1).collect();
        let completed = usize::from(text.as_bytes().get(cut) == Some(&b'\n') && text.as_bytes()[cut - 1] == b'}');
        let next = writer(&disk.process());
        assert_eq!(watch.drain(), []);
        put(&next, "{\"d\":1}");
        put(&next, "{\"e\":1}");
        assert_eq!(watch.drain(), [], "cut at byte {cut}");
        let mut expected = vec!["{\"a\":1}"];
        expected.extend(&lines[..complete + completed]);
        expected.extend(["{\"d\":1}", "{\"e\":1}"]);
        assert_eq!(watch.take(), expected, "cut at byte {cut}");
    }
}

#[test]
fn what_a_writer_is_still_writing_is_not_shown() {
    let disk = SimDisk::new();
    put(&writer(&disk), "{\"a\":1}");
    let mut watch = Watch::new(&disk.process());
    watch.drain();
    let file = raw(&disk).unwrap();
    assert!(file.try_lock(Lock::Exclusive).unwrap());
    file.append(b"{\"b\":1}\n{\"c\"").unwrap();
    assert!(matches!(watch.poll(), Err(Error::Busy { .. })), "the line is complete but can be rolled back");
    file.set_len(8).unwrap();
    file.append(b"{\"d\":1}\n").unwrap();
    file.unlock().unwrap();
    assert_eq!(watch.drain(), []);
    assert_eq!(watch.take(), ["{\"a\":1}", "{\"d\":1}"]);
}

#[test]
fn a_truncated_log_resets_the_follower_to_its_end() {
    let disk = SimDisk::new();
    put(&writer(&disk), "{\"a\":1}\n{\"b\":1}\n{\"c\":1}");
    let mut watch = Watch::new(&disk);
    watch.drain();
    raw(&disk).unwrap().set_len(10).unwrap();
    assert_eq!(watch.drain(), [(8, ResetReason::Shorter)]);
    watch.take();
    put(&writer(&disk), "{\"d\":1}");
    assert_eq!(watch.drain(), []);
    assert_eq!(watch.take(), ["{\"d\":1}"]);
}

#[test]
fn a_log_replaced_by_other_bytes_is_delivered_from_its_beginning() {
    let old = "{\"a\":1}\n{\"b\":1}\n";
    for new in
        ["{\"x\":1}\n", "{\"x\":1}\n{\"y\":1}\n", "{\"x\":1}\n{\"y\":1}\n{\"z\":1}\n", "{\"long\":\"long\"}\n{}\n"]
    {
        for removed_first in [false, true] {
            let disk = SimDisk::new();
            disk.write(LOG, old.as_bytes());
            let mut watch = Watch::new(&disk);
            watch.drain();
            watch.take();
            let mut expected = ResetReason::Replaced;
            if removed_first {
                disk.remove(LOG);
                assert_eq!(watch.drain(), [(0, ResetReason::Missing)]);
                expected = ResetReason::Missing;
            }
            disk.replace(LOG, new.as_bytes());
            let resets = watch.drain();
            assert_eq!(resets, if removed_first { vec![] } else { vec![(0, expected)] }, "{new:?}");
            assert_eq!(watch.take(), new.lines().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_log_replaced_by_the_same_bytes_continues() {
    let disk = SimDisk::new();
    put(&writer(&disk), "{\"a\":1}\n{\"b\":1}");
    let mut watch = Watch::new(&disk);
    watch.drain();
    rewrite_log(&disk).unwrap();
    assert_eq!(watch.drain(), []);
    put(&writer(&disk), "{\"c\":1}");
    rewrite_log(&disk).unwrap();
    assert_eq!(watch.drain(), []);
    assert_eq!(watch.take(), ["{\"a\":1}", "{\"b\":1}", "{\"c\":1}"]);
}

#[test]
fn an_edit_in_place_is_noticed_when_the_log_grows() {
    let disk = SimDisk::new();
    disk.write(LOG, b"{\"a\":1}\n{\"b\":1}\n");
    let mut watch = Watch::new(&disk);
    watch.drain();
    watch.take();
    disk.write(LOG, b"{\"a\":1}\n{\"x\":1}\n{\"c\":1}\n");
    assert_eq!(watch.drain(), [(8, ResetReason::Replaced)], "the first line is unchanged");
    assert_eq!(watch.take(), ["{\"x\":1}", "{\"c\":1}"]);
}

#[test]
fn an_invalid_position_resets_the_follower() {
    let disk = SimDisk::new();
    disk.write(LOG, b"{\"a\":1}\n{\"b\":1}\n");
    for (position, reset) in [(3, (0, ResetReason::Replaced)), (99, (0, ResetReason::Shorter))] {
        let mut watch = Watch::from(&disk, &place(), position);
        assert_eq!(watch.drain(), [reset]);
    }
    assert_eq!(Watch::from(&SimDisk::new(), &place(), 8).drain(), [(0, ResetReason::Missing)]);
}

#[test]
fn a_follower_starts_in_the_segments_and_continues_in_the_hot_file() {
    let disk = SimDisk::new();
    disk.write("scope/0", b"{\"a\":1}\n");
    disk.write("scope/1", b"{\"b\":1}\n");
    disk.write(LOG, b"{\"c\":1}\n");
    let place = Place {
        path: LOG.into(),
        base: Position(16),
        sealed: vec![
            Segment { path: "scope/0".into(), base: Position(0), end: Position(8) },
            Segment { path: "scope/1".into(), base: Position(8), end: Position(16) },
        ],
    };
    for (position, lines) in [
        (0, &["{\"a\":1}", "{\"b\":1}", "{\"c\":1}"][..]),
        (8, &["{\"b\":1}", "{\"c\":1}"]),
        (16, &["{\"c\":1}"]),
        (24, &[]),
    ] {
        let mut watch = Watch::from(&disk, &place, position);
        assert_eq!(watch.drain(), []);
        assert_eq!(watch.take(), lines);
    }
    let mut watch = Watch::from(&disk, &place, 0);
    watch.drain();
    watch.take();
    disk.replace(LOG, b"{\"x\":1}\n");
    assert_eq!(watch.drain(), [(16, ResetReason::Replaced)], "the segments are unchanged");
    assert_eq!(watch.take(), ["{\"x\":1}"]);
}

/// More lines than one read and one poll, with an error at every call: each line is delivered once.
#[test]
fn an_error_at_any_call_of_a_poll_loses_and_duplicates_nothing() {
    let long = format!("{{\"long\":\"{}\"}}", "x".repeat(300 * 1024));
    let limits = duolog_types::limits::Limits { line_bytes_max: 200 * 1024, ..limits() };
    let text = format!("{{\"a\":1}}\n{{\"b\":1}}\n{long}\n{}{{\"z\":1}}\n", "{\"m\":1}\n".repeat(40_000));
    let lines = text.lines().count();
    let run = |index: Option<usize>| {
        let disk = SimDisk::new();
        disk.write(LOG, text.as_bytes());
        if let Some(index) = index {
            disk.fail_at(index, Fault::Error(EIO));
        }
        let mut follower =
            Follower::new(&disk.as_disk(), &place(), Position::ZERO, limits.busy_timeout, limits.line_bytes_max);
        let (mut ends, mut errors) = (Vec::new(), 0);
        loop {
            let polled = follower.poll(&mut |item| match item {
                Item::Line(line) => ends.push((line.start, line.end)),
                Item::TooLong { start, end } => ends.push((start, end)),
            });
            match polled {
                Ok(Polled::Idle) if follower.position().0 == text.len() as u64 => break,
                Ok(Polled::Reset { .. }) => panic!("nothing happened to the log"),
                Ok(_) => {}
                Err(_) => errors += 1,
            }
        }
        assert_eq!(ends.len(), lines, "error at {index:?}");
        assert!(ends.windows(2).all(|pair| pair[0].1 == pair[1].0), "error at {index:?}");
        (disk.call_count(), errors)
    };
    let (calls, _) = run(None);
    // A failed unlock is the only error that is not returned.
    let errors: usize = (0..calls).map(|index| run(Some(index)).1).sum();
    assert!(errors > calls / 2, "{errors} of {calls}");
}

#[test]
fn a_poisoned_log_can_be_followed() {
    let disk = SimDisk::new();
    let log = writer(&disk);
    put(&log, "{\"a\":1}");
    let mut watch = Watch::new(&disk.process());
    disk.fail_kind_from(CallKind::Sync, 0, Fault::Error(EIO));
    assert!(log.append(&batch("{\"b\":1}"), &POWER).is_err());
    assert!(open(&disk).is_err());
    assert_eq!(watch.drain(), []);
    assert_eq!(watch.take(), ["{\"a\":1}", "{\"b\":1}"]);
}
