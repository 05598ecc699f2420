//! The last lines of a log: what they cost may not depend on what stands before them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duolog_log::{Disk, Item, Place, Reader};
use duolog_types::limits::Limits;

use super::scan::{disk, make_log};
use crate::bench::Bench;
use crate::measure::{Figure, Target, in_turns};

const LINES: u64 = 50;

/// A large log against a small one.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let room = bench.room();
    let (large, small) = ("large.jsonl", "small.jsonl");
    let mib = bench.size(1024, 16);
    make_log(&room.path().join(large), mib << 20);
    make_log(&room.path().join(small), 1 << 20);
    let disk = disk(room.path());
    for name in [large, small] {
        assert_eq!(last(&disk, name), by_hand(&room.path().join(name)), "the last lines of {name}");
    }
    let read = |name| assert_eq!(last(&disk, name).0, LINES);
    let pairs = in_turns(bench.size(1001, 5), (1, 1), || read(large), || read(small));
    let what = format!("open and read the last 50 lines of {mib} MiB / of 1 MiB");
    vec![pairs.cost("last/50", &what, Target::AtMost(2.0))]
}

/// How many lines there were, and the hash of the last.
fn last(disk: &Arc<dyn Disk>, name: &str) -> (u64, [u8; 32]) {
    let reader = Reader::open(disk, &Place::file(name)).expect("a log").expect("a file");
    let end = reader.stable_end(Duration::from_secs(5)).expect("an end");
    let from = reader.start_of_last(LINES, end).expect("a start");
    let mut lines = reader.lines(from, end, Limits::default().line_bytes_max).expect("lines");
    let (mut count, mut hash) = (0, [0; 32]);
    while let Some(item) = lines.next().expect("a line") {
        count += 1;
        if let (LINES, Item::Line(line)) = (count, item) {
            hash = duolog_log::hash_line(line.bytes);
        }
    }
    (count, hash)
}

fn by_hand(path: &Path) -> (u64, [u8; 32]) {
    let bytes = std::fs::read(path).expect("a file");
    let lines: Vec<&[u8]> = bytes.strip_suffix(b"\n").expect("a newline").rsplit(|b| *b == b'\n').take(50).collect();
    (lines.len() as u64, duolog_log::hash_line(lines[0]))
}
