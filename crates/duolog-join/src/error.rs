//! What can go wrong between the stores.

use std::path::PathBuf;

use duolog_log::LogIdentity;
use duolog_state::ConstraintKind;
use duolog_types::{Epoch, HomeId, OperationId, Position, SessionId};

/// The result of a call on the join.
pub type Result<T> = std::result::Result<T, Error>;

/// A call that failed. Unless it says otherwise, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such session.
    #[error("there is no session {0}")]
    NoSession(SessionId),
    /// The session is being deleted.
    #[error("session {0} was deleted")]
    Deleted(SessionId),
    /// The operation was done in a session that was deleted since.
    #[error("operation {operation} was done in session {session:?}, which was deleted since")]
    OperationOfDeleted {
        /// The operation.
        operation: OperationId,
        /// What the session was called.
        session: String,
    },
    /// The home was copied, and both copies use one state.
    #[error("{} and {} are copies of one home ({home}), and both use this state", here.display(), other.display())]
    HomeCopied {
        /// The home.
        home: HomeId,
        /// The directory that was to be opened.
        here: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// Only the home that made a log may touch it (R9).
    #[error("the log of session {session} lives in home {owner}, and this is home {here}")]
    OtherHome {
        /// The session.
        session: SessionId,
        /// The home that owns its log.
        owner: HomeId,
        /// This home.
        here: HomeId,
    },
    /// Bytes that someone may have seen are no longer in the log. It was recorded and the epoch raised.
    #[error("the log of session {session} {}; its epoch is now {epoch}", told(*standing))]
    LogChanged {
        /// The session.
        session: SessionId,
        /// What was found.
        standing: LogIdentity,
        /// The epoch from now on.
        epoch: Epoch,
    },
    /// The log lacks bytes that were recorded of it. Nothing was recorded or changed.
    #[error("the log of session {session} is not complete: {loss}")]
    LogLost {
        /// The session.
        session: SessionId,
        /// What it lacks.
        loss: crate::Loss,
    },
    /// The operation id was used for other lines before.
    #[error("operation {operation} was used with other content before")]
    OperationReused {
        /// The id.
        operation: OperationId,
    },
    /// A copy of the home is being made, and no log may go meanwhile.
    #[error("a backup is running{}", holder.map_or_else(String::new, |pid| format!(" in process {pid}")))]
    BackupRunning {
        /// The process that makes it, if that is known.
        holder: Option<u32>,
    },
    /// Rows of other states may name the blobs of this home.
    #[error("cannot prune blobs: other states use this home and may name them: {}", states.join(", "))]
    OtherStates {
        /// The addresses of the other states.
        states: Vec<String>,
    },
    /// The deletion is committed; a part of it could not be finished yet.
    #[error("{}", unfinished(session, *left))]
    Unfinished {
        /// The session.
        session: SessionId,
        /// What is left to do.
        left: Leftover,
        /// The reason.
        #[source]
        source: Box<Error>,
    },
    /// The home was opened to be read.
    #[error("this home is open for reading only")]
    ReadOnly,
    /// What was asked for, or its answer, has no form as JSON.
    #[error("what was asked for cannot be written as JSON")]
    NoJson(#[source] serde_json::Error),
    /// The line would not fit its row.
    #[error(transparent)]
    TooLong(#[from] duolog_types::TooLong),
    /// A line that was made here is not one that a log takes.
    #[error(transparent)]
    BadLine(#[from] duolog_types::BadLine),
    /// The log refused.
    #[error(transparent)]
    Log(duolog_log::Error),
    /// The state refused.
    #[error(transparent)]
    State(#[from] duolog_state::Error),
}

/// The part of a committed deletion that could not be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// The log file of a session that is deleted.
    SessionFile,
    /// The row of a session that is deleted.
    SessionRow,
    /// The file of a log that is deleted; its session stays.
    LogFile,
    /// The note that the file of a deleted log is gone; its session stays.
    LogNote,
}

impl From<duolog_log::Error> for Error {
    /// What the state answered while the log was locked is an answer of the state.
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
    /// Whether nobody can tell if the change was made.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::State(duolog_state::Error::Unknown { .. }))
    }

    /// Whether the disk, the quota or the largest file size is used up.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::State(duolog_state::Error::Full { .. }) | Self::Log(duolog_log::Error::Full(_)))
    }

    /// Says that a deletion is committed, although a part of it failed.
    pub(crate) fn after_deletion(self, session: &SessionId, left: Leftover) -> Self {
        Self::Unfinished { session: session.clone(), left, source: Box::new(self) }
    }

    /// Whether the fold of one log failed in a way that leaves it behind and holds up no other: it is locked, closed or
    /// changed, the state is busy, or there is no room for its rows.
    pub(crate) fn leaves_behind(&self) -> bool {
        matches!(self, Self::Log(_) | Self::LogChanged { .. }) || self.is_full() || self.is_busy()
    }

    /// Whether another process or transaction was in the way.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::State(duolog_state::Error::Busy { .. } | duolog_state::Error::Conflict { .. }))
    }

    /// Says that a session is gone where the database only says that a row has no parent.
    pub(crate) fn of_session(self, session: &SessionId) -> Self {
        match self {
            Self::State(duolog_state::Error::Constraint { kind: ConstraintKind::ForeignKey, .. }) => {
                Self::NoSession(session.clone())
            }
            other => other,
        }
    }

    /// Whether the log is another home's, or gone with its session: there is nothing to be done here.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::OtherHome { .. } | Self::NoSession(_) | Self::Deleted(_))
    }

    /// Whether a row with this key is there already.
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

fn told(standing: LogIdentity) -> String {
    match standing {
        LogIdentity::Same => "is as it was".to_owned(),
        LogIdentity::Missing => "is gone".to_owned(),
        LogIdentity::Shorter(Position(end)) => format!("lost bytes: it ends at {end}, before what was recorded"),
        LogIdentity::Replaced => "was replaced: other bytes stand where known lines stood".to_owned(),
    }
}
