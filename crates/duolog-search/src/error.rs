//! Errors of the index.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// The result of a call on an index.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an index cannot be used. No data is lost: an index is derived from the logs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no index.
    #[error("no index at {}", .0.display())]
    Missing(PathBuf),
    /// Another process is creating it or writing to it.
    #[error("another process is creating or writing the index at {}", .0.display())]
    Busy(PathBuf),
    /// A newer version of Duolog created it.
    #[error("{} has format {found}, which a newer version created; this version supports up to {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest format version that this program knows.
        known: u32,
    },
    /// Another program created it.
    #[error("{} is a database of another program", .0.display())]
    Foreign(PathBuf),
    /// It belongs to another home, has an older format, or is damaged. It can be deleted.
    #[error("{} cannot be used: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// It was deleted or replaced while it was being opened.
    #[error("{} was replaced while it was being opened", .0.display())]
    Replaced(PathBuf),
    /// The disk is full.
    #[error("no space left on the disk for {}", .0.display())]
    Full(PathBuf),
    /// A file operation failed.
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
    /// Another error of SQLite.
    #[error("cannot read or write the index at {}", path.display())]
    Sql {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
}

impl Error {
    pub(crate) fn io(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { call, path: path.to_owned(), source }
    }

    /// Converts an error of SQLite.
    pub(crate) fn sql(path: &Path) -> impl Fn(rusqlite::Error) -> Self + Copy {
        move |source| {
            let path = path.to_owned();
            match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(path),
                // The statements fit every file that Duolog created: if one is invalid, the file is another program's
                // or damaged.
                Some(
                    ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
                    | ErrorCode::SchemaChanged
                    | ErrorCode::Unknown,
                ) => Self::Unusable { path, why: source.to_string() },
                Some(ErrorCode::DiskFull) => Self::Full(path),
                _ => Self::Sql { path, source },
            }
        }
    }

    /// Returns true if the index can be deleted and rebuilt.
    pub const fn is_rebuildable(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::Unusable { .. })
    }
}
