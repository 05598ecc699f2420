//! Maintenance of the state: checkpoints, copies, checks, statistics. Each engine has its own implementation.

use std::path::Path;
use std::sync::atomic::Ordering;

use duolog_types::{RunStatus, SessionStatus};

use crate::error::{Error, Result};
use crate::owned::{sessions, workflow_runs};
use crate::state::{Engine, State};

/// Every table, owned tables first. `schema_meta` is left out: it describes the schema.
pub(crate) const TABLES: &[&str] = &[
    "sessions",
    "branches",
    "messages",
    "message_types",
    "message_embeddings",
    "progressions",
    "pool_segments",
    "progression_items",
    "compactions",
    "status_transitions",
    "session_owners",
    "inboxes",
    "inbox_cursors",
    "workflow_runs",
    "workflow_queue",
    "workflow_run_bodies",
    "workflow_run_scratch",
    "workflow_run_phases",
    "workflow_run_nodes",
    "executions",
    "execution_bodies",
    "execution_rollups",
    "workflow_approvals",
    "workflow_overrides",
    "cron_overrides",
    "cron_ticks",
    "cron_runs",
    "messaging_sessions",
    "messaging_messages",
    "messaging_deliveries",
    "outbox_lines",
    "behind",
    "repairs",
    "seals",
    "idempotency",
    "log_paths",
    "log_epochs",
    "catalog",
    "digests",
    "usage_by_quarter",
    "responses",
];

/// The result of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalCheckpoint {
    /// Pages were moved from the write-ahead log into the database.
    Done(CheckpointReport),
    /// The server runs its own checkpoints; nothing was done.
    ManagedByServer,
}

/// The counts of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointReport {
    /// A reader or writer prevented a full checkpoint.
    pub busy: bool,
    /// The number of pages in the write-ahead log.
    pub wal_frames: u64,
    /// The number of pages that are in the database now.
    pub moved: u64,
}

/// Counts since the state was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Requests that ran.
    pub transactions: u64,
    /// Commits. One commit may serve a group of requests.
    pub commits: u64,
    /// Commits with a sync.
    pub power_commits: u64,
    /// Requests that were retried after a conflict or a lost connection.
    pub again: u64,
    /// Checkpoints, automatic and requested.
    pub checkpoints: u64,
    /// Checkpoints that failed. Nothing is lost: the pages stay in the write-ahead log.
    pub checkpoint_failures: u64,
}

/// Statistics of the database.
#[derive(Clone, Debug, PartialEq)]
pub struct StateStats {
    /// The address, without its password.
    pub place: String,
    /// Statistics of the engine.
    pub engine_stats: EngineStats,
    /// The number of rows per table.
    pub rows: Vec<(String, u64)>,
    /// The number of sessions per status; `None` for sessions without a status.
    pub statuses: Vec<(Option<SessionStatus>, u64)>,
    /// The number of runs per status.
    pub run_statuses: Vec<(RunStatus, u64)>,
}

/// Statistics of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineStats {
    /// The engine and its version.
    pub engine: String,
    /// The size of the database in bytes.
    pub bytes: u64,
    /// The size of the write-ahead log in bytes. `None` on a server.
    pub wal_bytes: Option<u64>,
    /// The current settings.
    pub settings: Vec<(String, String)>,
    /// The server's settings that can lose acknowledged writes in a power failure, with their values.
    pub unsafe_settings: Vec<(String, String)>,
}

impl State {
    /// Moves the pages of the write-ahead log into the database. Does nothing on a server.
    pub fn checkpoint(&self) -> Result<WalCheckpoint> {
        self.writable()?;
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.checkpoint().map(WalCheckpoint::Done),
            Engine::Postgres(_) => Ok(WalCheckpoint::ManagedByServer),
        }
    }

    /// Copies a snapshot of the database into a new file that only its owner can read.
    ///
    /// The copy is checked and synced before this returns; a failed copy is deleted. Writers are not blocked.
    pub fn backup_to(&self, dest: &Path) -> Result<()> {
        self.check()?;
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.backup_to(dest),
            Engine::Postgres(_) => Err(Error::NotHere {
                what: "copy the state into a file",
                instead: "pg_dump copies a PostgreSQL database while it is in use",
            }),
        }
    }

    /// Returns the space of deleted rows.
    ///
    /// SQLite rewrites the database file, which needs the same space again and blocks writers. On a server, Duolog's
    /// tables are vacuumed and analysed, and nothing is blocked.
    pub fn vacuum(&self) -> Result<()> {
        self.writable()?;
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.vacuum(),
            Engine::Postgres(postgres) => postgres.vacuum(),
        }
    }

    /// Runs the engine's integrity checks. Returns the problems; empty if there are none.
    pub fn integrity(&self) -> Result<Vec<String>> {
        self.check()?;
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.integrity(),
            Engine::Postgres(postgres) => postgres.integrity(),
        }
    }

    /// Returns statistics of the database.
    pub fn stats(&self) -> Result<StateStats> {
        let (rows, statuses, run_statuses) = self.read(|tx| {
            let mut rows = Vec::new();
            for table in TABLES {
                let count = tx.find(&format!("SELECT COUNT(*) FROM {table}"), &[], |row| row.get(0))?;
                rows.push(((*table).to_owned(), count.unwrap_or_default()));
            }
            Ok::<_, Error>((rows, sessions::count_by_status(tx)?, workflow_runs::count_by_status(tx)?))
        })?;
        Ok(StateStats { place: self.place(), engine_stats: self.engine_stats()?, rows, statuses, run_statuses })
    }

    /// Returns statistics of the engine. The cost does not depend on the number of rows.
    pub fn engine_stats(&self) -> Result<EngineStats> {
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.engine_stats(),
            Engine::Postgres(postgres) => postgres.engine_stats(),
        }
    }

    /// Returns the counts since the state was opened, of all clones of this handle.
    pub fn counters(&self) -> Counters {
        let tally = self.tally();
        Counters {
            transactions: tally.transactions.load(Ordering::Relaxed),
            commits: tally.commits.load(Ordering::Relaxed),
            power_commits: tally.power_commits.load(Ordering::Relaxed),
            again: tally.again.load(Ordering::Relaxed),
            checkpoints: tally.checkpoints.load(Ordering::Relaxed),
            checkpoint_failures: tally.checkpoint_failures.load(Ordering::Relaxed),
        }
    }
}
