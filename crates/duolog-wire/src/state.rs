//! The state store and its maintenance.

use std::collections::BTreeMap;

use duolog::{Rebuilt as RebuiltState, SessionId, SessionStatus, Timestamp, WalCheckpoint, state};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Completeness;

/// A failure on a session's log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionFailure {
    /// The session.
    pub session_id: String,
    /// Reason.
    pub reason: String,
}

impl From<&(SessionId, String)> for SessionFailure {
    fn from((session, reason): &(SessionId, String)) -> Self {
        Self { session_id: session.to_string(), reason: reason.clone() }
    }
}

/// Counts and sizes of a store.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Stats {
    /// The database.
    pub database: Database,
    /// Rows by table.
    pub tables: BTreeMap<String, u64>,
    /// Rows by table and status; `unset` for sessions without one.
    pub statuses: BTreeMap<String, BTreeMap<String, u64>>,
    /// The logs.
    pub logs: Logs,
    /// Completeness of `logs.events`.
    #[serde(flatten)]
    pub completeness: Completeness,
    /// The settings of the database.
    pub pragmas: BTreeMap<String, String>,
}

/// A database.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Database {
    /// Engine and version.
    pub engine: String,
    /// The file, or the address of the server without its password.
    pub path: String,
    /// Size of the file, or of Duolog's tables on the server.
    pub bytes: u64,
    /// Size of the write-ahead log; null on a server.
    pub wal_bytes: Option<u64>,
    /// Settings of the server that are off and put data at risk.
    pub unsafe_settings: BTreeMap<String, String>,
}

/// Totals of all logs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Logs {
    /// Files.
    pub files: u64,
    /// Total size.
    pub bytes: u64,
    /// Folded events.
    pub events: u64,
}

impl From<&state::Stats> for Stats {
    fn from(stats: &state::Stats) -> Self {
        let database = &stats.state.engine_stats;
        let sessions = stats.state.statuses.iter();
        let sessions = sessions.map(|(status, rows)| (status.map_or("unset", SessionStatus::as_str).to_owned(), *rows));
        let runs = stats.state.run_statuses.iter().map(|(status, rows)| (status.as_str().to_owned(), *rows));
        Self {
            database: Database {
                engine: database.engine.clone(),
                path: stats.state.place.clone(),
                bytes: database.bytes,
                wal_bytes: database.wal_bytes,
                unsafe_settings: database.unsafe_settings.iter().cloned().collect(),
            },
            tables: stats.state.rows.iter().cloned().collect(),
            statuses: BTreeMap::from([
                ("sessions".to_owned(), sessions.collect()),
                ("workflow_runs".to_owned(), runs.collect()),
            ]),
            logs: Logs { files: stats.logs.files, bytes: stats.logs.bytes, events: stats.logs.events },
            completeness: (&stats.behind).into(),
            pragmas: database.settings.iter().cloned().collect(),
        }
    }
}

/// Derived rows rebuilt from the logs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Rebuilt {
    /// Sessions.
    pub session_count: u64,
    /// Events in the logs.
    pub events: u64,
    /// Size of the logs.
    pub bytes: u64,
    /// Sessions that could not be rebuilt.
    pub failures: Vec<SessionFailure>,
}

impl From<&RebuiltState> for Rebuilt {
    fn from(rebuilt: &RebuiltState) -> Self {
        Self {
            session_count: rebuilt.sessions,
            events: rebuilt.events,
            bytes: rebuilt.bytes,
            failures: rebuilt.failed.iter().map(SessionFailure::from).collect(),
        }
    }
}

/// The version of a schema.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Migrated {
    /// Version of the schema.
    pub schema_version: u32,
    /// Newest version that this program supports.
    pub newest_schema_version: u32,
}

impl From<&state::Migrated> for Migrated {
    fn from(migrated: &state::Migrated) -> Self {
        Self { schema_version: migrated.version, newest_schema_version: migrated.known }
    }
}

/// The result of a checkpoint of the database.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Checkpointed {
    /// True if a reader or writer blocked the checkpoint.
    pub busy: bool,
    /// Frames in the write-ahead log; null on a server.
    pub wal_frames: Option<u64>,
    /// Frames moved into the database; null on a server.
    pub moved_frames: Option<u64>,
    /// `server` if there was nothing to do: the server makes its own checkpoints.
    #[schemars(extend("enum" = ["duolog", "server"]))]
    pub performed_by: &'static str,
}

impl From<&WalCheckpoint> for Checkpointed {
    fn from(done: &WalCheckpoint) -> Self {
        match done {
            WalCheckpoint::Done(report) => Self {
                busy: report.busy,
                wal_frames: Some(report.wal_frames),
                moved_frames: Some(report.moved),
                performed_by: "duolog",
            },
            WalCheckpoint::ManagedByServer => {
                Self { busy: false, wal_frames: None, moved_frames: None, performed_by: "server" }
            }
        }
    }
}

/// A vacuumed database.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Vacuumed {
    /// Size before.
    pub bytes_before: u64,
    /// Size after.
    pub bytes_after: u64,
    /// The tables.
    pub table_names: Vec<String>,
    /// `server` if the server vacuumed its tables; `duolog` if the file was rewritten.
    #[schemars(extend("enum" = ["duolog", "server"]))]
    pub performed_by: &'static str,
}

impl From<&state::Vacuumed> for Vacuumed {
    fn from(done: &state::Vacuumed) -> Self {
        Self {
            bytes_before: done.bytes_before,
            bytes_after: done.bytes_after,
            table_names: done.tables.clone(),
            performed_by: if done.on_server { "server" } else { "duolog" },
        }
    }
}

/// A backup of a home.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Backup {
    /// Directory of the backup.
    pub path: String,
    /// Logs.
    pub log_count: u64,
    /// Size of the logs.
    pub bytes: u64,
    /// Blobs.
    pub blob_count: u64,
    /// Logs that could not be copied.
    pub failures: Vec<SessionFailure>,
    /// Blobs that are damaged or missing.
    pub blob_failures: Vec<BlobFailure>,
}

/// A blob that could not be copied.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BlobFailure {
    /// SHA-256 of the blob.
    pub blob_id: String,
    /// Reason.
    pub reason: String,
}

impl From<&state::Backup> for Backup {
    fn from(copied: &state::Backup) -> Self {
        let blob = |(id, reason): &(String, String)| BlobFailure { blob_id: id.clone(), reason: reason.clone() };
        Self {
            path: copied.path.to_string_lossy().into_owned(),
            log_count: copied.logs,
            bytes: copied.bytes,
            blob_count: copied.blobs,
            failures: copied.failed.iter().map(SessionFailure::from).collect(),
            blob_failures: copied.blobs_failed.iter().map(blob).collect(),
        }
    }
}

/// The blobs of a home and the pruned ones.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Blobs {
    /// All blobs.
    pub blob_count: u64,
    /// Total size.
    pub bytes: u64,
    /// Unreferenced blobs.
    pub unreferenced_count: u64,
    /// Size of the unreferenced blobs.
    pub unreferenced_bytes: u64,
    /// False if there are too many blobs to count at once.
    pub complete: bool,
    /// The largest blobs.
    pub blobs: Vec<Blob>,
    /// The pruned blobs; null without `--prune`.
    pub pruned: Option<BlobsPruned>,
}

/// A blob.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Blob {
    /// SHA-256.
    pub id: String,
    /// Size.
    pub bytes: u64,
    /// Number of lines and rows that refer to it.
    pub reference_count: u64,
    /// Time when the blob was stored.
    pub stored_at: Option<String>,
    /// True if pruning would remove it.
    pub prunable: bool,
}

impl Blob {
    /// A blob, and whether it can be pruned now.
    pub fn of(blob: &state::BlobCount, now: Timestamp) -> Self {
        Self {
            id: blob.id.to_string(),
            bytes: blob.bytes,
            reference_count: blob.named,
            stored_at: blob.put_at.map(|at| at.to_string()),
            prunable: blob.is_prunable(now),
        }
    }
}

/// Pruned blobs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BlobsPruned {
    /// The blobs.
    pub blob_ids: Vec<String>,
    /// Total size.
    pub bytes: u64,
    /// Temporary files of unfinished writes.
    pub leftover_files: u64,
}

impl From<&state::PrunedBlobs> for BlobsPruned {
    fn from(pruned: &state::PrunedBlobs) -> Self {
        Self {
            blob_ids: pruned.removed.iter().map(ToString::to_string).collect(),
            bytes: pruned.bytes,
            leftover_files: pruned.leftovers,
        }
    }
}
