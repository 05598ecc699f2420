use duolog_log::{Block, Error, Place, Reader, Segment, split_lines};
use duolog_testkit::{CallKind, SimDisk};
use duolog_types::Position;
use proptest::prelude::*;

use crate::kit::{LOG, limits, open, owned, reader};

/// The read size of the reader.
const CHUNK: usize = 256 * 1024;

type Owned = (u64, u64, Option<Vec<u8>>);

fn forward(log: &Reader, from: u64, to: u64, max: usize) -> Vec<Owned> {
    let mut lines = log.lines(Position(from), Position(to), max).expect("a boundary");
    let mut all = Vec::new();
    while let Some(item) = lines.next().expect("reads") {
        all.push(owned(item));
        assert_eq!(lines.position().0, all.last().unwrap().1);
    }
    all
}

fn in_blocks(log: &Reader, from: u64, to: u64, max: usize) -> Vec<Owned> {
    let mut lines = log.lines(Position(from), Position(to), max).expect("a boundary");
    let mut all = Vec::new();
    while let Some(block) = lines.block().expect("reads") {
        match block {
            Block::Lines { start, bytes } => all.extend(split_lines(start, bytes).map(|line| {
                let text = (line.bytes.len() <= max).then(|| line.bytes.to_vec());
                (line.start.0, line.end.0, text)
            })),
            Block::TooLong { start, end } => all.push((start.0, end.0, None)),
        }
        assert_eq!(lines.position().0, all.last().unwrap().1);
    }
    all
}

fn backward(log: &Reader, to: u64, max: usize) -> Vec<Owned> {
    let mut lines = log.back(Position(to), max).expect("a boundary");
    let mut all = Vec::new();
    while let Some(item) = lines.next().expect("reads") {
        all.push(owned(item));
    }
    all.reverse();
    all
}

fn model(bytes: &[u8], base: u64, max: usize) -> Vec<Owned> {
    let mut at = base;
    let complete = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    complete
        .map(|line| {
            let (start, text) = (at, &line[..line.len() - 1]);
            at += line.len() as u64;
            (start, at, (text.len() <= max).then(|| text.to_vec()))
        })
        .collect()
}

/// Checks every way of reading against splitting the bytes in memory.
fn check_all_reads(log: &Reader, bytes: &[u8], base: u64, max: usize) {
    let expected = model(bytes, base, max);
    let end = base + bytes.len() as u64;
    assert!(forward(log, base, end, max) == expected, "forward");
    assert!(in_blocks(log, base, end, max) == expected, "in blocks");
    assert!(backward(log, end, max) == expected, "backward");
    let starts: Vec<u64> = expected.iter().map(|item| item.0).chain([end]).collect();
    for (at, position) in starts.iter().enumerate() {
        assert!(forward(log, *position, end, max) == expected[at..], "forward from {position}");
        assert!(in_blocks(log, *position, end, max) == expected[at..], "in blocks from {position}");
        assert!(backward(log, *position, max) == expected[..at], "backward from {position}");
    }
    for (count, position) in starts.iter().rev().enumerate() {
        let found = log.start_of_last(count as u64, Position(end)).expect("reads");
        assert_eq!(found, Position(*position), "the last {count} lines");
    }
    assert_eq!(log.start_of_last(u64::MAX, Position(end)).unwrap(), Position(base));
}

fn text_of(lengths: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, length) in lengths.iter().enumerate() {
        bytes.extend((0..*length).map(|at| b'a' + u8::try_from((number + at) % 26).unwrap()));
        bytes.push(b'\n');
    }
    bytes
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let near = |at: usize| (at - 3)..(at + 3);
    let length =
        prop_oneof![4 => Just(0), 8 => 1..40_usize, 2 => near(CHUNK), 1 => near(2 * CHUNK), 1 => near(CHUNK / 2)];
    prop::collection::vec(length, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn forward_and_backward_agree(lengths in lengths(), max in prop_oneof![Just(20), (CHUNK - 3)..(CHUNK + 3), Just(1 << 30)]) {
        let bytes = text_of(&lengths);
        let disk = SimDisk::new();
        disk.write(LOG, &bytes);
        check_all_reads(&reader(&disk), &bytes, 0, max);
    }

    #[test]
    fn segments_read_as_one_log(lengths in lengths(), cuts in (any::<prop::sample::Index>(), any::<prop::sample::Index>()), base in prop_oneof![Just(0), Just(1_000_000_u64)]) {
        let bytes = text_of(&lengths);
        let starts: Vec<usize> = model(&bytes, 0, 0).iter().map(|item| usize::try_from(item.0).unwrap()).chain([bytes.len()]).collect();
        let (a, b) = (starts[cuts.0.index(starts.len())], starts[cuts.1.index(starts.len())]);
        let (disk, place) = segmented(&bytes, a.min(b), a.max(b), base);
        let log = Reader::open(&disk.as_disk(), &place).unwrap().unwrap();
        prop_assert_eq!(log.first(), Position(base));
        prop_assert_eq!(log.stable_end(limits().busy_timeout).unwrap(), Position(base + bytes.len() as u64));
        check_all_reads(&log, &bytes, base, CHUNK);
    }
}

fn segmented(bytes: &[u8], first: usize, second: usize, base: u64) -> (SimDisk, Place) {
    let disk = SimDisk::new();
    disk.write("scope/0", &bytes[..first]);
    disk.write("scope/1", &bytes[first..second]);
    disk.write(LOG, &bytes[second..]);
    let at = |offset: usize| Position(base + offset as u64);
    let sealed = vec![
        Segment { path: "scope/0".into(), base: at(0), end: at(first) },
        Segment { path: "scope/1".into(), base: at(first), end: at(second) },
    ];
    (disk, Place { path: LOG.into(), base: at(second), sealed })
}

/// Every length around the buffer size.
#[test]
fn lines_of_every_length_around_a_chunk_are_complete() {
    for length in (CHUNK - 4)..=(CHUNK + 4) {
        let bytes = text_of(&[3, length, 0, length - 1, 7]);
        let disk = SimDisk::new();
        disk.write(LOG, &bytes);
        for max in [length - 1, length, length + 1] {
            check_all_reads(&reader(&disk), &bytes, 0, max);
        }
    }
}

#[test]
fn a_line_far_over_the_limit_is_skipped_in_bounded_memory() {
    let bytes = text_of(&[5, 5 * CHUNK, 5]);
    let disk = SimDisk::new();
    disk.write(LOG, &bytes);
    check_all_reads(&reader(&disk), &bytes, 0, 100);
    let largest = disk.calls().iter().filter(|call| call.kind == CallKind::Read).map(|call| call.len).max();
    assert!(largest <= Some(CHUNK as u64), "{largest:?}");
}

#[test]
fn the_last_lines_are_found_without_reading_the_rest() {
    let disk = SimDisk::new();
    disk.write(LOG, &text_of(&vec![99; 100_000]));
    let log = reader(&disk);
    let before = disk.call_count();
    let end = Position(10_000_000);
    assert_eq!(log.start_of_last(10, end).unwrap(), Position(end.0 - 1000));
    let mut back = log.back(end, 1000).unwrap();
    for _ in 0..10 {
        assert!(back.next().unwrap().is_some());
    }
    let read: u64 = disk.calls()[before..].iter().filter(|call| call.kind == CallKind::Read).map(|call| call.len).sum();
    assert!(read <= 2 * CHUNK as u64 + 2, "{read} bytes");
}

#[test]
fn bytes_after_the_last_newline_are_not_a_line() {
    for (text, whole) in [("a\nbc", 2), ("abc", 0), ("\n", 1), ("", 0)] {
        let disk = SimDisk::new();
        disk.write(LOG, text.as_bytes());
        let log = reader(&disk);
        assert_eq!(log.stable_end(limits().busy_timeout).unwrap(), Position(whole));
        for max in [1, 100] {
            assert_eq!(forward(&log, 0, text.len() as u64, max), model(text.as_bytes(), 0, max), "{text:?}");
        }
    }
}

#[test]
fn invalid_positions_have_distinct_errors() {
    type Check = fn(&Error) -> bool;
    let bytes = b"ab\ncd\nef\ngh";
    let (disk, place) = segmented(bytes, 3, 6, 100);
    let log = Reader::open(&disk.as_disk(), &place).unwrap().unwrap();
    let before: Check = |e| matches!(e, Error::BeforeBase { base: Position(100), .. });
    let inside: Check = |e| matches!(e, Error::NotABoundary(_));
    let beyond: Check = |e| matches!(e, Error::BeyondEnd { end: Position(111), .. });
    let cases: Vec<(u64, Check)> = vec![
        (0, before),
        (99, before),
        (101, inside),
        (105, inside),
        (110, inside),
        (111, inside),
        (112, beyond),
        (u64::MAX, beyond),
    ];
    for (position, is_right) in cases {
        let at = Position(position);
        let errors = [
            log.lines(at, Position(109), 10).err().unwrap(),
            log.back(at, 10).err().unwrap(),
            log.start_of_last(1, at).unwrap_err(),
        ];
        assert!(errors.iter().all(is_right), "{position}: {errors:?}");
        assert_eq!(log.line_hash_at(at, 10).unwrap(), None);
    }
    // A hash does not depend on the limit of a line.
    assert_eq!(log.line_hash_at(Position(106), 1).unwrap(), log.line_hash_at(Position(106), 10).unwrap());
    for good in [100, 103, 106, 109] {
        assert!(log.lines(Position(good), Position(109), 10).is_ok(), "{good}");
    }
}

#[test]
fn a_file_shorter_than_the_range_is_an_error() {
    let disk = SimDisk::new();
    disk.write(LOG, b"ab\ncd\n");
    let log = reader(&disk);
    let mut lines = log.lines(Position(0), Position(9), 10).unwrap();
    assert!(lines.next().unwrap().is_some() && lines.next().unwrap().is_some());
    assert!(matches!(lines.next(), Err(Error::Shrunk { .. })));
    assert_eq!(lines.position(), Position(6));
}

#[test]
fn an_absent_file_is_an_empty_log() {
    let disk = SimDisk::new();
    assert!(Reader::open(&disk.as_disk(), &Place::file(LOG)).unwrap().is_none());
    let (_, recovery) = open(&disk).unwrap();
    assert_eq!(recovery.end, Position::ZERO);
    assert!(disk.snapshot().is_empty(), "opening creates nothing");
}

/// Between the stat and the search for the newline a repair could cut the tail, and another writer could continue
/// there.
#[test]
fn the_stable_end_is_read_under_a_lock() {
    let disk = SimDisk::new();
    disk.write(LOG, b"{\"a\":1}\n{\"torn\":1");
    let log = Reader::open(&disk.process().as_disk(), &Place::file(LOG)).unwrap().unwrap();
    let other = disk.process();
    disk.on_call(std::sync::Arc::new(move |call| {
        if call.process == 2 && call.kind == CallKind::Read {
            assert!(matches!(open(&other), Err(Error::Busy { .. })), "the tail is not repaired while it is read");
        }
    }));
    assert_eq!(log.stable_end(limits().busy_timeout).unwrap(), Position(8));
}
