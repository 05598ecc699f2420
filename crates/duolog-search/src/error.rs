//! Why an index cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// The result of a call on an index.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an index cannot be used. None of it loses anything: the logs hold all that an index tells.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is none.
    #[error("there is no index at {}", .0.display())]
    Missing(PathBuf),
    /// Another process is making it, or filling it.
    #[error("another process is working on the index at {}", .0.display())]
    Busy(PathBuf),
    /// A newer version of this program made it.
    #[error("{} was made by a newer version (format {found}, this one knows {known})", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that is known.
        known: u32,
    },
    /// It is not ours.
    #[error("{} is a database of another program", .0.display())]
    Foreign(PathBuf),
    /// It was made for another home, by an older version, or it is not whole: to be thrown away.
    #[error("{} cannot be used: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It was deleted or replaced while it was opened.
    #[error("{} was replaced meanwhile", .0.display())]
    Replaced(PathBuf),
    /// The disk is full.
    #[error("there is no room on the disk for {}", .0.display())]
    Full(PathBuf),
    /// A file operation failed.
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
    /// SQLite failed otherwise.
    #[error("the index at {} failed", path.display())]
    Sql {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
}

impl Error {
    pub(crate) fn io(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { call, path: path.to_owned(), source }
    }

    /// Turns SQLite's answers into ours.
    pub(crate) fn sql(path: &Path) -> impl Fn(rusqlite::Error) -> Self + Copy {
        move |source| {
            let path = path.to_owned();
            match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(path),
                // Our statements are right for a file that we made: where one makes no sense, the file is another.
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

    /// Whether making it anew helps, and takes nothing from anybody.
    pub const fn is_to_be_made_anew(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::Unusable { .. })
    }
}
