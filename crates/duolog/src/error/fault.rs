//! Errors of the stores: the log, the state, the search index and the directory of a home.

use std::fmt;

use duolog_join::{Error as JoinError, HomeError, Leftover};
use duolog_log::Error as LogError;
use duolog_search::Error as IndexError;
use duolog_state::{ConstraintKind, Error as StateError};
use duolog_types::SessionId;

use super::ErrorKind;
use crate::config::ADDRESS_FORMS;

/// An error of the stores. Its text is the error, and its sources are the causes.
pub struct Fault(Box<FaultSource>);

enum FaultSource {
    Join(JoinError),
    Index(IndexError),
    Home(HomeError),
}

/// The remedy for a [`Fault`]. A surface may replace the text with its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// A text for every surface.
    Text(String),
    /// List the sessions.
    ListSessions,
    /// The log was changed by another program, and the change is on record.
    LogChanged,
    /// Show the bytes that a log lacks, and record the loss.
    RepairLost(SessionId),
    /// Copy the readable lines of a log into a new file.
    RepairLog,
    /// Use the home that owns the log.
    OtherHome,
    /// Move away a file that is not a log, then check the home.
    NotALog,
    /// Use a position that the store returned.
    Position,
    /// Find what is damaged and restore it.
    Restore {
        /// True if the state is on a server.
        on_server: bool,
    },
    /// Open the state for writing once, which migrates it.
    Migrate,
    /// Check the address. Opening the state for writing creates it.
    Create {
        /// True if the state is on a server; then its tables are created too.
        on_server: bool,
    },
    /// Use another directory for the home.
    AnotherHome,
    /// Use a home with a shorter path.
    ShorterHome,
    /// Create the home.
    CreateHome,
    /// Search without the index.
    NoIndex,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(text) => text,
            Self::ListSessions => "Sessions::list returns the sessions",
            Self::LogChanged => "the change is on record; the next append continues in the log as it is now",
            Self::RepairLost(_) => "Log::verify returns what is gone; Log::repair records it",
            Self::RepairLog => "Log::repair copies what can be read into a new file",
            Self::OtherHome => "open the store of that home",
            Self::NotALog => "move it away, then run Doctor::examine",
            Self::Position => "use a position that the store returned",
            Self::Restore { on_server: true } => {
                "Doctor::examine reports what is damaged; restore the database from a copy of it (pg_dump)"
            }
            Self::Restore { .. } => "Doctor::examine reports what is damaged; restore state.db from a backup",
            Self::Migrate => "open the store for writing once, which migrates the state",
            Self::Create { .. } => "check the address; opening the store for writing creates the state there",
            Self::AnotherHome => "use another directory",
            Self::ShorterHome => "use a home with a shorter path",
            Self::CreateHome => "open the store for writing, which creates the home",
            Self::NoIndex => "search with UseIndex::Never, which reads the logs instead",
        })
    }
}

impl Fault {
    /// Returns the remedy; `None` if there is none.
    pub fn remedy(&self) -> Option<Remedy> {
        match &*self.0 {
            FaultSource::Join(error) => join_remedy(error),
            FaultSource::Index(IndexError::Busy(_)) => Some(text("try again")),
            FaultSource::Index(IndexError::Foreign(path)) => Some(text(&format!("move {} away", path.display()))),
            FaultSource::Index(IndexError::Full(_)) => Some(text("make room on the disk; the logs are unchanged")),
            FaultSource::Index(_) => Some(Remedy::NoIndex),
            FaultSource::Home(HomeError::OpenToOthers { path, .. }) => {
                Some(text(&format!("chmod go-w {}", path.display())))
            }
            FaultSource::Home(HomeError::Missing(_)) => Some(Remedy::CreateHome),
            FaultSource::Home(HomeError::NotADirectory(_)) => Some(Remedy::AnotherHome),
            FaultSource::Home(HomeError::BadId(_)) => Some(text("restore the file from a backup of this home")),
            FaultSource::Home(_) => None,
        }
    }

    pub(super) fn kind(&self) -> ErrorKind {
        match &*self.0 {
            FaultSource::Join(error) => join_kind(error),
            FaultSource::Index(IndexError::Busy(_)) => ErrorKind::Busy,
            FaultSource::Index(IndexError::Foreign(_)) => ErrorKind::Conflict,
            FaultSource::Index(IndexError::Full(_)) => ErrorKind::Full,
            FaultSource::Home(HomeError::Missing(_)) => ErrorKind::NotFound,
            FaultSource::Home(HomeError::BadId(_)) => ErrorKind::Damaged,
            FaultSource::Index(_) | FaultSource::Home(_) => ErrorKind::Io,
        }
    }

    pub(super) fn join(&self) -> Option<&JoinError> {
        if let FaultSource::Join(error) = &*self.0 { Some(error) } else { None }
    }

    pub(super) fn index(&self) -> Option<&IndexError> {
        if let FaultSource::Index(error) = &*self.0 { Some(error) } else { None }
    }

    pub(super) fn is_missing_home(&self) -> bool {
        matches!(&*self.0, FaultSource::Home(HomeError::Missing(_)))
    }

    fn error(&self) -> &(dyn std::error::Error + 'static) {
        match &*self.0 {
            FaultSource::Join(error) => error,
            FaultSource::Index(error) => error,
            FaultSource::Home(error) => error,
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.error(), f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.error(), f)
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error().source()
    }
}

impl From<JoinError> for Fault {
    fn from(error: JoinError) -> Self {
        Self(Box::new(FaultSource::Join(error)))
    }
}

impl From<IndexError> for Fault {
    fn from(error: IndexError) -> Self {
        Self(Box::new(FaultSource::Index(error)))
    }
}

impl From<HomeError> for Fault {
    fn from(error: HomeError) -> Self {
        Self(Box::new(FaultSource::Home(error)))
    }
}

fn join_kind(error: &JoinError) -> ErrorKind {
    match error {
        JoinError::NoSession(_) | JoinError::Deleted(_) | JoinError::OperationOfDeleted { .. } => ErrorKind::NotFound,
        JoinError::OtherHome { .. }
        | JoinError::HomeCopied { .. }
        | JoinError::OperationReused { .. }
        | JoinError::OtherStates { .. } => ErrorKind::Conflict,
        JoinError::BackupRunning { .. } => ErrorKind::Busy,
        JoinError::LogChanged { .. } | JoinError::LogLost { .. } => ErrorKind::Damaged,
        JoinError::TooLong(_) | JoinError::BadLine(_) => ErrorKind::Invalid,
        JoinError::ReadOnly => ErrorKind::ReadOnly,
        JoinError::Log(error) => log_kind(error),
        JoinError::State(error) => state_kind(error),
        _ => ErrorKind::Io,
    }
}

fn log_kind(error: &LogError) -> ErrorKind {
    match error {
        LogError::Busy { .. } => ErrorKind::Busy,
        LogError::Moved { .. } => ErrorKind::Stale,
        LogError::NotSynced { .. } => ErrorKind::Unknown,
        LogError::Full(_) => ErrorKind::Full,
        LogError::Poisoned(_) | LogError::NotALog { .. } => ErrorKind::Damaged,
        error if error.lost_its_file() => ErrorKind::Damaged,
        LogError::BatchTooLarge { .. }
        | LogError::NotABoundary(_)
        | LogError::BeyondEnd { .. }
        | LogError::BeforeBase { .. } => ErrorKind::Invalid,
        _ => ErrorKind::Io,
    }
}

fn state_kind(error: &StateError) -> ErrorKind {
    match error {
        StateError::Busy { .. } | StateError::Conflict { .. } => ErrorKind::Busy,
        StateError::Unknown { .. } => ErrorKind::Unknown,
        StateError::Damaged { .. } => ErrorKind::Damaged,
        StateError::Full { .. } => ErrorKind::Full,
        StateError::ReadOnly => ErrorKind::ReadOnly,
        StateError::Closed => ErrorKind::Closed,
        StateError::NotHere { .. } => ErrorKind::Unsupported,
        StateError::Constraint { kind: ConstraintKind::Unique, .. } | StateError::Exists { .. } => ErrorKind::Conflict,
        StateError::Constraint { .. }
        | StateError::OutOfRange { .. }
        | StateError::Nul
        | StateError::BadAddress { .. }
        | StateError::NoPostgres
        | StateError::PathTooLong { .. } => ErrorKind::Invalid,
        StateError::Missing { .. } => ErrorKind::NotFound,
        StateError::SchemaChanged { .. } => ErrorKind::Stale,
        _ => ErrorKind::Io,
    }
}

fn join_remedy(error: &JoinError) -> Option<Remedy> {
    match error {
        JoinError::LogChanged { .. } => Some(Remedy::LogChanged),
        JoinError::LogLost { session, .. } => Some(Remedy::RepairLost(session.clone())),
        JoinError::NoSession(_) => Some(Remedy::ListSessions),
        JoinError::OtherHome { .. } => Some(Remedy::OtherHome),
        JoinError::HomeCopied { .. } => Some(text("use only one of the two, or give the copy its own database")),
        JoinError::OperationReused { .. } => Some(text("use a new operation id for other content")),
        JoinError::OtherStates { .. } => {
            Some(text("delete the record of a state that no longer exists from states/ in the home"))
        }
        JoinError::ReadOnly => Some(text("the directory cannot be written; copy the home or change its permissions")),
        JoinError::BackupRunning { holder } | JoinError::Log(LogError::Busy { holder, .. }) => {
            Some(text(&try_again(*holder)))
        }
        JoinError::Log(LogError::NotSynced { .. }) => {
            Some(text("do not append them again without the same operation id; a power loss may still remove them"))
        }
        JoinError::Unfinished { left: Leftover::LogFile | Leftover::SessionFile, .. } => {
            Some(text("it is deleted; the next command that can write in this home removes the file"))
        }
        JoinError::Unfinished { .. } => {
            Some(text("it is deleted; the next command that can write in this home does the rest"))
        }
        JoinError::Log(LogError::Poisoned(_) | LogError::Closed { .. }) => Some(Remedy::RepairLog),
        JoinError::Log(LogError::Moved { .. }) => Some(text("read what was appended since, then decide again")),
        JoinError::Log(LogError::Full(_)) => Some(text("make room on the disk; nothing was written")),
        JoinError::Log(LogError::NotALog { .. }) => Some(Remedy::NotALog),
        JoinError::Log(LogError::NotABoundary(_) | LogError::BeyondEnd { .. }) => Some(Remedy::Position),
        JoinError::State(error) => state_remedy(error),
        _ => None,
    }
}

fn state_remedy(error: &StateError) -> Option<Remedy> {
    let words = match error {
        StateError::Busy { what, holder: None } if what.contains("connection") => {
            "try again; close unused connections, or raise the server's max_connections"
        }
        StateError::Busy { holder, .. } => return Some(text(&try_again(*holder))),
        StateError::Conflict { .. } => "try again",
        StateError::Unknown { .. } => "retry with the same operation id, or read before you retry",
        StateError::Full { .. } => "make room on the disk; nothing was written",
        StateError::SyncFailed { .. } => "check the system log for disk errors, then try again; nothing was written",
        StateError::Damaged { what, .. } => return Some(Remedy::Restore { on_server: is_server(what) }),
        StateError::Newer { .. } => "upgrade duolog, or open the home it came from",
        StateError::NeedsMigration { .. } => return Some(Remedy::Migrate),
        StateError::Missing { place } => return Some(Remedy::Create { on_server: is_server(place) }),
        StateError::Development { place, .. } | StateError::Foreign { place } if is_server(place) => {
            "use an empty database for duolog alone"
        }
        StateError::Development { .. } | StateError::Foreign { .. } => return Some(Remedy::AnotherHome),
        StateError::PathTooLong { .. } => return Some(Remedy::ShorterHome),
        StateError::BadAddress { .. } => return Some(text(&format!("an address is {ADDRESS_FORMS}"))),
        StateError::NoPostgres => "build with the cargo feature postgres, or use a directory",
        StateError::Unreachable { .. } => "check that the server is running and that host and port are correct",
        StateError::Denied { .. } => {
            "check user, password, database and privileges; PGPASSWORD is used if the address has no password"
        }
        StateError::TooOld { .. } => "upgrade the server, or use another one",
        StateError::Unopenable { .. } => {
            "raise the limit of open files (ulimit -n), and check that the directory is readable"
        }
        StateError::WriteFailed { .. } => "check the disk and the file size limit (ulimit -f); nothing was written",
        StateError::ReadOnly => "use a server that accepts writes, or a writable directory",
        _ => return None,
    };
    Some(text(words))
}

fn text(words: &str) -> Remedy {
    Remedy::Text(words.to_owned())
}

fn try_again(holder: Option<u32>) -> String {
    holder.map_or_else(|| "try again".to_owned(), |pid| format!("try again, or check process {pid}"))
}

/// Returns true if a place is on a server. A path never starts like this.
fn is_server(place: &str) -> bool {
    place.starts_with("postgres://")
}
