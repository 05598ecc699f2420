//! Errors of the log, by what the caller can do about them.

use std::io;
use std::path::{Path, PathBuf};

use duolog_types::Position;

use crate::blobs::BlobId;
use crate::fs::FileKind;

/// The result of a call on a log.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a call on a log. Nothing was written, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another owner held the lock until the deadline.
    #[error("{} is locked{}", path.display(), by_holder(*holder))]
    Busy {
        /// The log.
        path: PathBuf,
        /// The process that holds the lock, if it is known.
        holder: Option<u32>,
    },
    /// The log does not end where the caller expects.
    #[error("the log ends at {found}, not at {expected}")]
    Moved {
        /// The end that the caller expects.
        expected: Position,
        /// The actual end.
        found: Position,
    },
    /// A write or sync failed; nobody may append until the log is repaired.
    #[error("{} is closed to appends: a write or sync failed, and the content on the disk is uncertain", .0.display())]
    Poisoned(PathBuf),
    /// The path of the log is not a regular file.
    #[error("{} is not a file but {}", path.display(), match found { FileKind::Directory => "a directory", _ => "a link or a device" })]
    NotALog {
        /// The path.
        path: PathBuf,
        /// The type of the file there.
        found: FileKind,
    },
    /// The path no longer names the file that this writer has open: it was deleted, moved or replaced.
    #[error("{} was deleted, moved or replaced while it was open", .0.display())]
    Replaced(PathBuf),
    /// A writer died between the claim of a place at the end of the log and the write there. Reopening the log settles
    /// the claim.
    #[error("{} has an unsettled claim of its end", .0.display())]
    Claimed(PathBuf),
    /// The caller's claim of a place was refused.
    #[error("cannot claim the end of {}", .0.display())]
    NotClaimed(PathBuf),
    /// Another process opened the log, and this process is its fork: both share the lock, so it excludes neither.
    #[error("process {opened} opened this log and process {now} is its fork: open the log again in this process")]
    Forked {
        /// The process that opened the log.
        opened: u32,
        /// This process.
        now: u32,
    },
    /// The bytes that this writer wrote were changed: the file was edited in place.
    #[error("{} was overwritten while it was open", .0.display())]
    Overwritten(PathBuf),
    /// The file is shorter than it was.
    #[error("{} ends at {found}, but bytes up to {expected} were seen", path.display())]
    Shrunk {
        /// The log.
        path: PathBuf,
        /// The end that was seen before.
        expected: Position,
        /// The current end.
        found: Position,
    },
    /// The disk is full; the part of the batch that was written was rolled back.
    #[error("no space left for {}", .0.display())]
    Full(PathBuf),
    /// The batch is larger than the limit.
    #[error("the batch is {bytes} bytes, over the limit of {max}")]
    BatchTooLarge {
        /// The size of the batch.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The position is not the end of a complete line of this log.
    #[error("{0} is not the start of a line")]
    NotABoundary(Position),
    /// The position is after the end.
    #[error("{position} is after the end of the log at {end}")]
    BeyondEnd {
        /// The requested position.
        position: Position,
        /// The end of the log.
        end: Position,
    },
    /// The position is before the oldest segment that is available.
    #[error("{position} is before {base}, where this log begins")]
    BeforeBase {
        /// The requested position.
        position: Position,
        /// The first available position.
        base: Position,
    },
    /// There is no such blob.
    #[error("there is no blob {0}")]
    NoBlob(BlobId),
    /// The content of a blob does not match its id.
    #[error("blob {0} is damaged: its content does not match its id; store the original again to replace it")]
    BadBlob(BlobId),
    /// The state could not be asked about this log, or could not record a change of it.
    #[error("cannot read or update the state of the log")]
    Record(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The lines are in the log, but the sync could not be tried. Retrying the append would append them twice.
    #[error("the lines are in {}, but they are not synced", path.display())]
    NotSynced {
        /// The log.
        path: PathBuf,
        /// Why the sync was not tried.
        #[source]
        source: io::Error,
    },
    /// A write failed and was rolled back; the log is closed to appends until it is repaired.
    #[error("cannot write {}; the log is now closed to appends", path.display())]
    Closed {
        /// The log.
        path: PathBuf,
        /// Why the write failed.
        #[source]
        source: io::Error,
    },
    /// The source of a blob could not be read.
    #[error("cannot read the content of the blob")]
    Source(#[source] io::Error),
    /// A disk call failed.
    #[error("cannot {call} {}", path.display())]
    Io {
        /// The verb of the call.
        call: &'static str,
        /// The path of the call.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Returns true if the writer's file is no longer the log that it knew, so that the log must be reopened.
    pub fn lost_its_file(&self) -> bool {
        matches!(self, Self::Replaced(_) | Self::Shrunk { .. } | Self::Overwritten(_) | Self::Claimed(_))
    }

    /// Wraps the error of a disk call: `cannot <call> <path>`.
    pub fn io(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            if is_full(&source) {
                return Self::Full(path.to_owned());
            }
            Self::Io { call, path: path.to_owned(), source }
        }
    }
}

/// Returns true if the disk is full, or the quota or the maximum file size is reached.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn by_holder(holder: Option<u32>) -> String {
    holder.map_or_else(|| " by another process".to_owned(), |pid| format!(" by process {pid}"))
}
