//! Maintenance of the database file: checkpoints, copies, checks, statistics.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use rusqlite::types::ValueRef;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};

use super::connection::{check_length, copy_database, faults};
use super::writer::CHECKPOINT_PAGES;
use super::{Sqlite, error};
use crate::error::{Error, Result};
use crate::maintenance::{CheckpointReport, EngineStats};
use crate::state::Access;

/// The settings that [`Sqlite::engine_stats`] returns.
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

impl Sqlite {
    /// Moves all pages from the write-ahead log into the database and truncates the log.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointReport> {
        let exclusive = self.writer()?.exclusive(self.deadline())?;
        let run = |mode| exclusive.run(|connection| connection.wal_checkpoint_v2(Some("main"), mode));
        // TRUNCATE returns zeros on success, so the counts come from a PASSIVE checkpoint before it.
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
        self.tally.checkpoints.fetch_add(1, Ordering::Relaxed);
        let number = |pages| u64::try_from(pages).unwrap_or_default();
        Ok(CheckpointReport { busy, wal_frames: number(frames), moved: number(moved) })
    }

    /// Copies a snapshot of the database into a new file that only its owner can read.
    pub(crate) fn backup_to(&self, dest: &Path) -> Result<()> {
        check_length(&std::path::absolute(dest).map_err(|error| Error::io("find", dest, error))?)?;
        let reader = self.pool.take(self.deadline())?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(dest).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Exists { path: dest.to_owned() },
            _ => Error::io("create", dest, error),
        })?;
        let copied = dest.canonicalize().map_err(|error| Error::io("find", dest, error)).and_then(|full| {
            copy_database(reader.connection()?, &full, self.place.busy_timeout)?;
            // SQLite has closed the copy, so closing this descriptor drops no lock.
            File::open(&full).and_then(|copy| copy.sync_all()).map_err(|error| Error::io("sync", dest, error))?;
            let dir = full.parent().unwrap_or(Path::new("/"));
            File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| Error::io("sync", dir, error))
        });
        if copied.is_err() {
            // The error of the copy is the one to return.
            let _ = std::fs::remove_file(dest);
        }
        copied
    }

    /// Rewrites the database without its free pages and checkpoints the result.
    pub(crate) fn vacuum(&self) -> Result<()> {
        let exclusive = self.writer()?.exclusive(self.deadline())?;
        exclusive.run(|connection| connection.execute_batch("VACUUM")).map_err(error)?;
        drop(exclusive);
        self.checkpoint().map(drop)
    }

    /// Returns the problems of pages, indexes and references.
    pub(crate) fn integrity(&self) -> Result<Vec<String>> {
        faults(self.pool.take(self.deadline())?.connection()?)
    }

    /// Returns sizes and settings. The sizes come from the paths; the files are not opened.
    pub(crate) fn engine_stats(&self) -> Result<EngineStats> {
        let settings = |connection: &Connection| {
            let show = |name: &&str| {
                // The writer controls these two; the pragmas would only return the values that were set last.
                let value = match *name {
                    "wal_autocheckpoint" if self.access == Access::ReadWrite => CHECKPOINT_PAGES.to_string(),
                    "synchronous" if self.access == Access::ReadWrite => {
                        "FULL for power, NORMAL for process".to_owned()
                    }
                    _ => pragma(connection, name)?,
                };
                Ok(((*name).to_owned(), value))
            };
            SETTINGS.iter().map(show).collect::<Result<Vec<_>>>()
        };
        let settings = match &self.writer {
            Some(writer) => writer.ask(self.deadline(), settings)?,
            None => settings(self.pool.take(self.deadline())?.connection()?)?,
        };
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        Ok(EngineStats {
            engine: format!("sqlite {}", rusqlite::version()),
            bytes: size(&self.place.path),
            wal_bytes: Some(size(&self.place.beside("-wal"))),
            settings,
            unsafe_settings: Vec::new(),
        })
    }
}

/// Returns the value of a pragma as text.
fn pragma(connection: &Connection, name: &str) -> Result<String> {
    connection
        .query_row(&format!("PRAGMA {name}"), [], |row| {
            Ok(match row.get_ref(0)? {
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => number.to_string(),
                ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into_owned(),
                ValueRef::Null => String::new(),
            })
        })
        .map_err(error)
}
