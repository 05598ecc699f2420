//! What can go wrong around a test server, and what to do about it.

use std::path::{Path, PathBuf};
use std::process::Output;

use super::binaries::OLDEST;

/// The result of whatever is asked of a test server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a test server could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no PostgreSQL here, or only an old one.
    #[error(
        "no PostgreSQL {OLDEST} or newer in /usr/lib/postgresql/*/bin or on PATH ({found}); install the server and psql \
         (Debian: apt-get install postgresql)"
    )]
    NotInstalled {
        /// What was found instead.
        found: String,
    },
    /// No directory will do for a server's data.
    #[error("no place for a server's data on a real disk that user {user} can reach: {tried}; set TMPDIR to one")]
    NoPlace {
        /// Who the server runs as.
        user: String,
        /// Each directory that was looked at, and what is wrong with it.
        tried: String,
    },
    /// PostgreSQL refuses to run as root, and there is nobody else to run it as.
    #[error("PostgreSQL does not run as root, and there is neither a user postgres nor nobody; add one, or be another")]
    NoUser,
    /// Others took the port between the look for a free one and its use.
    #[error("the server's port was taken by another process, {tries} times in a row; try again")]
    PortTaken {
        /// How often it happened.
        tries: u32,
    },
    /// The server did not come up, or did not go down.
    #[error("the server did not start or stop as it should; the end of its log:\n{log}")]
    NotReady {
        /// The end of the server's log.
        log: String,
    },
    /// A program that this needs did not do its work.
    #[error("{program} failed: {said}")]
    Program {
        /// Which one.
        program: String,
        /// What it said, or why it did not run.
        said: String,
    },
    /// The server refused a statement, or could not be reached to run it.
    #[error("the SQL failed: {message}")]
    Sql {
        /// The five characters of the SQL standard, where the server said them.
        sqlstate: Option<String>,
        /// What psql said.
        message: String,
    },
    /// The variable that names a server to share does not.
    #[error("{variable} is not like postgresql://user:password@host:port/database; correct it, or unset it")]
    BadUrl {
        /// The variable's name.
        variable: &'static str,
    },
    /// The file system refused.
    #[error("cannot {doing} {path}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: std::io::Error,
    },
}

impl Error {
    pub(super) fn io(doing: &'static str, path: &Path, cause: std::io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), cause }
    }

    /// A program that could not be run at all.
    pub(super) fn program(program: &str, cause: &std::io::Error) -> Self {
        Self::Program { program: program.to_owned(), said: cause.to_string() }
    }

    /// A program that ran and said no.
    pub(super) fn failed(program: &str, output: &Output) -> Self {
        let said = format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        Self::Program { program: program.to_owned(), said }
    }

    /// The SQLSTATE, where the server said one.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Sql { sqlstate, .. } => sqlstate.as_deref(),
            _ => None,
        }
    }
}
