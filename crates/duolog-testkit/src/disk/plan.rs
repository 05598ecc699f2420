//! The calls of a disk, their faults, and what a crash loses.

use std::path::PathBuf;
use std::{fmt, io};

/// The error number of "permission denied".
pub const EACCES: i32 = 13;
/// The error number of "interrupted by a signal".
pub const EINTR: i32 = 4;
/// The error number of "input/output error".
pub const EIO: i32 = 5;
/// The error number of "no space left on device".
pub const ENOSPC: i32 = 28;

/// The kind of a disk call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// Opens a file that exists.
    Open,
    /// Creates a file.
    Create,
    /// Reads the metadata of a path or an open file.
    Stat,
    /// Reads.
    Read,
    /// Writes at the end.
    Append,
    /// Makes bytes durable.
    Sync,
    /// Makes names durable.
    SyncDir,
    /// Truncates a file.
    SetLen,
    /// Changes permission bits.
    SetMode,
    /// Renames a file, replacing another.
    Rename,
    /// Removes a name.
    Unlink,
    /// Tries to take a lock.
    Lock,
    /// Releases a lock.
    Unlock,
    /// Creates a directory.
    CreateDir,
    /// Lists a directory.
    List,
}

impl CallKind {
    /// Returns true if the call changes the disk or what a power loss leaves of it.
    pub const fn is_mutation(self) -> bool {
        !matches!(self, Self::Open | Self::Stat | Self::Read | Self::Lock | Self::Unlock | Self::List)
    }
}

/// One disk call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its index on this disk, from 0.
    pub index: usize,
    /// Its kind.
    pub kind: CallKind,
    /// Its path; for a rename, the old path.
    pub path: PathBuf,
    /// The number of bytes to read or write, or the length to truncate to.
    pub len: u64,
    /// The calling process.
    pub process: u32,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this error number and does nothing. A failed sync loses the bytes that it should have
    /// stored.
    Error(i32),
    /// An append writes only this many bytes and returns that number.
    Short(usize),
    /// The process dies in the call: this call and all later ones fail, and its locks are released.
    Stop {
        /// The number of bytes that an append still writes; none: the call does nothing.
        after_bytes: Option<usize>,
    },
}

/// The kind of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Every process died: written bytes are kept, locks are released.
    Process,
    /// The machine lost power.
    Power(Loss),
}

/// What a power loss leaves of unsynced bytes and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All are lost, truncations are undone.
    DropUnsynced,
    /// None are lost.
    KeepAll,
    /// A part of the bytes appended to each file is kept, of any length; a truncation may be undone. Names are kept.
    Torn {
        /// The seed of the lengths.
        seed: u64,
    },
    /// Each file keeps its length, with NUL bytes in place of unsynced bytes. Names are kept.
    ZeroExtended,
    /// Bytes are kept, names are lost: a new file is missing, a replaced one is restored.
    LostNames,
}

impl Loss {
    /// Returns every kind of loss, with this many seeds for those that have one.
    pub fn all(seeds: u64) -> Vec<Self> {
        let mut all = vec![Self::DropUnsynced, Self::KeepAll, Self::ZeroExtended, Self::LostNames];
        all.extend((0..seeds).map(|seed| Self::Torn { seed }));
        all
    }
}

#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process was stopped")
    }
}

impl std::error::Error for Stopped {}

/// Returns true if a call failed because its process was stopped by [`Fault::Stop`].
pub fn is_stopped(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Stopped>)
}

pub(super) fn stopped() -> io::Error {
    io::Error::other(Stopped)
}

pub(super) fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
