//! Reading a whole log from its first line, without parsing it.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duolog_log::{Disk, Files, Place, Reader};
use duolog_types::limits::Limits;

use crate::measure::{Figure, Target, in_turns};
use crate::{bare, bench::Bench, events};

/// The bytes that the bare loop reads at a time.
const BUFFER: usize = 256 * 1024;

/// A log in the page cache.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let room = bench.room();
    let path = room.path().join("log.jsonl");
    make_log(&path, bench.size(256 << 20, 4 << 20));
    let bytes = path.metadata().expect("a log").len();
    let disk = disk(room.path());
    let (mut ours, mut limit) = ((0, 0), 0);
    let mut buffer = vec![0; BUFFER];
    let pairs = in_turns(
        bench.size(41, 1),
        (1, 1),
        || ours = count_lines(&disk),
        || limit = bare::count_lines(&path, &mut buffer),
    );
    assert_eq!(ours, (limit, bytes));
    let mib = bytes >> 20;
    let what = format!("lines of a {mib} MiB log / read(2) and memchr over the same file (times are for all of it)");
    vec![pairs.speed("scan/lines", &what, Target::AtLeast(0.7))]
}

fn count_lines(disk: &Arc<dyn Disk>) -> (u64, u64) {
    let reader = Reader::open(disk, &Place::file("log.jsonl")).expect("a log").expect("a file");
    let end = reader.stable_end(Duration::from_secs(5)).expect("an end");
    let mut lines = reader.lines(reader.first(), end, Limits::default().line_bytes_max).expect("lines");
    let mut count = 0;
    while lines.next().expect("a line").is_some() {
        count += 1;
    }
    (count, lines.position().0)
}

/// The disk of a directory.
pub fn disk(dir: &Path) -> Arc<dyn Disk> {
    Arc::new(Files::beneath(dir).expect("a directory"))
}

/// Writes a log of at least so many bytes, in large pieces.
pub fn make_log(path: &Path, bytes: u64) {
    let batch = events::batches(1, 2048).remove(0);
    let mut file = File::create_new(path).expect("a file");
    let mut left = bytes as usize;
    while left > 0 {
        let piece = &batch.as_bytes()[..end_of_line(batch.as_bytes(), left)];
        file.write_all(piece).expect("written");
        left = left.saturating_sub(piece.len());
    }
}

/// The end of the first line that ends at `least` or behind it; the end of all where none does.
fn end_of_line(bytes: &[u8], least: usize) -> usize {
    let behind = bytes.get(least - 1..).and_then(|behind| memchr::memchr(b'\n', behind));
    behind.map_or(bytes.len(), |newline| least + newline)
}
