//! Operation of the state database: statistics, rebuild, maintenance and backup.

mod blobs;
mod model;

use std::path::Path;

use duolog_join::{BackedUp, Rebuilt};
use duolog_state::derived::catalog;
use duolog_state::{Address, Error as StateError, WalCheckpoint};

pub use blobs::CountedBlobs;
pub use duolog_join::{BlobCount, PrunedBlobs};
pub use model::{Backup, LogTotals, Migrated, Stats, Vacuumed, risk_of};

use crate::Wait;
use crate::error::{Conflict, Error, Result};
use crate::store::Store;

/// The handle for the state database.
#[derive(Clone)]
pub struct State {
    pub(crate) store: Store,
}

impl State {
    /// Returns sizes, row counts and settings. The statistics of the logs come from derived rows.
    pub fn stats(&self) -> Result<Stats> {
        self.stats_within(Wait::Complete)
    }

    /// Returns sizes, row counts and settings. `wait` limits how long derived rows may catch up with the logs first.
    pub fn stats_within(&self, wait: Wait) -> Result<Stats> {
        let join = &self.store.join;
        let behind = self.store.catch_up_within(wait)?;
        let state = join.state().stats()?;
        let totals = join.state().read(|tx| catalog::totals(tx, &join.home()))?;
        let logs = LogTotals { files: totals.logs, bytes: totals.bytes, events: totals.events };
        Ok(Stats { state, logs, behind })
    }

    /// Rebuilds the derived rows from the logs while readers and writers continue. `each` is called after each session.
    pub fn rebuild(&self, each: impl FnMut(&Rebuilt)) -> Result<Rebuilt> {
        if !self.store.is_writable() {
            return Err(duolog_join::Error::ReadOnly.into());
        }
        Ok(self.store.join.rebuild(each)?)
    }

    /// Counts the references to each blob in the logs. The result can remove blobs without a reference. `each` is
    /// called with the number of log bytes read.
    pub fn count_blobs(&self, each: impl FnMut(u64)) -> Result<CountedBlobs> {
        Ok(CountedBlobs::new(&self.store, self.store.join.count_blobs(each)?))
    }

    /// Returns the version of the schema. Opening a store for writing migrates the schema.
    pub fn version(&self) -> Migrated {
        Migrated { version: self.store.join.state().schema_version(), known: duolog_state::known_version() }
    }

    /// Moves the write-ahead log into the database and truncates it. On a server this does nothing: the server does it
    /// by itself.
    pub fn checkpoint(&self) -> Result<WalCheckpoint> {
        Ok(self.store.join.state().checkpoint()?)
    }

    /// Returns the space of deleted rows to the file system.
    ///
    /// A SQLite file is rewritten, which needs the same space again and blocks writers. On a server, Duolog's tables
    /// are vacuumed and analysed without blocking.
    pub fn vacuum(&self) -> Result<Vacuumed> {
        let state = self.store.join.state();
        let before = state.stats()?;
        state.vacuum()?;
        let after = state.stats()?;
        // The write-ahead log is part of the database, so its bytes count.
        let bytes = |stats: &duolog_state::StateStats| {
            stats.engine_stats.bytes + stats.engine_stats.wal_bytes.unwrap_or_default()
        };
        Ok(Vacuumed {
            bytes_before: bytes(&before),
            bytes_after: bytes(&after),
            tables: after.rows.into_iter().map(|(table, _)| table).collect(),
            on_server: is_server(state.address()),
        })
    }

    /// Copies the home to a directory that does not exist or is empty, while writers continue. The copy opens as a
    /// home.
    ///
    /// The copy is built in the directory `state.partial`, which becomes the home when it is complete and is removed if
    /// the copy fails.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory is not empty, if the copy cannot be written, or if the state is on a server,
    /// which its own tools copy.
    pub fn backup(&self, to: &Path, each: impl FnMut(&BackedUp)) -> Result<Backup> {
        if is_server(self.store.join.state().address()) {
            return Err(StateError::NotHere {
                what: "copy a state that is on a server",
                instead: "copy the database with pg_dump first and the home's directory after it, so that no row names \
                          bytes that the copy lacks",
            }
            .into());
        }
        let partial = to.join(PARTIAL);
        if partial.exists() {
            return Err(Error::Conflict(Conflict::PartialBackup(partial)));
        }
        if to.read_dir().is_ok_and(|mut entries| entries.next().is_some()) || to.is_file() {
            return Err(Error::Conflict(Conflict::NotEmpty(to.to_owned())));
        }
        let is_new = !to.exists();
        let prepared =
            duolog_join::prepare_copy(&partial, &self.store.core.home.state).map_err(|error| match error {
                duolog_join::HomeError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
                    Error::Conflict(Conflict::NotEmpty(to.to_owned()))
                }
                other => other.into(),
            })?;
        let copied = self.store.join.backup(&partial, &prepared.disk, each).map_err(Error::from);
        let copied =
            copied.and_then(|copied| Ok(duolog_join::finish_copy(&partial, &to.join("state")).map(|()| copied)?));
        let copied = copied.inspect_err(|_| duolog_join::discard_copy(&partial, is_new))?;
        let BackedUp { logs, bytes, blobs, blobs_failed, failed } = copied;
        let blobs_failed = blobs_failed.into_iter().map(|(id, why)| (id.to_string(), why)).collect();
        Ok(Backup { path: to.to_owned(), logs, bytes, blobs, blobs_failed, failed })
    }
}

/// The directory of an incomplete copy.
const PARTIAL: &str = "state.partial";

fn is_server(address: &Address) -> bool {
    matches!(address, Address::Server(_))
}
