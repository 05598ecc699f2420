//! Files with bare system calls.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use serde::de::IgnoredAny;

/// The name of every bare file.
pub const NAME: &str = "bare.jsonl";

/// A file that is appended to with bare system calls.
pub struct Bare {
    dir: File,
    file: File,
    path: PathBuf,
}

impl Bare {
    /// Creates the file in a directory.
    pub fn in_dir(dir: &Path) -> Self {
        let path = dir.join(NAME);
        let file = OpenOptions::new().append(true).create_new(true).open(&path).expect("a file");
        Self { dir: File::open(dir).expect("a directory"), file, path }
    }

    /// Writes once.
    pub fn write(&self, bytes: &[u8]) {
        assert_eq!(rustix::io::write(&self.file, bytes).expect("written"), bytes.len());
    }

    /// Locks, stats, writes and unlocks: the minimum for several writers.
    pub fn append(&self, bytes: &[u8]) {
        self.file.try_lock().expect("locked");
        let stat = rustix::fs::statat(&self.dir, NAME, AtFlags::SYMLINK_NOFOLLOW).expect("a file");
        assert!(stat.st_nlink > 0);
        self.write(bytes);
        self.file.unlock().expect("unlocked");
    }

    /// Locks, stats, writes, unlocks and syncs.
    pub fn append_synced(&self, bytes: &[u8]) {
        self.append(bytes);
        rustix::fs::fdatasync(&self.file).expect("synced");
    }

    /// Asserts that another file has the same content.
    pub fn assert_same(&self, other: &Path) {
        let (ours, theirs) = (std::fs::read(&self.path).expect("read"), std::fs::read(other).expect("read"));
        assert!(ours == theirs, "{} differs from the bare file", other.display());
    }
}

/// Checks a line of unknown text with serde_json alone.
pub fn check(line: &[u8]) {
    let text = std::str::from_utf8(line).expect("UTF-8");
    serde_json::from_slice::<IgnoredAny>(text.as_bytes()).expect("JSON");
    assert_eq!(line.first(), Some(&b'{'));
}

/// Calls `each` with every line of a file, without its newline, through one buffer.
pub fn for_each_line(path: &Path, buffer: &mut Vec<u8>, mut each: impl FnMut(&[u8])) {
    const PIECE: usize = 256 * 1024;
    let mut file = File::open(path).expect("a file");
    let mut held = 0;
    loop {
        if buffer.len() < held + PIECE {
            buffer.resize(held + PIECE, 0);
        }
        let read = file.read(&mut buffer[held..]).expect("read");
        if read == 0 {
            assert_eq!(held, 0, "the last line is complete");
            return;
        }
        let (mut start, end) = (0, held + read);
        for newline in memchr::memchr_iter(b'\n', &buffer[held..end]) {
            each(&buffer[start..held + newline]);
            start = held + newline + 1;
        }
        buffer.copy_within(start..end, 0);
        held = end - start;
    }
}

/// Checks a line as a reader does: UTF-8, no NUL, braces of an object.
pub fn is_readable(line: &[u8]) -> bool {
    std::str::from_utf8(line).is_ok()
        && memchr::memchr(0, line).is_none()
        && line.first() == Some(&b'{')
        && line.last() == Some(&b'}')
}

/// Hashes every file below a directory with BLAKE3. Returns the sum of their sizes.
pub fn hash_all(dir: &Path) -> u64 {
    let (mut bytes, mut buffer) = (0, vec![0; 1 << 20]);
    for entry in dir.read_dir().expect("a directory").flatten() {
        let path = entry.path();
        if entry.file_type().expect("a type").is_dir() {
            bytes += hash_all(&path);
        } else {
            let (mut file, mut hasher) = (File::open(&path).expect("a file"), blake3::Hasher::new());
            loop {
                let read = file.read(&mut buffer).expect("read");
                if read == 0 {
                    break;
                }
                hasher.update(&buffer[..read]);
                bytes += read as u64;
            }
            std::hint::black_box(hasher.finalize());
        }
    }
    bytes
}
