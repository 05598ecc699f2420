//! Every byte of a log is in one line, in a torn tail, or in a line reported as too long, however it is read.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use duolog_log::{Disk, DiskFile, FileKind, Item, Lock, Open, Place, Reader, Stat};
use duolog_types::line::check_line;
use duolog_types::{Batch, Position};

use super::{choice, lines_in};
use duolog_testkit::SimDisk;

const LOG: &str = "log.jsonl";
const WAIT: Duration = Duration::from_secs(5);

/// A line as it was read; without bytes if it was too long.
type Read = (u64, u64, Option<Vec<u8>>);

pub(super) fn target(input: &[u8]) {
    let lines = lines_in(input);
    // The length of a line, and one byte less.
    let len = lines[choice(input, 1) % lines.len()].len();
    for line_bytes_max in [usize::MAX, len, len.saturating_sub(1)] {
        let expected = expected(input, line_bytes_max);
        let end = expected.last().map_or(0, |line| line.1);
        let disk = SimDisk::new();
        disk.write(LOG, input);
        let reader = open(&disk.as_disk());
        let (stable, rest) = reader.stable_end_and_rest(WAIT).expect("an end");
        assert_eq!((stable.0, stable.0 + rest), (end, input.len() as u64), "every byte is in a line or in the tail");
        assert_eq!(forward(&reader, 0, end, line_bytes_max), expected);
        let mut back = backward(&reader, end, line_bytes_max);
        back.reverse();
        assert_eq!(back, expected, "backward");
        for count in [0, 1, 2, expected.len() as u64, expected.len() as u64 + 1] {
            let start = reader.start_of_last(count, stable).expect("a start");
            let skipped = expected.len().saturating_sub(usize::try_from(count).expect("small"));
            assert_eq!(start.0, expected.get(skipped).map_or(end, |line| line.0), "the last {count}");
        }
        let chopped: Arc<dyn Disk> = Arc::new(Chopped(disk.clone(), 1 + choice(input, 2) % 100));
        assert_eq!(forward(&open(&chopped), 0, end, line_bytes_max), expected, "read in small parts");
        in_two(input, line_bytes_max, &expected);
    }
    taken_by_a_batch(input);
}

fn expected(input: &[u8], line_bytes_max: usize) -> Vec<Read> {
    let mut lines = lines_in(input);
    lines.pop();
    let mut at = 0;
    let read = lines.into_iter().map(|line| {
        let start = at;
        at += line.len() as u64 + 1;
        (start, at, (line.len() <= line_bytes_max).then(|| line.to_vec()))
    });
    read.collect()
}

fn open(disk: &Arc<dyn Disk>) -> Reader {
    Reader::open(disk, &Place::file(LOG)).expect("opens").expect("is there")
}

fn read(item: &Item<'_>) -> Read {
    match item {
        Item::Line(line) => (line.start.0, line.end.0, Some(line.bytes.to_vec())),
        Item::TooLong { start, end } => (start.0, end.0, None),
    }
}

fn forward(reader: &Reader, from: u64, to: u64, line_bytes_max: usize) -> Vec<Read> {
    let mut lines = reader.lines(Position(from), Position(to), line_bytes_max).expect("a boundary");
    let mut all = Vec::new();
    while let Some(item) = lines.next().expect("reads") {
        all.push(read(&item));
    }
    assert_eq!(lines.position().0, to, "the position is after the last line");
    all
}

fn backward(reader: &Reader, to: u64, line_bytes_max: usize) -> Vec<Read> {
    let mut lines = reader.back(Position(to), line_bytes_max).expect("a boundary");
    let mut all = Vec::new();
    while let Some(item) = lines.next().expect("reads") {
        all.push(read(&item));
    }
    all
}

/// Reads a log while only a part of it is there, and then to its end.
fn in_two(input: &[u8], line_bytes_max: usize, expected: &[Read]) {
    let cut = choice(input, 3) % (input.len() + 1);
    let disk = SimDisk::new();
    disk.write(LOG, &input[..cut]);
    let reader = open(&disk.as_disk());
    let first = reader.stable_end(WAIT).expect("an end").0;
    let mut all = forward(&reader, 0, first, line_bytes_max);
    disk.write(LOG, input);
    let reader = open(&disk.as_disk());
    let end = reader.stable_end(WAIT).expect("an end").0;
    all.extend(forward(&reader, first, end, line_bytes_max));
    assert_eq!(all, expected, "cut at {cut}");
}

/// A batch accepts exactly the lines that are valid in a log, byte for byte.
fn taken_by_a_batch(input: &[u8]) {
    let mut batch = Batch::default();
    let mut taken = Vec::new();
    for line in lines_in(input) {
        let is_line = check_line(line, 64 << 20).is_ok();
        assert_eq!(batch.push(line).is_ok(), is_line);
        if is_line {
            assert!(serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok(), "an accepted line is JSON");
            taken.extend_from_slice(line);
            taken.push(b'\n');
        }
    }
    assert_eq!(batch.as_bytes(), taken);
}

/// A disk that reads at most this many bytes at once.
struct Chopped(SimDisk, usize);

struct ChoppedFile(Arc<dyn DiskFile>, usize);

impl Disk for Chopped {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(ChoppedFile(self.0.open(path, how)?, self.1)))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.0.stat(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.0.unlink(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.0.list(path)
    }

    fn holder(&self, of: &Stat) -> Option<u32> {
        self.0.holder(of)
    }

    fn changed_at(&self, path: &Path) -> io::Result<Option<SystemTime>> {
        self.0.changed_at(path)
    }

    fn local_root(&self) -> Option<&Path> {
        self.0.local_root()
    }
}

impl DiskFile for ChoppedFile {
    fn stat(&self) -> io::Result<Stat> {
        self.0.stat()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let room = buffer.len().min(self.1);
        self.0.read_at(&mut buffer[..room], offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.0.set_mode(mode)
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        self.0.try_lock(lock)
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}
