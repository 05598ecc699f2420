//! The limit: the same bytes through the system calls that nobody can do without.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

/// A file that is appended to with nothing around it.
pub struct Bare {
    file: File,
    path: PathBuf,
}

impl Bare {
    /// Makes the file in a directory.
    pub fn in_dir(dir: &Path) -> Self {
        let path = dir.join("bare.jsonl");
        Self { file: OpenOptions::new().append(true).create_new(true).open(&path).expect("a file"), path }
    }

    /// One write.
    pub fn write(&self, bytes: &[u8]) {
        assert_eq!(rustix::io::write(&self.file, bytes).expect("written"), bytes.len());
    }

    /// One write and one sync.
    pub fn write_synced(&self, bytes: &[u8]) {
        self.write(bytes);
        rustix::fs::fdatasync(&self.file).expect("synced");
    }

    /// Asserts that another file holds exactly what was written here.
    pub fn assert_same(&self, other: &Path) {
        let (ours, theirs) = (std::fs::read(&self.path).expect("read"), std::fs::read(other).expect("read"));
        assert!(ours == theirs, "{} differs from what was written", other.display());
    }
}

/// The checks that a line of unknown text needs, by serde_json alone.
pub fn check(line: &[u8]) {
    let text = std::str::from_utf8(line).expect("UTF-8");
    serde_json::from_slice::<IgnoredAny>(text.as_bytes()).expect("JSON");
    assert_eq!(line.first(), Some(&b'{'));
}

/// Counts the lines of a file with a reused buffer and nothing else.
pub fn count_lines(path: &Path, buffer: &mut [u8]) -> u64 {
    let mut file = File::open(path).expect("a file");
    let mut lines = 0;
    loop {
        match file.read(buffer).expect("read") {
            0 => return lines,
            n => lines += memchr::memchr_iter(b'\n', &buffer[..n]).fold(0, |lines, _| lines + 1),
        }
    }
}
