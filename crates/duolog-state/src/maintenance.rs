//! Care of the state: checkpoints, copies, checks, figures. What each means is the engine's.

use std::path::Path;
use std::sync::atomic::Ordering;

use duolog_types::{RunStatus, SessionStatus};

use crate::error::{Error, Result};
use crate::owned::{sessions, workflow_runs};
use crate::state::{Engine, State};

/// Every table, owned ones first. What the schema says of itself, `schema_meta`, is no row of anybody's.
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

/// What asking for a checkpoint came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalCheckpoint {
    /// Pages were moved from the write-ahead log into the database.
    Done(CheckpointReport),
    /// The server moves its own, by its own schedule; nothing was done.
    Servers,
}

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointReport {
    /// A reader or writer kept it from finishing.
    pub busy: bool,
    /// The pages that were in the write-ahead log.
    pub wal_frames: u64,
    /// How many of them are in the database now.
    pub moved: u64,
}

/// What happened since the state was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were run.
    pub transactions: u64,
    /// Commits; one may serve a whole group.
    pub commits: u64,
    /// Commits that were synced.
    pub power_commits: u64,
    /// Requests that were run again, because another transaction was in the way or the connection was lost.
    pub again: u64,
    /// Checkpoints that ran because the log had grown, or because they were asked for.
    pub checkpoints: u64,
    /// Checkpoints that failed. Nothing is lost by one: the pages stay in the log.
    pub checkpoint_failures: u64,
}

/// Figures about the database.
#[derive(Clone, Debug, PartialEq)]
pub struct StateStats {
    /// Where it is, without a password.
    pub place: String,
    /// What the engine says of itself.
    pub figures: Figures,
    /// How many rows each table has.
    pub rows: Vec<(String, u64)>,
    /// How many sessions stand how; those of which nobody has said come with `None`.
    pub statuses: Vec<(Option<SessionStatus>, u64)>,
    /// How many runs stand how.
    pub run_statuses: Vec<(RunStatus, u64)>,
}

/// What an engine says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The engine and its version.
    pub engine: String,
    /// The size of the database.
    pub bytes: u64,
    /// The size of its write-ahead log, where that is ours.
    pub wal_bytes: Option<u64>,
    /// The settings in force.
    pub settings: Vec<(String, String)>,
    /// Settings of the server that cost acknowledged writes when it loses power, and what they are set to.
    pub unsafe_settings: Vec<(String, String)>,
}

impl State {
    /// Moves everything from the write-ahead log into the database, where the log is ours.
    pub fn checkpoint(&self) -> Result<WalCheckpoint> {
        self.writable()?;
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.checkpoint().map(WalCheckpoint::Done),
            Engine::Postgres(_) => Ok(WalCheckpoint::Servers),
        }
    }

    /// Copies the database, as one snapshot, into a new file that only its owner can read.
    ///
    /// The copy is one file, checked and synced before this returns; a failed one is removed. Writers are not held up.
    pub fn backup_to(&self, dest: &Path) -> Result<()> {
        self.check()?;
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.backup_to(dest),
            Engine::Postgres(_) => Err(Error::NotHere {
                what: "copying the state into a file",
                instead: "pg_dump copies a PostgreSQL database while it is in use",
            }),
        }
    }

    /// Gives back the space of what was deleted.
    ///
    /// In a file the database is rewritten, which needs as much space again and holds writers up; on a server our
    /// tables are vacuumed and analysed, beside everything else.
    pub fn vacuum(&self) -> Result<()> {
        self.writable()?;
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.vacuum(),
            Engine::Postgres(postgres) => postgres.vacuum(),
        }
    }

    /// Checks what the engine lets us check. What it returns is what is wrong; empty means nothing.
    pub fn integrity(&self) -> Result<Vec<String>> {
        self.check()?;
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.integrity(),
            Engine::Postgres(postgres) => postgres.integrity(),
        }
    }

    /// Figures about the database.
    pub fn stats(&self) -> Result<StateStats> {
        let (rows, statuses, run_statuses) = self.read(|tx| {
            let mut rows = Vec::new();
            for table in TABLES {
                let count = tx.find(&format!("SELECT COUNT(*) FROM {table}"), &[], |row| row.get(0))?;
                rows.push(((*table).to_owned(), count.unwrap_or_default()));
            }
            Ok::<_, Error>((rows, sessions::count_by_status(tx)?, workflow_runs::count_by_status(tx)?))
        })?;
        Ok(StateStats { place: self.place(), figures: self.figures()?, rows, statuses, run_statuses })
    }

    /// What the engine says of itself. Costs the same for any number of rows.
    pub fn figures(&self) -> Result<Figures> {
        match self.engine() {
            Engine::Sqlite(sqlite) => sqlite.figures(),
            Engine::Postgres(postgres) => postgres.figures(),
        }
    }

    /// What happened since the state was opened, by all clones of this handle.
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
