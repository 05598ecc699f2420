//! The errors of a test server.

use std::path::{Path, PathBuf};
use std::process::Output;

use super::binaries::OLDEST;

/// The result of an operation on a test server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason that an operation on a test server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No PostgreSQL is installed, or only an old one.
    #[error(
        "no PostgreSQL {OLDEST} or newer in /usr/lib/postgresql/*/bin or on PATH ({found}); install the server and psql \
         (Debian: apt-get install postgresql)"
    )]
    NotInstalled {
        /// The versions that were found.
        found: String,
    },
    /// No directory is suitable for a server's data.
    #[error("no directory on a real disk that user {user} can reach: {tried}; set TMPDIR to one")]
    NoPlace {
        /// The user of the server.
        user: String,
        /// Each directory that was tried, and why it is not suitable.
        tried: String,
    },
    /// PostgreSQL refuses to run as root, and there is no other user to run it as.
    #[error("PostgreSQL does not run as root, and there is no user postgres or nobody; add one or run as another user")]
    NoUser,
    /// Other processes took the port between the search for a free one and its use.
    #[error("the server's port was taken by another process {tries} times in a row; try again")]
    PortTaken {
        /// The number of attempts.
        tries: u32,
    },
    /// The server did not start or stop in time.
    #[error("the server did not start or stop; the end of its log:\n{log}")]
    NotReady {
        /// The end of the server's log.
        log: String,
    },
    /// An external program failed.
    #[error("{program} failed: {message}")]
    Program {
        /// The name of the program.
        program: String,
        /// Its error output, or why it did not run.
        message: String,
    },
    /// The server refused a statement, or was not reachable.
    #[error("the SQL failed: {message}")]
    Sql {
        /// The SQLSTATE, if the server returned one.
        sqlstate: Option<String>,
        /// The message of psql.
        message: String,
    },
    /// The environment variable of the shared server is not a URL.
    #[error("{variable} is not like postgresql://user:password@host:port/database; correct or unset it")]
    BadUrl {
        /// The name of the variable.
        variable: &'static str,
    },
    /// A file system operation failed.
    #[error("cannot {doing} {path}")]
    Io {
        /// The operation.
        doing: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
}

impl Error {
    pub(super) fn io(doing: &'static str, path: &Path, cause: std::io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), cause }
    }

    /// A program that could not be started.
    pub(super) fn program(program: &str, cause: &std::io::Error) -> Self {
        Self::Program { program: program.to_owned(), message: cause.to_string() }
    }

    /// A program that exited with an error.
    pub(super) fn failed(program: &str, output: &Output) -> Self {
        let message = format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        Self::Program { program: program.to_owned(), message }
    }

    /// Returns the SQLSTATE, if the server returned one.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Sql { sqlstate, .. } => sqlstate.as_deref(),
            _ => None,
        }
    }
}
