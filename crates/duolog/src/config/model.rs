//! The keys there are, what each may be, and what a configuration says of it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use duolog_state::StoreAddress;
use duolog_types::Durability;
use duolog_types::limits::{LINE_BYTES_READ_MAX, NAME_BYTES_MAX};

/// The bytes of a configuration file at most: what is larger is not one.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// What an address may be, in words.
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

/// What a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number of bytes, or text like `64 MiB`.
    Size {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A number of something else.
    Number {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
        /// Of what.
        unit: &'static str,
    },
    /// The word for a durability.
    Durability,
    /// A span of time, as text like `30m`.
    Time {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// Where the state is. It may hold a password, so what is written there is never repeated.
    Address,
    /// What someone is called.
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

    /// The table it stands in.
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

    /// What it is called in that table.
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

    /// The environment variable that goes before the file.
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

    /// What it may be.
    pub const fn shape(self) -> Shape {
        match self {
            Self::LineBytesMax => Shape::Size { min: KIB, max: LINE_BYTES_READ_MAX as u64 },
            Self::BatchBytesMax => Shape::Size { min: KIB, max: 4 * GIB },
            Self::BusyTimeoutMs => Shape::Number { min: 0, max: 3_600_000, unit: "milliseconds" },
            // A few more than one writer holds at once, so that none is closed under it.
            Self::OpenLogsMax => Shape::Number { min: 8, max: 65_536, unit: "logs" },
            Self::FoldBatchBytes => Shape::Size { min: 64 * KIB, max: GIB },
            Self::FoldBeforeReadBytes => Shape::Size { min: 0, max: 1024 * GIB },
            Self::DurabilityLog => Shape::Durability,
            Self::StoreAddress => Shape::Address,
            Self::RunsMaxRunning => Shape::Number { min: 1, max: 100_000, unit: "runs" },
            // An owner renews at a third of it, and a clock may be off by a little.
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
    /// What is expected, for a sentence that begins with "expected".
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

/// What a key is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number of bytes.
    Size(u64),
    /// Another number.
    Number(u64),
    /// A durability.
    Durability(Durability),
    /// A span of time.
    Time(Duration),
    /// Where the state is.
    Address(StoreAddress),
    /// What someone is called.
    Name(String),
}

impl Value {
    /// The number, where it is one.
    pub const fn number(&self) -> Option<u64> {
        match self {
            Self::Size(number) | Self::Number(number) => Some(*number),
            Self::Durability(_) | Self::Time(_) | Self::Address(_) | Self::Name(_) => None,
        }
    }
}

impl fmt::Display for Value {
    /// As the file would have it; a size in the largest unit that keeps it exact, an address without its password.
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

/// Where a value came from, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The file, at this line.
    File {
        /// Counted from one.
        line: usize,
    },
    /// The key's environment variable.
    Environment,
    /// The caller, for this one time.
    Flag,
}

impl Source {
    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// A key, what is in force for it, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Which.
    pub key: Key,
    /// What is in force.
    pub value: Value,
    /// Where that came from.
    pub source: Source,
}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line of the file, counted from one; nothing for the environment and the caller.
    pub line: Option<usize>,
    /// The key or variable, where it is about one.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Keys or values that cannot be meant; every one that was found.
    #[error("{}", told(.path.as_ref(), .findings))]
    Findings {
        /// The file, where it came from one.
        path: Option<PathBuf>,
        /// What is wrong, in the order of the file. Never empty.
        findings: Vec<Finding>,
    },
    /// Something else stands where the file should be.
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    /// Nobody writes that much by hand.
    #[error("{} is over the limit of a configuration file, {}", .0.display(), Value::Size(FILE_BYTES_MAX))]
    TooLarge(PathBuf),
    /// The file is there and cannot be read.
    #[error("cannot read {}", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl ConfigError {
    /// What is wrong, where it is the content.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Findings { findings, .. } => findings,
            _ => &[],
        }
    }

    /// The same about a file.
    #[must_use]
    pub(super) fn of(self, file: PathBuf) -> Self {
        match self {
            Self::Findings { findings, .. } => Self::Findings { path: Some(file), findings },
            other => other,
        }
    }
}

impl Finding {
    /// In one line, after the file's name where there is one.
    pub fn sentence(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}{hint}", self.message)
    }
}

/// One line for each finding, as compilers put it: `path:line: what is wrong`.
fn told(path: Option<&PathBuf>, findings: &[Finding]) -> String {
    let line_of = |finding: &Finding| {
        let file = path.map(|path| path.display().to_string());
        let line = finding.line.map(|line| if file.is_some() { line.to_string() } else { format!("line {line}") });
        let place: Vec<String> = file.into_iter().chain(line).collect();
        let place = if place.is_empty() { String::new() } else { place.join(":") + ": " };
        place + &finding.sentence()
    };
    findings.iter().map(line_of).collect::<Vec<_>>().join("\n")
}
