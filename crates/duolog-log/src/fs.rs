//! The disk calls of the log, and nothing else.
//!
//! Paths are relative to the root of the disk. Opening follows no symbolic link. A `stat` of a path does not follow the
//! last component, and its result counts only if it names a file that was opened.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A disk that stores logs.
pub trait Disk: Send + Sync {
    /// Opens a file. Only [`Open::Create`] creates one.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// Returns the metadata of what is at a path, or `None` if nothing is there. Links are not followed.
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>>;
    /// Creates a directory that only its owner may use. It may exist already; its parent must exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Replaces one file with another, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a directory entry.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Returns the entries of a directory, in no particular order; empty if there is no such directory.
    fn list(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>>;
    /// Returns the process that holds the lock of a file, if it can be known.
    fn holder(&self, of: &Stat) -> Option<u32>;
    /// Returns when the content at a path last changed, or `None` if nothing is there.
    fn changed_at(&self, path: &Path) -> io::Result<Option<SystemTime>>;
    /// Returns the path of the root on this machine, for file notification, or `None` if it has none.
    fn local_root(&self) -> Option<&Path>;
}

/// An open file. Closing it releases its locks.
pub trait DiskFile: Send + Sync {
    /// Returns the current metadata.
    fn stat(&self) -> io::Result<Stat>;
    /// Reads at an offset; 0 means the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Appends in one system call, and returns how many bytes were written; they may be fewer than given.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes all written bytes durable.
    fn sync(&self) -> io::Result<()>;
    /// Truncates the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Changes the permission bits.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    /// Takes an advisory lock, or returns false if another owner prevents it.
    fn try_lock(&self, lock: Lock) -> io::Result<bool>;
    /// Releases the lock.
    fn unlock(&self) -> io::Result<()>;
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and appending.
    Append,
    /// A new file, for reading and appending; an error if it exists.
    Create,
}

/// An advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Any number of owners; excludes writers.
    Shared,
    /// One owner.
    Exclusive,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, a pipe or a device.
    Other,
}

/// The identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

/// The metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The identity.
    pub ident: Ident,
    /// Length in bytes.
    pub len: u64,
    /// Permission bits.
    pub mode: u32,
    /// The file type.
    pub kind: FileKind,
}

impl Stat {
    /// Returns true if a write or sync failed and nobody may append until the log is repaired (R8).
    pub const fn is_poisoned(&self) -> bool {
        self.mode & 0o200 == 0
    }

    /// Returns true if a writer claimed the place at the end of this log and has not finished writing there. If the
    /// lock is free, that writer died.
    pub const fn is_claimed(&self) -> bool {
        self.mode & 0o100 != 0
    }

    /// Returns true if an import wrote this log and has not committed its session. If no session names the log, the
    /// import died.
    pub const fn is_draft(&self) -> bool {
        self.mode == MODE_DRAFT
    }
}

/// The permission bits of an imported log until its session is committed.
pub(crate) const MODE_DRAFT: u32 = 0o610;
/// The permission bits of a log.
pub(crate) const MODE_LOG: u32 = 0o600;
/// The permission bits of a log while an operation claims the place at its end.
pub(crate) const MODE_CLAIMED: u32 = 0o700;
/// The permission bits of a log that is closed to appends.
pub(crate) const MODE_POISONED: u32 = 0o400;
