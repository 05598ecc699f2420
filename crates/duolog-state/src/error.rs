//! What can go wrong in the state store, by what the caller can do about it.

use std::path::PathBuf;
use std::sync::Arc;

/// The error beneath an error. Shared, because one failed commit is the answer to every member of its group.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// A result of the state store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Which rule of the schema a row broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// Another row has this key already.
    Unique,
    /// A bound or a vocabulary.
    Check,
    /// The row that it names does not exist.
    ForeignKey,
    /// A value must be there.
    NotNull,
    /// Any other rule.
    Other,
}

/// What the state store answers instead of a result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Someone else held it for longer than we may wait. Nothing was changed.
    #[error("{what} is in use{}", holder.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Busy {
        /// What was waited for.
        what: &'static str,
        /// The process that holds it, where that can be told.
        holder: Option<u32>,
    },
    /// The commit failed in a way that does not tell whether the transaction happened.
    #[error("the commit failed, and whether it happened is unknown: read before trying again")]
    Unknown {
        /// What the commit answered.
        #[source]
        source: Cause,
    },
    /// A sync of the database files failed, now or in another process, and what it left in doubt could not be settled.
    /// Nothing was written.
    #[error("cannot promise that a commit survives a power loss: an earlier sync of the state failed")]
    SyncFailed {
        /// What kept the files from being synced again.
        #[source]
        source: Cause,
    },
    /// The disk is full. Nothing of the transaction was kept.
    #[error("the disk is full; the transaction was rolled back")]
    Full {
        /// What the engine answered.
        #[source]
        source: Cause,
    },
    /// Bytes that are not what was written.
    #[error("{what} is damaged: {detail}")]
    Damaged {
        /// The file or column.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A write where only reading was asked for or is possible.
    #[error("the state is open read-only")]
    ReadOnly,
    /// A row that the schema refuses.
    #[error("the row breaks a rule of its table: {detail}")]
    Constraint {
        /// Which kind of rule.
        kind: ConstraintKind,
        /// The rule or the columns, as the engine names them.
        detail: String,
    },
    /// The database was written by a newer program, and is never written by this one (I8).
    #[error("the state has schema version {found}, and this program knows up to {known}: use a newer duolog")]
    Newer {
        /// The version in the database.
        found: u32,
        /// The newest version this program knows.
        known: u32,
    },
    /// The database is older than this program, and this opening may not change that.
    #[error("the state has schema version {found} and needs {known}: open it for writing once to migrate it")]
    NeedsMigration {
        /// The version in the database.
        found: u32,
        /// The version this program works with.
        known: u32,
    },
    /// A database of a development schema, from before the first release. Nothing was changed.
    #[error(
        "cannot open {place}: it has the development schema {found}, and homes from before schema {} cannot be opened",
        crate::migrate::FIRST_VERSION
    )]
    Development {
        /// The database.
        place: String,
        /// The version in the database.
        found: u32,
    },
    /// A database with tables that are not ours.
    #[error("{place} is a database of another program")]
    Foreign {
        /// The database.
        place: String,
    },
    /// An address that leads nowhere.
    #[error("the address of the state cannot be used: {detail}")]
    BadAddress {
        /// What is wrong with it, without its secrets.
        detail: String,
    },
    /// The address of a server, in a build without the engine for it.
    #[error("cannot open a state on PostgreSQL: this build lacks the cargo feature \"postgres\" of duolog")]
    NoPostgres,
    /// The server did not answer, or stopped answering before the commit. Nothing was changed.
    #[error("{place} cannot be reached: {detail}")]
    Unreachable {
        /// The address, without its password.
        place: String,
        /// What was seen.
        detail: String,
    },
    /// The server answered, and does not let us in or do what was asked.
    #[error("{place} refused: {detail}")]
    Denied {
        /// The address, without its password.
        place: String,
        /// What it said.
        detail: String,
    },
    /// A server older than what we rely on.
    #[error("{place} is PostgreSQL {found}, and {needed} or newer is needed")]
    TooOld {
        /// The address, without its password.
        place: String,
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: u32,
    },
    /// Other transactions changed the same rows each time it was tried. Nothing was changed.
    #[error("other transactions kept changing the same rows")]
    Conflict {
        /// What the engine answered last.
        #[source]
        source: Cause,
    },
    /// What this engine does not do.
    #[error("{what} is not done here: {instead}")]
    NotHere {
        /// What was asked for.
        what: &'static str,
        /// What does it instead.
        instead: &'static str,
    },
    /// Text with a NUL byte.
    #[error("a text with a NUL byte in it does not fit a column")]
    Nul,
    /// Another process migrated the database after this one opened it.
    #[error("the state was migrated from version {opened} to {found} since it was opened: open it again")]
    SchemaChanged {
        /// The version when it was opened.
        opened: u32,
        /// The version now.
        found: u32,
    },
    /// The handle was made by another process; connections and locks do not survive a fork.
    #[error("the state was opened by process {opened} and this is process {now}: open it anew after a fork")]
    Forked {
        /// The process that opened it.
        opened: u32,
        /// This process.
        now: u32,
    },
    /// The opening was closed while clones of it were still in use. Nothing was changed.
    #[error("the state was closed")]
    Closed,
    /// The caller's own code panicked inside its transaction, which was rolled back.
    #[error("the transaction panicked and was rolled back: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
    /// A file system on which the write-ahead log is not safe.
    #[error("{} is on {kind}, where SQLite's write-ahead log is not safe: put it on a local disk", path.display())]
    FileSystem {
        /// The directory.
        path: PathBuf,
        /// The kind of file system.
        kind: String,
    },
    /// A path that SQLite does not take.
    #[error("cannot open {}: its path has {bytes} bytes, and SQLite takes at most {max}", path.display())]
    PathTooLong {
        /// The database file.
        path: PathBuf,
        /// The length of its path.
        bytes: usize,
        /// The longest path that can be opened.
        max: usize,
    },
    /// There is nothing to open.
    #[error("{}", missing(place))]
    Missing {
        /// Where it was looked for.
        place: String,
    },
    /// A copy never replaces a file.
    #[error("{} exists already", path.display())]
    Exists {
        /// The file in the way.
        path: PathBuf,
    },
    /// A setting that the engine did not take.
    #[error("SQLite answered {found:?} to {setting}")]
    Setting {
        /// What was asked.
        setting: &'static str,
        /// What it answered.
        found: String,
    },
    /// A number that does not fit a column.
    #[error("{value} does not fit a column: at most {}", i64::MAX)]
    OutOfRange {
        /// The number.
        value: u64,
    },
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system answered.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// A file of the state cannot be opened. Nothing was changed.
    #[error("cannot open a file of the state")]
    Unopenable {
        /// What the engine answered.
        #[source]
        source: Cause,
    },
    /// A file of the state cannot be written: the disk failed, or a limit of the file size is reached.
    #[error("cannot write a file of the state; the transaction was rolled back")]
    WriteFailed {
        /// What the engine answered.
        #[source]
        source: Cause,
    },
    /// The engine answered with an error that none of the others describes.
    #[error("the database engine failed")]
    Engine {
        /// What it answered.
        #[source]
        source: Cause,
    },
}

impl Error {
    /// Whether nothing happened for a reason that may be gone when it is tried again.
    #[cfg(feature = "postgres")]
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Unreachable { .. })
    }

    /// Whether another row has the key already.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Constraint { kind: ConstraintKind::Unique, .. })
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { action, path: path.into(), source: Arc::new(source) }
    }
}

fn missing(place: &str) -> String {
    if place.starts_with("postgres://") {
        format!("the store at {place} has no Duolog tables")
    } else {
        format!("there is no state at {place}")
    }
}
