//! The keys of the configuration, their values and their errors.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use duolog_state::StoreAddress;
use duolog_types::Durability;
use duolog_types::limits::{LINE_BYTES_READ_MAX, NAME_BYTES_MAX};

/// The maximum size of a configuration file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The forms of an address, for messages.
pub(crate) const ADDRESS_FORMS: &str =
    "a directory, sqlite:DIRECTORY, or postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A key of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `limits.line_bytes_max`
    LineBytesMax,
    /// `limits.batch_bytes_max`
    BatchBytesMax,
    /// `limits.busy_timeout_ms`
    BusyTimeoutMs,
    /// `limits.open_logs_max`
    OpenLogsMax,
    /// `limits.fold_batch_bytes`
    FoldBatchBytes,
    /// `limits.fold_before_read_bytes`
    FoldBeforeReadBytes,
    /// `durability.log`
    DurabilityLog,
    /// `store.address`
    StoreAddress,
    /// `runs.max_running`
    RunsMaxRunning,
    /// `runs.queue_wait`
    RunsQueueWait,
    /// `runs.lease`
    RunsLease,
    /// `runs.restart_cap`
    RunsRestartCap,
    /// `chats.idle`
    ChatsIdle,
    /// `user.email`
    UserEmail,
}

/// The type and range of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number of bytes, or text like `64 MiB`.
    Size {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
    /// A number.
    Number {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
        /// The unit.
        unit: &'static str,
    },
    /// The name of a durability.
    Durability,
    /// A duration, as text like `30m`.
    Time {
        /// The minimum.
        min: Duration,
        /// The maximum.
        max: Duration,
    },
    /// The address of the state. It may contain a password, so messages never repeat it.
    Address,
    /// A name.
    Name,
}

impl Key {
    /// Every key, in the order in which they are shown.
    pub const ALL: &'static [Self] = &[
        Self::LineBytesMax,
        Self::BatchBytesMax,
        Self::BusyTimeoutMs,
        Self::OpenLogsMax,
        Self::FoldBatchBytes,
        Self::FoldBeforeReadBytes,
        Self::DurabilityLog,
        Self::StoreAddress,
        Self::RunsMaxRunning,
        Self::RunsQueueWait,
        Self::RunsLease,
        Self::RunsRestartCap,
        Self::ChatsIdle,
        Self::UserEmail,
    ];

    /// Returns the table of the key.
    pub const fn table(self) -> &'static str {
        match self {
            Self::DurabilityLog => "durability",
            Self::UserEmail => "user",
            Self::StoreAddress => "store",
            Self::RunsMaxRunning | Self::RunsQueueWait | Self::RunsLease | Self::RunsRestartCap => "runs",
            Self::ChatsIdle => "chats",
            _ => "limits",
        }
    }

    /// Returns the name of the key in its table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LineBytesMax => "line_bytes_max",
            Self::BatchBytesMax => "batch_bytes_max",
            Self::BusyTimeoutMs => "busy_timeout_ms",
            Self::OpenLogsMax => "open_logs_max",
            Self::FoldBatchBytes => "fold_batch_bytes",
            Self::FoldBeforeReadBytes => "fold_before_read_bytes",
            Self::DurabilityLog => "log",
            Self::StoreAddress => "address",
            Self::RunsMaxRunning => "max_running",
            Self::RunsQueueWait => "queue_wait",
            Self::RunsLease => "lease",
            Self::RunsRestartCap => "restart_cap",
            Self::ChatsIdle => "idle",
            Self::UserEmail => "email",
        }
    }

    /// Returns the environment variable that overrides the file.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::LineBytesMax => "DUOLOG_LINE_BYTES_MAX",
            Self::BatchBytesMax => "DUOLOG_BATCH_BYTES_MAX",
            Self::BusyTimeoutMs => "DUOLOG_BUSY_TIMEOUT_MS",
            Self::OpenLogsMax => "DUOLOG_OPEN_LOGS_MAX",
            Self::FoldBatchBytes => "DUOLOG_FOLD_BATCH_BYTES",
            Self::FoldBeforeReadBytes => "DUOLOG_FOLD_BEFORE_READ_BYTES",
            Self::DurabilityLog => "DUOLOG_DURABILITY",
            Self::StoreAddress => "DUOLOG_STORE",
            Self::RunsMaxRunning => "DUOLOG_RUNS_MAX_RUNNING",
            Self::RunsQueueWait => "DUOLOG_RUNS_QUEUE_WAIT",
            Self::RunsLease => "DUOLOG_RUNS_LEASE",
            Self::RunsRestartCap => "DUOLOG_RUNS_RESTART_CAP",
            Self::ChatsIdle => "DUOLOG_CHATS_IDLE",
            Self::UserEmail => "DUOLOG_USER_EMAIL",
        }
    }

    /// Returns the type and range of its value.
    pub const fn shape(self) -> Shape {
        match self {
            Self::LineBytesMax => Shape::Size { min: KIB, max: LINE_BYTES_READ_MAX as u64 },
            Self::BatchBytesMax => Shape::Size { min: KIB, max: 4 * GIB },
            Self::BusyTimeoutMs => Shape::Number { min: 0, max: 3_600_000, unit: "milliseconds" },
            // More logs than one writer holds at once, so that none of them is closed in use.
            Self::OpenLogsMax => Shape::Number { min: 8, max: 65_536, unit: "logs" },
            Self::FoldBatchBytes => Shape::Size { min: 64 * KIB, max: GIB },
            Self::FoldBeforeReadBytes => Shape::Size { min: 0, max: 1024 * GIB },
            Self::DurabilityLog => Shape::Durability,
            Self::StoreAddress => Shape::Address,
            Self::RunsMaxRunning => Shape::Number { min: 1, max: 100_000, unit: "runs" },
            // An owner renews after a third of the lease, and clocks may differ a little.
            Self::RunsLease => Shape::Time { min: Duration::from_secs(3), max: Duration::from_hours(24) },
            Self::RunsRestartCap => Shape::Number { min: 0, max: 1_000, unit: "takeovers" },
            Self::RunsQueueWait | Self::ChatsIdle => {
                Shape::Time { min: Duration::from_secs(1), max: Duration::from_hours(365 * 24) }
            }
            Self::UserEmail => Shape::Name,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.table(), self.name())
    }
}

impl fmt::Display for Shape {
    /// Formats the expectation, for a sentence that begins with "expected".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { min, max } => {
                let like = Value::Size((64 * MIB).clamp(*min, *max));
                write!(f, "a size from {} to {}, like \"{like}\"", Value::Size(*min), Value::Size(*max))
            }
            Self::Number { min, max, unit } => write!(f, "a number of {unit} from {min} to {max}"),
            Self::Durability => f.write_str("\"process\" or \"power\""),
            Self::Time { min, max } => {
                write!(f, "a time from \"{}\" to \"{}\", like \"30m\"", Value::Time(*min), Value::Time(*max))
            }
            Self::Address => write!(f, "{ADDRESS_FORMS}"),
            Self::Name => write!(f, "a name of 1 to {NAME_BYTES_MAX} bytes, like \"ada@example.com\""),
        }
    }
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number of bytes.
    Size(u64),
    /// Another number.
    Number(u64),
    /// A durability.
    Durability(Durability),
    /// A duration.
    Time(Duration),
    /// The address of the state.
    Address(StoreAddress),
    /// A name.
    Name(String),
}

impl Value {
    /// Returns the number; `None` if the value is not a number.
    pub const fn number(&self) -> Option<u64> {
        match self {
            Self::Size(number) | Self::Number(number) => Some(*number),
            Self::Durability(_) | Self::Time(_) | Self::Address(_) | Self::Name(_) => None,
        }
    }
}

impl fmt::Display for Value {
    /// Formats the value as in the file: a size in the largest exact unit, an address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => {
                let fits = |(_, size): &&(&str, u64)| *bytes >= *size && bytes.is_multiple_of(*size);
                match [("GiB", GIB), ("MiB", MIB), ("KiB", KIB)].iter().find(fits) {
                    Some((unit, size)) => write!(f, "{} {unit}", bytes / size),
                    None => write!(f, "{bytes} B"),
                }
            }
            Self::Number(number) => write!(f, "{number}"),
            Self::Durability(durability) => f.write_str(durability.as_str()),
            Self::Time(time) => {
                let seconds = time.as_secs();
                let fits = |(_, size): &&(&str, u64)| seconds >= *size && seconds.is_multiple_of(*size);
                match [("d", 86_400), ("h", 3_600), ("m", 60)].iter().find(fits) {
                    Some((unit, size)) => write!(f, "{}{unit}", seconds / size),
                    None => write!(f, "{seconds}s"),
                }
            }
            Self::Address(StoreAddress::Home) => f.write_str("sqlite:"),
            Self::Address(StoreAddress::At(address)) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The source of a value, in ascending order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The default.
    Default,
    /// The file.
    File {
        /// The line, counted from 1.
        line: usize,
    },
    /// The key's environment variable.
    Environment,
    /// The caller.
    Flag,
}

impl Source {
    /// Returns the name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// A key, its value and the source of the value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The key.
    pub key: Key,
    /// The value in force.
    pub value: Value,
    /// The source of the value.
    pub source: Source,
}

/// An error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line of the file, counted from 1; `None` for the environment and the caller.
    pub line: Option<usize>,
    /// The key or variable, if the finding is about one.
    pub key: Option<String>,
    /// The error.
    pub message: String,
    /// The correction.
    pub hint: Option<String>,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The content is not valid. Lists every finding.
    #[error("{}", format_findings(.path.as_ref(), .findings))]
    Findings {
        /// The file; `None` for the environment and the caller.
        path: Option<PathBuf>,
        /// The findings, in the order of the file. Never empty.
        findings: Vec<Finding>,
    },
    /// The path is not a file.
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    /// The file is too large.
    #[error("{} is over the limit of a configuration file, {}", .0.display(), Value::Size(FILE_BYTES_MAX))]
    TooLarge(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {}", .path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl ConfigError {
    /// Returns the findings; empty if the content is not the cause.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Findings { findings, .. } => findings,
            _ => &[],
        }
    }

    /// Adds the path of the file.
    #[must_use]
    pub(super) fn of(self, file: PathBuf) -> Self {
        match self {
            Self::Findings { findings, .. } => Self::Findings { path: Some(file), findings },
            other => other,
        }
    }
}

impl Finding {
    /// Returns the finding on one line, without the file's name.
    pub fn sentence(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}{hint}", self.message)
    }
}

/// Formats the findings like a compiler, one per line: `path:line: message`.
fn format_findings(path: Option<&PathBuf>, findings: &[Finding]) -> String {
    let line_of = |finding: &Finding| {
        let file = path.map(|path| path.display().to_string());
        let line = finding.line.map(|line| if file.is_some() { line.to_string() } else { format!("line {line}") });
        let place: Vec<String> = file.into_iter().chain(line).collect();
        let place = if place.is_empty() { String::new() } else { place.join(":") + ": " };
        place + &finding.sentence()
    };
    findings.iter().map(line_of).collect::<Vec<_>>().join("\n")
}
