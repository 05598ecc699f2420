//! What can go wrong with a log, by what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};

use duolog_types::Position;

use crate::blobs::BlobId;
use crate::fs::FileKind;

/// The result of a call on a log.
pub type Result<T> = std::result::Result<T, Error>;

/// A call on a log that failed. Unless it says otherwise, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Someone held the lock past the deadline.
    #[error("{} is locked{}", path.display(), by(*holder))]
    Busy {
        /// The log.
        path: PathBuf,
        /// The process that holds it, where that can be known.
        holder: Option<u32>,
    },
    /// The log does not end where the caller expects.
    #[error("the log ends at {found}, not at {expected}")]
    Moved {
        /// Where the caller thinks it ends.
        expected: Position,
        /// Where it ends.
        found: Position,
    },
    /// The disk failed a writer of this log; nobody may append until it is repaired.
    #[error("{} is closed to appends: a write or sync failed, and what the disk holds is not certain", .0.display())]
    Poisoned(PathBuf),
    /// Something that is not a regular file stands where the log should be.
    #[error("{} is not a file but {}", path.display(), match found { FileKind::Directory => "a directory", _ => "a link or a device" })]
    NotALog {
        /// The path.
        path: PathBuf,
        /// What stands there.
        found: FileKind,
    },
    /// The file at the path is not the one this writer has open: it was deleted, moved away or replaced.
    #[error("{} was deleted, moved or replaced while it was open", .0.display())]
    Replaced(PathBuf),
    /// A writer died between claiming the place at the end of the log and writing there. Opening the log anew settles
    /// that.
    #[error("{} has a claim that was not settled", .0.display())]
    Claimed(PathBuf),
    /// The caller's claim of a place was refused; nothing was written.
    #[error("the place at the end of {} could not be claimed", .0.display())]
    NotClaimed(PathBuf),
    /// The log was opened by another process, and this one came from it by a fork: the lock would exclude neither.
    #[error("this log was opened by process {opened}, and process {now} is a fork of it: open it again here")]
    Forked {
        /// The process that opened it.
        opened: u32,
        /// This process.
        now: u32,
    },
    /// Other bytes stand where this writer's stood: the file was edited in place.
    #[error("{} was overwritten while it was open", .0.display())]
    Overwritten(PathBuf),
    /// The file is shorter than what was seen of it.
    #[error("{} ends at {found}, but bytes up to {expected} were seen", path.display())]
    Shrunk {
        /// The log.
        path: PathBuf,
        /// What was seen.
        expected: Position,
        /// What is there.
        found: Position,
    },
    /// There is no room; what had been written of the batch was taken back.
    #[error("no space left for {}", .0.display())]
    Full(PathBuf),
    /// The batch is larger than the limit.
    #[error("the batch is {bytes} bytes, over the limit of {max}")]
    BatchTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The position is not after a whole line of this log.
    #[error("{0} is not the start of a line")]
    NotABoundary(Position),
    /// The position is behind the end.
    #[error("{position} is behind the end of the log at {end}")]
    BeyondEnd {
        /// The position asked for.
        position: Position,
        /// Where the log ends.
        end: Position,
    },
    /// The position is before what is kept here.
    #[error("{position} is before {base}, where this log begins")]
    BeforeBase {
        /// The position asked for.
        position: Position,
        /// The first position there is.
        base: Position,
    },
    /// There is no such blob.
    #[error("there is no blob {0}")]
    NoBlob(BlobId),
    /// The bytes of a blob are not those that were put.
    #[error("blob {0} is damaged: its bytes are not the ones it is named after; put the original again to replace it")]
    BadBlob(BlobId),
    /// The state could not say what this log is, or take note of it.
    #[error("the state did not answer about the log")]
    Record(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The lines are in the log, but what makes them durable could not be opened. Asking again would append them again.
    #[error("the lines are in {}, but they are not synced", path.display())]
    NotSynced {
        /// The log.
        path: PathBuf,
        /// Why the sync was not tried.
        #[source]
        source: io::Error,
    },
    /// A write failed and left nothing that counts; the log is closed to appends until it is repaired.
    #[error("cannot write {}, which is closed to appends now", path.display())]
    Closed {
        /// The log.
        path: PathBuf,
        /// Why the write failed.
        #[source]
        source: io::Error,
    },
    /// What was to be kept could not be read from where it comes from.
    #[error("cannot read what is to be kept")]
    Source(#[source] io::Error),
    /// A disk call failed.
    #[error("cannot {call} {}", path.display())]
    Io {
        /// What was tried.
        call: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Whether the file that a writer had open is no longer the log it knew, and must be opened anew.
    pub fn lost_its_file(&self) -> bool {
        matches!(self, Self::Replaced(_) | Self::Shrunk { .. } | Self::Overwritten(_) | Self::Claimed(_))
    }

    /// Wraps the failure of one disk call.
    pub fn io(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            if is_full(&source) {
                return Self::Full(path.to_owned());
            }
            Self::Io { call, path: path.to_owned(), source }
        }
    }
}

/// Whether the disk, the quota or the largest file size is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn by(holder: Option<u32>) -> String {
    holder.map_or_else(|| " by another process".to_owned(), |pid| format!(" by process {pid}"))
}
