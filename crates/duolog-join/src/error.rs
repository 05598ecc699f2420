//! Errors of the join.

use std::path::PathBuf;

use duolog_log::LogIdentity;
use duolog_state::ConstraintKind;
use duolog_types::{Epoch, HomeId, OperationId, Position, SessionId};

/// The result of a call on the join.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call. Unless the variant says otherwise, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session does not exist.
    #[error("there is no session {0}")]
    NoSession(SessionId),
    /// The session is being deleted.
    #[error("session {0} was deleted")]
    Deleted(SessionId),
    /// The operation was done in a session that has been deleted.
    #[error("operation {operation} was done in session {session:?}, which was deleted since")]
    OperationOfDeleted {
        /// The operation.
        operation: OperationId,
        /// The name of the session.
        session: String,
    },
    /// The home was copied, and both copies use one state.
    #[error("{} and {} are copies of one home ({home}), and both use this state", here.display(), other.display())]
    HomeCopied {
        /// The home.
        home: HomeId,
        /// The directory that was opened.
        here: PathBuf,
        /// The other directory.
        other: PathBuf,
    },
    /// Only the home that created a log may use it (R9).
    #[error("the log of session {session} belongs to home {owner}, and this is home {here}")]
    OtherHome {
        /// The session.
        session: SessionId,
        /// The home that has its log.
        owner: HomeId,
        /// This home.
        here: HomeId,
    },
    /// Bytes that a reader may have seen are no longer in the log. The loss was recorded and the epoch raised.
    #[error("the log of session {session} {}; its epoch is now {epoch}", describe(*standing))]
    LogChanged {
        /// The session.
        session: SessionId,
        /// The finding.
        standing: LogIdentity,
        /// The new epoch.
        epoch: Epoch,
    },
    /// The log lacks recorded bytes. Nothing was recorded or changed.
    #[error("the log of session {session} is not complete: {loss}")]
    LogLost {
        /// The session.
        session: SessionId,
        /// The loss.
        loss: crate::Loss,
    },
    /// The operation id was used with another request.
    #[error("operation {operation} was used with other content before")]
    OperationReused {
        /// The id.
        operation: OperationId,
    },
    /// A backup is running, and no log may be deleted meanwhile.
    #[error("a backup is running{}", holder.map_or_else(String::new, |pid| format!(" in process {pid}")))]
    BackupRunning {
        /// The process that makes the backup, if known.
        holder: Option<u32>,
    },
    /// Rows of other states may reference the blobs of this home.
    #[error("cannot prune blobs: other states use this home and may name them: {}", states.join(", "))]
    OtherStates {
        /// The addresses of the other states.
        states: Vec<String>,
    },
    /// The deletion is committed, but a part of it could not be finished.
    #[error("{}", unfinished(session, *left))]
    Unfinished {
        /// The session.
        session: SessionId,
        /// The unfinished part.
        left: Leftover,
        /// The reason.
        #[source]
        source: Box<Error>,
    },
    /// The home is open read-only.
    #[error("this home is open for reading only")]
    ReadOnly,
    /// The request or its answer cannot be serialised as JSON.
    #[error("cannot write the request as JSON")]
    NoJson(#[source] serde_json::Error),
    /// The line is too long for its row.
    #[error(transparent)]
    TooLong(#[from] duolog_types::TooLong),
    /// A generated line is not valid for a log.
    #[error(transparent)]
    BadLine(#[from] duolog_types::BadLine),
    /// An error of the log.
    #[error(transparent)]
    Log(duolog_log::Error),
    /// An error of the state.
    #[error(transparent)]
    State(#[from] duolog_state::Error),
}

/// The unfinished part of a committed deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// The log file of a deleted session.
    SessionFile,
    /// The row of a deleted session.
    SessionRow,
    /// The file of a deleted log whose session stays.
    LogFile,
    /// The record that the file of a deleted log is gone. The session stays.
    LogNote,
}

impl From<duolog_log::Error> for Error {
    /// An error of the state that occurred while the log was locked stays an error of the state.
    fn from(error: duolog_log::Error) -> Self {
        let duolog_log::Error::Record(source) = error else { return Self::Log(error) };
        match source.downcast::<Self>() {
            Ok(error) => *error,
            Err(source) => match source.downcast::<duolog_state::Error>() {
                Ok(error) => Self::State(*error),
                Err(source) => Self::Log(duolog_log::Error::Record(source)),
            },
        }
    }
}

impl Error {
    /// Returns true if it is unknown whether the change was made.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::State(duolog_state::Error::Unknown { .. }))
    }

    /// Returns true if the disk, the quota or the file size limit is used up.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::State(duolog_state::Error::Full { .. }) | Self::Log(duolog_log::Error::Full(_)))
    }

    /// Wraps the error of an unfinished part of a committed deletion.
    pub(crate) fn after_deletion(self, session: &SessionId, left: Leftover) -> Self {
        Self::Unfinished { session: session.clone(), left, source: Box::new(self) }
    }

    /// Returns true if the fold of one log failed in a way that does not affect others: the log is locked, closed or
    /// changed, the state is busy, or the disk is full.
    pub(crate) fn leaves_behind(&self) -> bool {
        matches!(self, Self::Log(_) | Self::LogChanged { .. }) || self.is_full() || self.is_busy()
    }

    /// Returns true if another process or transaction was in the way.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::State(duolog_state::Error::Busy { .. } | duolog_state::Error::Conflict { .. }))
    }

    /// Maps a violated foreign key to [`Error::NoSession`].
    pub(crate) fn of_session(self, session: &SessionId) -> Self {
        match self {
            Self::State(duolog_state::Error::Constraint { kind: ConstraintKind::ForeignKey, .. }) => {
                Self::NoSession(session.clone())
            }
            other => other,
        }
    }

    /// Returns true if the log belongs to another home, or was deleted with its session: nothing is to be done here.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::OtherHome { .. } | Self::NoSession(_) | Self::Deleted(_))
    }

    /// Returns true if a row with this key exists.
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::State(duolog_state::Error::Constraint { kind: ConstraintKind::Unique, .. }))
    }
}

fn unfinished(session: &SessionId, left: Leftover) -> String {
    match left {
        Leftover::SessionFile => format!("session {session} is deleted, but its log file could not be removed yet"),
        Leftover::SessionRow => format!("session {session} is deleted, but its row could not be removed yet"),
        Leftover::LogFile => format!("the log of session {session} is deleted, but its file could not be removed yet"),
        Leftover::LogNote => format!("the log of session {session} is deleted, but its row could not be updated yet"),
    }
}

fn describe(standing: LogIdentity) -> String {
    match standing {
        LogIdentity::Same => "is unchanged".to_owned(),
        LogIdentity::Missing => "is missing".to_owned(),
        LogIdentity::Shorter(Position(end)) => format!("lost bytes: it ends at {end}, before the recorded end"),
        LogIdentity::Replaced => "was replaced: known lines are not in it".to_owned(),
    }
}
