//! The outcome of a command: how it ended, or why it failed.

use std::io;
use std::path::{Path, PathBuf};

use duolog::ErrorKind;
use duolog::config::ConfigError;
use duolog::errors::{Invalid, Io, with_causes};
use duolog_wire as wire;

use crate::{figures, hints};

/// How a command without an error ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Done.
    Done,
    /// The answer is no; nothing was changed.
    No,
    /// Already done; nothing was changed.
    AlreadyDone,
    /// Overtaken by another owner.
    Stale,
    /// The checked input is invalid.
    Invalid,
    /// Another process is in the way.
    Busy,
    /// The checked data is damaged.
    Damaged,
    /// Partly done: the answer was printed together with an error of this kind.
    Partly(ErrorKind),
}

/// The result of a command.
pub type CommandResult = Result<Ended, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// An error of the store.
    Store(duolog::Error),
    /// The home that `--home` or `DUOLOG_HOME` names does not exist.
    NoHome {
        /// Its directory.
        home: PathBuf,
        /// The error of the store.
        error: duolog::Error,
    },
    /// Invalid input.
    Given {
        /// The error message.
        message: String,
        /// The hint.
        hint: Option<String>,
    },
    /// Something exists already.
    Conflict {
        /// The error message.
        message: String,
        /// The hint.
        hint: Option<String>,
    },
    /// Something was not found.
    Absent {
        /// The error message.
        message: String,
        /// The hint.
        hint: Option<String>,
    },
    /// An error of the configuration.
    Config(ConfigError),
    /// An I/O error on a file outside the store.
    File {
        /// The verb of the message: "cannot `call` `path`".
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The answer could not be written.
    Output(io::Error),
    /// Something was removed, and the answer that contains it could not be written.
    Unseen {
        /// The change that was made.
        done: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Only a part of the input was appended.
    Partly {
        /// The number of appended lines.
        appended: u64,
        /// Why the next line was not appended.
        cause: Box<Self>,
    },
    /// A tick stopped after some due times were fired.
    TickStopped {
        /// The number of fired times.
        fired: usize,
        /// Why the next time was not fired.
        cause: Box<Self>,
    },
}

impl From<duolog::Error> for Failure {
    fn from(error: duolog::Error) -> Self {
        match error {
            duolog::Error::Io(Io::Output(error)) => Self::Output(error),
            other => Self::Store(other),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<&Failure> for wire::Error {
    fn from(failure: &Failure) -> Self {
        Self { kind: failure.kind().as_str(), message: failure.message(), hint: failure.hint() }
    }
}

impl Failure {
    /// Returns a closure that wraps the I/O error of a call on a file.
    pub fn file(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { call, path: path.to_owned(), source }
    }

    /// Adds the change that was made if the answer could not be written. A closed pipe is then an error: the answer was
    /// the only copy.
    #[must_use]
    pub fn unseen(self, done: &'static str) -> Self {
        match self {
            Self::Output(source) => Self::Unseen { done, source },
            other => other,
        }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) | Self::NoHome { error, .. } => error.kind(),
            Self::Absent { .. } => ErrorKind::NotFound,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Config(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                ErrorKind::NotFound
            }
            Self::Config(ConfigError::Unreadable { .. })
            | Self::File { .. }
            | Self::Output(_)
            | Self::Unseen { .. } => ErrorKind::Io,
            Self::Given { .. } | Self::Config(_) => ErrorKind::Invalid,
            Self::Partly { cause, .. } | Self::TickStopped { cause, .. } => cause.kind(),
        }
    }

    /// Returns the error message with its causes.
    pub fn message(&self) -> String {
        match self {
            Self::Store(error) => with_causes(error),
            Self::NoHome { home, .. } => format!("there is no home at {}", home.display()),
            Self::Config(error) => with_causes(error),
            Self::Given { message, .. } | Self::Conflict { message, .. } | Self::Absent { message, .. } => {
                message.clone()
            }
            Self::File { call, path, source } => format!("cannot {call} {}: {source}", path.display()),
            Self::Output(source) => format!("cannot write the answer: {source}"),
            Self::Unseen { done, source } => format!("cannot write the answer: {source}; {done}"),
            Self::TickStopped { fired, cause } => {
                let times = figures::things(*fired as u64, "time");
                let were = if *fired == 1 { "was" } else { "were" };
                format!("cannot fire the next due time: {}; {times} {were} fired", cause.message())
            }
            Self::Partly { appended, cause } => {
                let lines = figures::things(*appended, "line");
                let were = if *appended == 1 { "was" } else { "were" };
                let cause = match &**cause {
                    // The message names the line.
                    Self::Store(duolog::Error::Invalid(Invalid::Line(_))) => cause.message(),
                    other => format!("cannot append line {}: {}", appended + 1, other.message()),
                };
                format!("{cause}; {lines} {were} appended")
            }
        }
    }

    /// Returns one command or action that helps; `None` if there is none.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => hints::of(error),
            Self::NoHome { home, .. } => {
                Some(format!("check the path, or create the home: duolog --home {} init", home.display()))
            }
            Self::Given { hint, .. } | Self::Conflict { hint, .. } | Self::Absent { hint, .. } => hint.clone(),
            Self::Config(ConfigError::Findings { path: None, .. }) => {
                Some("unset the variable or option, or set a valid value".to_owned())
            }
            Self::Config(ConfigError::Findings { .. }) => {
                Some("to list the keys and their values, run: duolog config show --help".to_owned())
            }
            Self::Config(ConfigError::NotAFile(_) | ConfigError::TooLarge(_)) => {
                Some("move it away; without a file the defaults apply".to_owned())
            }
            Self::Partly { appended, cause } if cause.is_full() => {
                Some(format!("make room on the disk, then append the input starting at line {}", appended + 1))
            }
            Self::TickStopped { .. } => {
                Some("run duolog schedules tick again: the remaining times are still due".to_owned())
            }
            Self::Partly { cause, .. } => cause.hint(),
            Self::Config(_) | Self::File { .. } | Self::Output(_) | Self::Unseen { .. } => None,
        }
    }

    /// Returns true if the home does not exist yet.
    pub fn is_missing_home(&self) -> bool {
        matches!(self, Self::NoHome { .. }) || matches!(self, Self::Store(error) if error.is_missing_home())
    }

    /// Adds the number of lines that were appended before the failure. A closed output is returned unchanged.
    pub fn after(self, appended: u64) -> Self {
        match self {
            cause if appended == 0 => cause,
            Self::Output(_) => self,
            cause => Self::Partly { appended, cause: Box::new(cause) },
        }
    }

    fn is_full(&self) -> bool {
        matches!(self, Self::Store(error) if error.kind() == ErrorKind::Full)
    }

    /// Returns true if the reader closed the pipe.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
