//! The disk calls of the log: all of them, and nothing else.
//!
//! Paths are relative to the root a disk was made for. What is opened is reached through no symbolic link; a `stat` does
//! not follow the last component, and is only believed where it names a file that was opened.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A disk that logs live on.
pub trait Disk: Send + Sync {
    /// Opens a file. Only [`Open::Create`] makes one.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// What stands at a path now; nothing where there is nothing. Links are not followed.
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>>;
    /// Makes a directory, for the owner only. It may be there already; its parent must be.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Puts one file in the place of another, at once.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a name away.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order; none where there is no directory.
    fn list(&self, path: &Path) -> io::Result<Vec<(String, FileKind)>>;
    /// The process that holds the lock of a file, where that can be known.
    fn holder(&self, of: &Stat) -> Option<u32>;
    /// When the bytes of what stands at a path were last changed; nothing where there is nothing.
    fn changed_at(&self, path: &Path) -> io::Result<Option<SystemTime>>;
    /// Where the root is among the files of this machine, so that changes can be heard of; nothing where it is not.
    fn heard_at(&self) -> Option<&Path>;
}

/// An open file. Its locks end with it.
pub trait DiskFile: Send + Sync {
    /// What the file is now.
    fn stat(&self) -> io::Result<Stat>;
    /// Reads at an offset; 0 is the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at the end, in one call; the answer may be fewer bytes than given.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Changes the permission bits.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    /// Takes an advisory lock if nobody is in the way.
    fn try_lock(&self, lock: Lock) -> io::Result<bool>;
    /// Gives the lock back.
    fn unlock(&self) -> io::Result<()>;
}

/// How to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, to read.
    Read,
    /// An existing file, to read and append.
    Append,
    /// A file that must not exist yet, to read and append.
    Create,
}

/// An advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Any number at once: no writer is inside.
    Shared,
    /// One alone.
    Exclusive,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, a pipe, a device.
    Other,
}

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Which file.
    pub ident: Ident,
    /// Its length in bytes.
    pub len: u64,
    /// Its permission bits.
    pub mode: u32,
    /// What it is.
    pub kind: FileKind,
}

impl Stat {
    /// Whether a writer found that the disk failed it, and nobody may append until it is repaired (R8).
    pub const fn is_poisoned(&self) -> bool {
        self.mode & 0o200 == 0
    }

    /// Whether a writer claimed the place at the end of this log and has not said that its lines stand there. Seen
    /// while the lock is free, it died in between.
    pub const fn is_claimed(&self) -> bool {
        self.mode & 0o100 != 0
    }

    /// Whether an import wrote this log and has not said that its session is there. If no session names it, the import died.
    pub const fn is_draft(&self) -> bool {
        self.mode == MODE_DRAFT
    }
}

/// The permission bits of a log that is imported, until its session is committed.
pub(crate) const MODE_DRAFT: u32 = 0o610;
/// The permission bits of a log.
pub(crate) const MODE_LOG: u32 = 0o600;
/// The permission bits of a log while a writer claims the place at its end for an operation.
pub(crate) const MODE_CLAIMED: u32 = 0o700;
/// The permission bits of a log that nobody may append to.
pub(crate) const MODE_POISONED: u32 = 0o400;
