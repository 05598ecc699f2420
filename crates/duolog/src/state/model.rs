//! What callers get.

use std::path::PathBuf;

use duolog_join::CaughtUp;
use duolog_state::StateStats;
use duolog_types::SessionId;

/// Figures of a store.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The database: engine, size, rows, settings.
    pub state: StateStats,
    /// The logs.
    pub logs: LogFigures,
    /// How far derived rows are behind the logs.
    pub behind: CaughtUp,
}

/// Figures of all logs together, as far as folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFigures {
    /// How many logs have a line.
    pub files: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How many events.
    pub events: u64,
}

/// The version of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version of this store.
    pub version: u32,
    /// The newest version this program knows.
    pub known: u32,
}

/// A copy of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Where it is.
    pub path: PathBuf,
    /// How many logs were copied.
    pub logs: u64,
    /// How many bytes of them.
    pub bytes: u64,
    /// How many blobs were copied.
    pub blobs: u64,
    /// Blobs that the copy lacks, because they are damaged or missing, and why.
    pub blobs_failed: Vec<(String, String)>,
    /// Logs that could not be copied, and why. The others were.
    pub failed: Vec<(SessionId, String)>,
}

/// What giving back space did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacuumed {
    /// The size of the database before, with its write-ahead log where that is ours.
    pub bytes_before: u64,
    /// The size after.
    pub bytes_after: u64,
    /// The tables that were looked after.
    pub tables: Vec<String>,
    /// Whether a server did it, beside everything else; else the file was rewritten.
    pub on_server: bool,
}

/// What it means that a server has one of the settings on which a commit relies switched off.
pub fn risk_of(setting: &str) -> &'static str {
    match setting {
        "fsync" => "a crash of its machine can take acknowledged writes, and damage the database",
        "full_page_writes" => "a crash of its machine can damage the database",
        // Each of our connections turns it on.
        "synchronous_commit" => "duolog turns it on for itself, but what others write there may go in a crash",
        _ => "a crash of its machine can take acknowledged writes",
    }
}
