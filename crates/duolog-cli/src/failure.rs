//! Why a command could not do what it was asked to.

use std::io;
use std::path::{Path, PathBuf};

use duolog::ErrorKind;
use duolog::config::ConfigError;
use duolog::errors::{Invalid, Io, with_causes};
use duolog_wire as wire;

use crate::{figures, hints};

/// How a command that did its work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is done.
    Done,
    /// It is not done, and nothing was changed.
    No,
    /// It was done before, and nothing was changed.
    AlreadyDone,
    /// It was overtaken.
    Stale,
    /// What was looked at cannot be meant.
    Invalid,
    /// Someone else was in the way.
    Busy,
    /// What was looked at is damaged.
    Damaged,
    /// A part of it is done and was answered, beside an error of this kind.
    Partly(ErrorKind),
}

/// What running a command gives.
pub type CommandResult = Result<Ended, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The store refused.
    Store(duolog::Error),
    /// What was given cannot be meant.
    Given {
        /// What is wrong with it.
        message: String,
        /// What to give instead.
        hint: Option<String>,
    },
    /// Something is not there.
    Absent {
        /// What.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The configuration cannot be used.
    Config(ConfigError),
    /// A file outside the store could not be used.
    File {
        /// What was tried.
        call: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The answer could not be written.
    Output(io::Error),
    /// Something was taken away, and the answer that holds it could not be written.
    Unseen {
        /// What was done.
        done: &'static str,
        /// Why the answer was not written.
        source: io::Error,
    },
    /// A part was done.
    Partly {
        /// How many lines of the input were appended.
        appended: u64,
        /// Why the next one was not.
        cause: Box<Self>,
    },
    /// Some due times of schedules were fired, and then no more.
    TickStopped {
        /// How many were fired.
        fired: usize,
        /// Why the next one was not.
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
    /// Wraps the failure of one call on a file.
    pub fn file(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { call, path: path.to_owned(), source }
    }

    /// Says what was done, if the answer could not be written: a closed pipe is no success where the answer is all that
    /// is left of it.
    #[must_use]
    pub fn unseen(self, done: &'static str) -> Self {
        match self {
            Self::Output(source) => Self::Unseen { done, source },
            other => other,
        }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Absent { .. } => ErrorKind::NotFound,
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

    /// What happened to what, and why, as far down as is known.
    pub fn message(&self) -> String {
        match self {
            Self::Store(error) => with_causes(error),
            Self::Config(error) => with_causes(error),
            Self::Given { message, .. } | Self::Absent { message, .. } => message.clone(),
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
                    // It names the line.
                    Self::Store(duolog::Error::Invalid(Invalid::Line(_))) => cause.message(),
                    other => format!("cannot append line {}: {}", appended + 1, other.message()),
                };
                format!("{cause}; {lines} {were} appended")
            }
        }
    }

    /// One thing to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => hints::of(error),
            Self::Given { hint, .. } | Self::Absent { hint, .. } => hint.clone(),
            Self::Config(ConfigError::Findings { path: None, .. }) => {
                Some("leave it out, or set it to what is expected".to_owned())
            }
            Self::Config(ConfigError::Findings { .. }) => {
                Some("duolog config show --help lists the keys and what they may be".to_owned())
            }
            Self::Config(ConfigError::NotAFile(_) | ConfigError::TooLarge(_)) => {
                Some("move it away; without a file the defaults are in force".to_owned())
            }
            Self::Partly { appended, cause } if cause.is_full() => {
                Some(format!("make room on the disk, then append the input from line {} on", appended + 1))
            }
            Self::TickStopped { .. } => Some("run duolog schedules tick again: the other times stay due".to_owned()),
            Self::Partly { cause, .. } => cause.hint(),
            Self::Config(_) | Self::File { .. } | Self::Output(_) | Self::Unseen { .. } => None,
        }
    }

    /// Whether it is only that there is no home yet.
    pub fn is_missing_home(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_missing_home())
    }

    /// Says how many lines of the input were appended before this. That the reader has gone is no failure.
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

    /// Whether it is only that the reader has gone.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
