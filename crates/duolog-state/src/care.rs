//! Care of the database: checkpoints, copies, checks, figures.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use duolog_types::SessionStatus;
use rusqlite::ErrorCode;
use rusqlite::wal::CheckpointMode;

use crate::engine::{CHECKPOINT_PAGES, copy_database, error, faults};
use crate::error::{Error, Result};
use crate::owned::sessions;
use crate::state::{Access, State, pragma};

/// Every table, owned ones first.
const TABLES: &[&str] = &["sessions", "outbox", "behind", "repairs", "seals", "operations", "catalog"];

/// The settings that [`State::stats`] shows.
const SETTINGS: &[&str] = &[
    "journal_mode",
    "synchronous",
    "foreign_keys",
    "busy_timeout",
    "wal_autocheckpoint",
    "journal_size_limit",
    "mmap_size",
    "trusted_schema",
    "page_size",
    "user_version",
];

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
    /// Commits; one serves a whole group.
    pub commits: u64,
    /// Commits that synced the write-ahead log.
    pub power_commits: u64,
    /// Checkpoints that ran because the log had grown, or because they were asked for.
    pub checkpoints: u64,
    /// Checkpoints that failed. Nothing is lost by one: the pages stay in the log.
    pub checkpoint_failures: u64,
}

/// Figures about the database.
#[derive(Clone, Debug, PartialEq)]
pub struct StateStats {
    /// The engine and its version.
    pub engine: String,
    /// The database file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The size of its write-ahead log.
    pub wal_bytes: u64,
    /// How many rows each table has.
    pub rows: Vec<(String, u64)>,
    /// The settings as the writing connection answers them, or a reading one where there is none.
    ///
    /// `wal_autocheckpoint` is ours: SQLite's own is replaced by the checkpoint that a leader runs after its group.
    pub settings: Vec<(String, String)>,
    /// How many sessions stand how; those of which nobody has said come with `None`.
    pub statuses: Vec<(Option<SessionStatus>, u64)>,
}

impl State {
    /// Moves everything from the write-ahead log into the database and empties the log.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        let alone = self.writer()?.alone(self.deadline())?;
        let run = |mode| alone.connection().wal_checkpoint_v2(Some("main"), mode);
        // The emptying one answers zeros when it succeeds: what there was is asked before.
        let (frames, mut moved) = match run(CheckpointMode::PASSIVE) {
            Err(fault) if fault.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => (0, 0),
            answer => answer.map_err(error)?,
        };
        let busy = match run(CheckpointMode::TRUNCATE) {
            Err(fault) if fault.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => true,
            answer => {
                let (left, _) = answer.map_err(error)?;
                if left == 0 {
                    moved = frames;
                }
                left != 0
            }
        };
        self.0.tally.checkpoints.fetch_add(1, Ordering::Relaxed);
        let number = |pages| u64::try_from(pages).unwrap_or_default();
        Ok(CheckpointReport { busy, wal_frames: number(frames), moved: number(moved) })
    }

    /// Copies the database, as one snapshot, into a new file that only its owner can read.
    ///
    /// The copy is one file, checked and synced before this returns; a failed one is removed. Writers are not held up.
    pub fn backup_to(&self, dest: &Path) -> Result<()> {
        self.check()?;
        let reader = self.0.pool.take(self.deadline())?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(dest).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Exists { path: dest.to_owned() },
            _ => Error::io("create", dest, error),
        })?;
        let copied = dest.canonicalize().map_err(|error| Error::io("find", dest, error)).and_then(|whole| {
            copy_database(reader.connection()?, &whole, self.0.place.busy_timeout)?;
            // SQLite has closed the copy; opening it takes no lock away.
            File::open(&whole).and_then(|copy| copy.sync_all()).map_err(|error| Error::io("sync", dest, error))?;
            let dir = whole.parent().unwrap_or(Path::new("/"));
            File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| Error::io("sync", dir, error))
        });
        if copied.is_err() {
            // The error of the copy is the one to tell.
            let _ = std::fs::remove_file(dest);
        }
        copied
    }

    /// Rewrites the database without its free pages. Needs as much space again, and holds writers up.
    pub fn vacuum(&self) -> Result<()> {
        let alone = self.writer()?.alone(self.deadline())?;
        alone.connection().execute_batch("VACUUM").map_err(error)?;
        drop(alone);
        self.checkpoint().map(drop)
    }

    /// Checks every page, index and reference. What it returns is what is wrong; empty means nothing.
    pub fn integrity(&self) -> Result<Vec<String>> {
        self.check()?;
        let reader = self.0.pool.take(self.deadline())?;
        faults(reader.connection()?)
    }

    /// Figures about the database. Its files are measured by their paths and never opened.
    pub fn stats(&self) -> Result<StateStats> {
        let (rows, statuses) = self.read(|tx| {
            let mut rows = Vec::new();
            for table in TABLES {
                let count = tx.find(&format!("SELECT COUNT(*) FROM {table}"), &[], |row| row.get(0))?;
                rows.push(((*table).to_owned(), count.unwrap_or_default()));
            }
            Ok::<_, Error>((rows, sessions::count_by_status(tx)?))
        })?;
        let settings = |connection: &rusqlite::Connection| {
            let show = |name: &&str| {
                // Two that we take care of ourselves: what SQLite would answer is only what was last set.
                let value = match *name {
                    "wal_autocheckpoint" if self.access() == Access::ReadWrite => CHECKPOINT_PAGES.to_string(),
                    "synchronous" if self.access() == Access::ReadWrite => {
                        "FULL for power, NORMAL for process".to_owned()
                    }
                    _ => pragma(connection, name)?,
                };
                Ok(((*name).to_owned(), value))
            };
            SETTINGS.iter().map(show).collect::<Result<Vec<_>>>()
        };
        let settings = match &self.0.writer {
            Some(writer) => writer.ask(self.deadline(), settings)?,
            None => settings(self.0.pool.take(self.deadline())?.connection()?)?,
        };
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        Ok(StateStats {
            engine: format!("sqlite {}", rusqlite::version()),
            path: self.path().to_owned(),
            bytes: size(self.path()),
            wal_bytes: size(&self.0.place.beside("-wal")),
            rows,
            settings,
            statuses,
        })
    }

    /// What happened since the state was opened, by all clones of this handle.
    pub fn counters(&self) -> Counters {
        let tally = &self.0.tally;
        Counters {
            transactions: tally.transactions.load(Ordering::Relaxed),
            commits: tally.commits.load(Ordering::Relaxed),
            power_commits: tally.power_commits.load(Ordering::Relaxed),
            checkpoints: tally.checkpoints.load(Ordering::Relaxed),
            checkpoint_failures: tally.checkpoint_failures.load(Ordering::Relaxed),
        }
    }
}
