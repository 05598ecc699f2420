//! Counting system calls: by strace over a whole process, and by the disk calls that the log makes.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use duolog::Durability;
use duolog_log::{Append, Disk, DiskFile, Files, Kind, Lock, Open, Place, Stat, Watermark, Writer};
use duolog_types::limits::Limits;

use crate::bench::{Bench, store_in};
use crate::events;

/// The first argument of a process that appends and does nothing else.
pub const CHILD: &str = "--appends-for-strace";

/// Appends so many events, one per call.
pub fn child(home: &Path, count: usize) {
    let (store, session) = store_in(home);
    let log = store.log(&session.id);
    let batches = events::batches(16, 1);
    for batch in batches.iter().cycle().take(count) {
        log.append(batch, Durability::Process).expect("appended");
    }
    // Leaving folds, which is not what is counted; the two processes whose difference is taken must end alike.
    std::process::exit(0);
}

/// The system calls of one append, by strace: what a process with more of them does more. Nothing without strace.
pub fn by_strace(bench: &Bench) -> Option<f64> {
    let calls = |appends: usize| {
        let room = bench.room();
        let told = room.path().join("strace");
        let mut strace = Command::new("strace");
        strace.args(["-c", "-f", "-o"]).arg(&told).arg(std::env::current_exe().ok()?);
        let ended = strace.args([CHILD]).arg(room.path()).arg(appends.to_string()).status().ok()?;
        if !ended.success() {
            return None;
        }
        let text = std::fs::read_to_string(told).ok()?;
        let total = text.lines().find(|line| line.ends_with(" total"))?;
        total.split_ascii_whitespace().nth(3)?.parse::<f64>().ok()
    };
    let (few, more) = (100, 1100);
    let each = (calls(more)? - calls(few)?) / (more - few) as f64;
    // To the hundredth: one call in a thousand appends is the run's own, and comes and goes.
    Some((each * 100.0).round() / 100.0)
}

/// The disk calls of one append, by a disk that counts: each is one system call.
pub fn by_disk(bench: &Bench) -> f64 {
    let room = bench.room();
    let calls = Arc::new(AtomicU64::new(0));
    let files: Arc<dyn Disk> = Arc::new(Files::beneath(room.path()).expect("a directory"));
    let disk: Arc<dyn Disk> = Arc::new(Counting { inner: files, calls: Arc::clone(&calls) });
    let place = Place::file("log.jsonl");
    let (writer, _) = Writer::open(&disk, &place, &Watermark::default(), &Limits::default()).expect("a log");
    let batches = events::batches(101, 1);
    writer.append(&batches[0], &Append::default()).expect("the first makes the file");
    let before = calls.load(Relaxed);
    for batch in &batches[1..] {
        writer.append(batch, &Append::default()).expect("appended");
    }
    (calls.load(Relaxed) - before) as f64 / (batches.len() - 1) as f64
}

struct Counting<T: ?Sized> {
    calls: Arc<AtomicU64>,
    inner: Arc<T>,
}

impl<T: ?Sized> Counting<T> {
    fn counted(&self) -> &T {
        self.calls.fetch_add(1, Relaxed);
        &self.inner
    }
}

impl Disk for Counting<dyn Disk> {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let inner = self.counted().open(path, how)?;
        Ok(Arc::new(Counting { inner, calls: Arc::clone(&self.calls) }))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.counted().stat(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.counted().create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.counted().sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.counted().rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.counted().unlink(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(String, Kind)>> {
        self.counted().list(path)
    }

    fn holder(&self, of: &Stat) -> Option<u32> {
        self.counted().holder(of)
    }

    fn changed_at(&self, path: &Path) -> io::Result<Option<SystemTime>> {
        self.counted().changed_at(path)
    }

    fn heard_at(&self) -> Option<&Path> {
        self.inner.heard_at()
    }
}

impl DiskFile for Counting<dyn DiskFile> {
    fn stat(&self) -> io::Result<Stat> {
        self.counted().stat()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.counted().read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.counted().append(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.counted().sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.counted().set_len(len)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.counted().set_mode(mode)
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        self.counted().try_lock(lock)
    }

    fn unlock(&self) -> io::Result<()> {
        self.counted().unlock()
    }
}
