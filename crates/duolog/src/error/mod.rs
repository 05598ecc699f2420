//! The error type of this crate.
//!
//! A variant groups the errors that callers handle in the same way. The type that it carries has the details.

mod conflict;
mod fault;
mod hint;
mod invalid;
mod model;

pub use conflict::Conflict;
pub use fault::{Fault, Remedy};
pub use invalid::Invalid;
pub use model::{Busy, Damaged, Io, NotFound, Stale};

use duolog_join::{Error as JoinError, HomeError};
use duolog_log::Error as LogError;
use duolog_search::{BadQuery, Error as IndexError};
use duolog_state::Error as StateError;
use duolog_types::names::BadName;
use duolog_types::{BadLine, TooLong};

/// The result of a call on a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

duolog_types::words!(
/// The kind of an error. Each surface maps it once: to an exit code, an HTTP status or an exception class.
ErrorKind, "kind of error", {
    /// The thing does not exist.
    NotFound = "not_found",
    /// The current state forbids it: a name is taken, or a run has another status.
    Conflict = "conflict",
    /// The caller's data is outdated: read again, then decide again.
    Stale = "stale",
    /// The request is not valid.
    Invalid = "invalid",
    /// Another process or owner holds it: try again.
    Busy = "busy",
    /// The outcome is unknown: retry with the same operation id, or read.
    Unknown = "unknown",
    /// The stored bytes differ from the bytes that were written.
    Damaged = "damaged",
    /// The disk, the quota or the file size limit is exhausted. Nothing was written.
    Full = "full",
    /// The home or its state cannot be written.
    ReadOnly = "read_only",
    /// The store does not support this in its current location.
    Unsupported = "unsupported",
    /// The store was closed.
    Closed = "closed",
    /// The system failed: no permission, no server, or a broken disk.
    Io = "io",
});

/// The error of a call on a store. Unless it says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The thing does not exist.
    #[error(transparent)]
    NotFound(NotFound),
    /// The current state of the store forbids the request.
    #[error(transparent)]
    Conflict(Conflict),
    /// The caller's data is outdated.
    #[error(transparent)]
    Stale(Stale),
    /// The request is not valid.
    #[error(transparent)]
    Invalid(Invalid),
    /// Another process or owner holds it.
    #[error(transparent)]
    Busy(Busy),
    /// The outcome is unknown.
    #[error(transparent)]
    Unknown(Fault),
    /// The stored bytes differ from the bytes that were written.
    #[error(transparent)]
    Damaged(Damaged),
    /// No space is left.
    #[error(transparent)]
    Full(Fault),
    /// The home or its state cannot be written.
    #[error(transparent)]
    ReadOnly(Fault),
    /// The store does not support this in its current location.
    #[error(transparent)]
    Unsupported(Fault),
    /// The store was closed through another handle.
    #[error("the store was closed")]
    Closed,
    /// The system failed.
    #[error(transparent)]
    Io(Io),
}

impl Error {
    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Conflict(_) => ErrorKind::Conflict,
            Self::Stale(_) => ErrorKind::Stale,
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::Busy(_) => ErrorKind::Busy,
            Self::Unknown(_) => ErrorKind::Unknown,
            Self::Damaged(_) => ErrorKind::Damaged,
            Self::Full(_) => ErrorKind::Full,
            Self::ReadOnly(_) => ErrorKind::ReadOnly,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::Closed => ErrorKind::Closed,
            Self::Io(_) => ErrorKind::Io,
        }
    }

    /// Returns true if the cause is independent of the request, so that other requests would fail as well.
    pub(crate) fn is_general(&self) -> bool {
        use ErrorKind::{Busy, Closed, Full, Io, ReadOnly, Unknown};
        matches!(self.kind(), Busy | Unknown | Full | ReadOnly | Closed | Io)
    }

    /// Returns the error of the stores, if it is one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::NotFound(NotFound::Store(fault))
            | Self::Conflict(Conflict::Store(fault))
            | Self::Stale(Stale::Store(fault))
            | Self::Invalid(Invalid::Store(fault))
            | Self::Busy(Busy::Store(fault))
            | Self::Damaged(Damaged::Store(fault))
            | Self::Io(Io::Store(fault))
            | Self::Unknown(fault)
            | Self::Full(fault)
            | Self::ReadOnly(fault)
            | Self::Unsupported(fault) => Some(fault),
            _ => None,
        }
    }

    /// Returns the error of the join, if it is one.
    pub(crate) fn join(&self) -> Option<&JoinError> {
        self.fault().and_then(Fault::join)
    }

    /// Returns the error of the search index, if it is one.
    pub(crate) fn index(&self) -> Option<&IndexError> {
        self.fault().and_then(Fault::index)
    }

    /// Returns true if the session does not exist or was deleted.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.join(), Some(JoinError::NoSession(_) | JoinError::Deleted(_)))
    }

    /// Returns true if a row with this key exists.
    pub(crate) fn is_taken(&self) -> bool {
        self.join().is_some_and(JoinError::is_taken)
    }

    /// Returns true if the only problem is that the home does not exist yet.
    pub fn is_missing_home(&self) -> bool {
        self.fault().is_some_and(Fault::is_missing_home)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault.kind() {
            ErrorKind::NotFound => Self::NotFound(NotFound::Store(fault)),
            ErrorKind::Conflict => Self::Conflict(Conflict::Store(fault)),
            ErrorKind::Stale => Self::Stale(Stale::Store(fault)),
            ErrorKind::Invalid => Self::Invalid(Invalid::Store(fault)),
            ErrorKind::Busy => Self::Busy(Busy::Store(fault)),
            ErrorKind::Unknown => Self::Unknown(fault),
            ErrorKind::Damaged => Self::Damaged(Damaged::Store(fault)),
            ErrorKind::Full => Self::Full(fault),
            ErrorKind::ReadOnly => Self::ReadOnly(fault),
            ErrorKind::Unsupported => Self::Unsupported(fault),
            ErrorKind::Closed => Self::Closed,
            ErrorKind::Io => Self::Io(Io::Store(fault)),
        }
    }
}

impl From<JoinError> for Error {
    fn from(error: JoinError) -> Self {
        Fault::from(error).into()
    }
}

impl From<StateError> for Error {
    fn from(error: StateError) -> Self {
        Fault::from(JoinError::from(error)).into()
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        Fault::from(JoinError::from(error)).into()
    }
}

impl From<TooLong> for Error {
    fn from(error: TooLong) -> Self {
        Fault::from(JoinError::from(error)).into()
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        Fault::from(error).into()
    }
}

impl From<HomeError> for Error {
    fn from(error: HomeError) -> Self {
        Fault::from(error).into()
    }
}

impl From<BadName> for Error {
    fn from(bad: BadName) -> Self {
        Self::Invalid(Invalid::Name(bad))
    }
}

impl From<BadLine> for Error {
    fn from(bad: BadLine) -> Self {
        Self::Invalid(Invalid::Line(bad))
    }
}

impl From<BadQuery> for Error {
    fn from(bad: BadQuery) -> Self {
        Self::Invalid(Invalid::Query(bad))
    }
}

#[cfg(test)]
mod tests;
