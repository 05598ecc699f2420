//! Errors of the state store, grouped by what the caller can do about them.

use std::path::PathBuf;
use std::sync::Arc;

/// The underlying error. Shared, because every member of a group gets the error of its failed commit.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// The result of a call of the state store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of constraint that a row violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// Another row has the same key.
    Unique,
    /// A `CHECK`: a limit or a set of allowed values.
    Check,
    /// The referenced row does not exist.
    ForeignKey,
    /// A value is missing.
    NotNull,
    /// Any other constraint.
    Other,
}

/// An error of the state store.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another connection or process held the lock until the timeout. Nothing was changed.
    #[error("{what} is in use{}", holder.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Busy {
        /// The resource that is locked.
        what: &'static str,
        /// The process that holds the lock, if known.
        holder: Option<u32>,
    },
    /// The commit failed, and it is unknown whether the transaction was committed.
    #[error("the commit failed and its outcome is unknown: read the state before you retry")]
    Unknown {
        /// The error of the commit.
        #[source]
        source: Cause,
    },
    /// A sync of the database files failed, in this or another process, and a second sync failed too. Nothing was
    /// written.
    #[error("cannot promise that a commit survives a power loss: an earlier sync of the state failed")]
    SyncFailed {
        /// The error of the second sync.
        #[source]
        source: Cause,
    },
    /// The disk is full. The transaction was rolled back.
    #[error("the disk is full; the transaction was rolled back")]
    Full {
        /// The engine's error.
        #[source]
        source: Cause,
    },
    /// The stored bytes are not what was written.
    #[error("{what} is damaged: {detail}")]
    Damaged {
        /// The damaged file or column.
        what: String,
        /// The damage.
        detail: String,
    },
    /// A write on a state that is open read-only.
    #[error("the state is open read-only")]
    ReadOnly,
    /// The row violates a constraint of the schema.
    #[error("the row violates a constraint of its table: {detail}")]
    Constraint {
        /// The kind of constraint.
        kind: ConstraintKind,
        /// The constraint or its columns, as the engine names them.
        detail: String,
    },
    /// A newer program wrote the database, and this program must not write it (I8).
    #[error("the state has schema version {found}, and this program knows up to {known}: use a newer duolog")]
    Newer {
        /// The version in the database.
        found: u32,
        /// The newest version this program knows.
        known: u32,
    },
    /// The schema is older than this program needs, and this call may not migrate it.
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
    /// The database has tables of another program.
    #[error("{place} is a database of another program")]
    Foreign {
        /// The database.
        place: String,
    },
    /// The address cannot be parsed.
    #[error("cannot use the state's address: {detail}")]
    BadAddress {
        /// The mistake in it, without passwords.
        detail: String,
    },
    /// A server address, in a build without the PostgreSQL engine.
    #[error("cannot open a state on PostgreSQL: this build lacks the cargo feature \"postgres\" of duolog")]
    NoPostgres,
    /// The server did not answer, or the connection was lost before the commit. Nothing was changed.
    #[error("cannot reach {place}: {detail}")]
    Unreachable {
        /// The address, without its password.
        place: String,
        /// The error of the connection.
        detail: String,
    },
    /// The server refused the login or the statement.
    #[error("{place} refused: {detail}")]
    Denied {
        /// The address, without its password.
        place: String,
        /// The server's message.
        detail: String,
    },
    /// The server's version is not supported.
    #[error("{place} is PostgreSQL {found}, and {needed} or newer is needed")]
    TooOld {
        /// The address, without its password.
        place: String,
        /// Its version.
        found: String,
        /// The oldest supported version.
        needed: u32,
    },
    /// Every attempt conflicted with another transaction. Nothing was changed.
    #[error("other transactions kept changing the same rows")]
    Conflict {
        /// The engine's last error.
        #[source]
        source: Cause,
    },
    /// The engine does not support the operation.
    #[error("cannot {what}: {instead}")]
    NotHere {
        /// The operation, as a verb phrase.
        what: &'static str,
        /// What to use instead.
        instead: &'static str,
    },
    /// Text with a NUL byte.
    #[error("cannot store text with a NUL byte")]
    Nul,
    /// Another process migrated the database after this one opened it.
    #[error("the state was migrated from version {opened} to {found} since it was opened: open it again")]
    SchemaChanged {
        /// The version when it was opened.
        opened: u32,
        /// The version now.
        found: u32,
    },
    /// Another process opened the state; connections and locks do not survive a fork.
    #[error("the state was opened by process {opened} and this is process {now}: open it again after a fork")]
    Forked {
        /// The process that opened it.
        opened: u32,
        /// This process.
        now: u32,
    },
    /// The state was closed while clones of the handle were in use. Nothing was changed.
    #[error("the state was closed")]
    Closed,
    /// The caller's function panicked inside its transaction, which was rolled back.
    #[error("the transaction panicked and was rolled back: {message}")]
    Panicked {
        /// The panic message.
        message: String,
    },
    /// The directory is on a file system on which SQLite's write-ahead log is not safe.
    #[error("{} is on {kind}, where SQLite's write-ahead log is not safe: put it on a local disk", path.display())]
    FileSystem {
        /// The directory.
        path: PathBuf,
        /// The kind of file system.
        kind: String,
    },
    /// The path is too long for SQLite.
    #[error("cannot open {}: its path has {bytes} bytes, and SQLite takes at most {max}", path.display())]
    PathTooLong {
        /// The database file.
        path: PathBuf,
        /// The length of its path.
        bytes: usize,
        /// The maximum length.
        max: usize,
    },
    /// No state exists at the address.
    #[error("{}", missing(place))]
    Missing {
        /// The address, without its password.
        place: String,
    },
    /// The destination of a copy exists; a copy never replaces a file.
    #[error("{} exists already", path.display())]
    Exists {
        /// The existing file.
        path: PathBuf,
    },
    /// SQLite did not accept a setting, or has an unsupported version.
    #[error("SQLite returned {found:?} for {setting}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The value that SQLite returned.
        found: String,
    },
    /// The number is too large for a column.
    #[error("cannot store the number {value}: the maximum is {}", i64::MAX)]
    OutOfRange {
        /// The number.
        value: u64,
    },
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// A file of the state cannot be opened. Nothing was changed.
    #[error("cannot open a file of the state")]
    Unopenable {
        /// The engine's error.
        #[source]
        source: Cause,
    },
    /// A file of the state cannot be written: the disk failed, or the file size limit was reached.
    #[error("cannot write a file of the state; the transaction was rolled back")]
    WriteFailed {
        /// The engine's error.
        #[source]
        source: Cause,
    },
    /// Any other error of the engine.
    #[error("the database engine failed")]
    Engine {
        /// The engine's error.
        #[source]
        source: Cause,
    },
}

impl Error {
    /// Returns true if nothing was changed and a retry may succeed.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Unreachable { .. })
    }

    /// Returns true if another row has the same key.
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
