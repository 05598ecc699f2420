//! The types that [`State`](super::State) returns.

use std::path::PathBuf;

use duolog_join::CaughtUp;
use duolog_state::StateStats;
use duolog_types::SessionId;

/// Statistics of a store.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The database: engine, size, rows, settings.
    pub state: StateStats,
    /// The logs.
    pub logs: LogTotals,
    /// The backlog of derived rows.
    pub behind: CaughtUp,
}

/// Totals over all logs, as far as they are folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTotals {
    /// The number of logs with at least one line.
    pub files: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The number of events.
    pub events: u64,
}

/// The version of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version of this store.
    pub version: u32,
    /// The newest version that this program supports.
    pub known: u32,
}

/// A backup of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The directory of the copy.
    pub path: PathBuf,
    /// The number of logs that were copied.
    pub logs: u64,
    /// The bytes of the logs that were copied.
    pub bytes: u64,
    /// The number of blobs that were copied.
    pub blobs: u64,
    /// Blobs that were not copied because they are damaged or missing, with the reason.
    pub blobs_failed: Vec<(String, String)>,
    /// Logs that could not be copied, with the reason. All others were copied.
    pub failed: Vec<(SessionId, String)>,
}

/// The result of a vacuum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacuumed {
    /// The size of the database before, including the write-ahead log of a SQLite file.
    pub bytes_before: u64,
    /// The size after.
    pub bytes_after: u64,
    /// The tables that were vacuumed.
    pub tables: Vec<String>,
    /// True if a server vacuumed its tables; false if a SQLite file was rewritten.
    pub on_server: bool,
}

/// Returns the risk of a server setting that is off although commits rely on it.
pub fn risk_of(setting: &str) -> &'static str {
    match setting {
        "fsync" => "a crash of its machine can lose acknowledged writes and damage the database",
        "full_page_writes" => "a crash of its machine can damage the database",
        // Each connection of Duolog turns it on.
        "synchronous_commit" => "duolog sets it for its own connections; a crash can lose other programs' writes",
        _ => "a crash of its machine can lose acknowledged writes",
    }
}
