//! What can be asked of the disk: which calls it saw, how one goes wrong, what a crash takes.

use std::path::PathBuf;
use std::{fmt, io};

/// The number of the error "no such process may do this".
pub const EACCES: i32 = 13;
/// The number of the error "interrupted by a signal".
pub const EINTR: i32 = 4;
/// The number of the error "the device failed".
pub const EIO: i32 = 5;
/// The number of the error "no space left".
pub const ENOSPC: i32 = 28;

/// What a disk call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// Opens a file that exists.
    Open,
    /// Makes a file.
    Create,
    /// Looks at a path or an open file.
    Stat,
    /// Reads.
    Read,
    /// Writes at the end.
    Append,
    /// Makes bytes durable.
    Sync,
    /// Makes names durable.
    SyncDir,
    /// Cuts a file.
    SetLen,
    /// Changes permission bits.
    SetMode,
    /// Puts one file in the place of another.
    Rename,
    /// Takes a name away.
    Unlink,
    /// Tries to take a lock.
    Lock,
    /// Gives a lock back.
    Unlock,
    /// Makes a directory.
    CreateDir,
    /// Lists a directory.
    List,
}

impl CallKind {
    /// Whether it changes the disk, or what a loss of power leaves of it.
    pub const fn is_mutation(self) -> bool {
        !matches!(self, Self::Open | Self::Stat | Self::Read | Self::Lock | Self::Unlock | Self::List)
    }
}

/// One disk call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number on this disk, from 0.
    pub index: usize,
    /// What it does.
    pub kind: CallKind,
    /// On what; a rename names what it moves.
    pub path: PathBuf,
    /// The bytes to read or write, or the length to cut to.
    pub len: u64,
    /// The process that makes it.
    pub process: u32,
}

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error number and does nothing. A failed sync loses what it should have made durable.
    Error(i32),
    /// An append writes only so many bytes, and says so.
    Short(usize),
    /// The process dies in it: this call and all its later ones fail, and its locks are gone.
    Stop {
        /// How many bytes of an append still get written; without, the call does nothing.
        after_bytes: Option<usize>,
    },
}

/// What a crash takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Every process died: what was written is there, locks are gone.
    Process,
    /// The machine died.
    Power(Loss),
}

/// What becomes of bytes and names that were not synced when the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All are lost, cuts are undone.
    DropUnsynced,
    /// None is lost.
    KeepAll,
    /// Of what was appended to each file a part is left, of any length; a cut may be undone. Names are kept.
    Torn {
        /// Decides the lengths.
        seed: u64,
    },
    /// Each file is as long as it was, and has NUL bytes where bytes were not synced. Names are kept.
    ZeroExtended,
    /// Bytes are kept, names are lost: a new file is gone, a replaced one is back.
    LostNames,
}

impl Loss {
    /// Every kind of loss, with this many seeds for those that have one.
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
        f.write_str("the process was stopped here")
    }
}

impl std::error::Error for Stopped {}

/// Whether a call failed because its process had been stopped by [`Fault::Stop`].
pub fn is_stopped(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Stopped>)
}

pub(super) fn stopped() -> io::Error {
    io::Error::other(Stopped)
}

pub(super) fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
