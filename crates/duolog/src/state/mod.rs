//! The state store as operators see it: figures, rebuilding, copies.

mod blobs;
mod model;

use std::path::Path;

use duolog_join::{BackedUp, Rebuilt};
use duolog_state::derived::catalog;
use duolog_state::{Address, Error as StateError, WalCheckpoint};

pub use blobs::CountedBlobs;
pub use duolog_join::{BlobCount, PrunedBlobs};
pub use model::{Backup, LogFigures, Migrated, Stats, Vacuumed, risk_of};

use crate::Wait;
use crate::error::{Conflict, Error, Result};
use crate::store::Store;

/// The state store.
#[derive(Clone)]
pub struct State {
    pub(crate) store: Store,
}

impl State {
    /// Sizes, rows, settings. The figures of the logs are those of the derived rows.
    pub fn stats(&self) -> Result<Stats> {
        self.stats_within(Wait::Complete)
    }

    /// Sizes, rows, settings, with the figures of the logs as far as `wait` says.
    pub fn stats_within(&self, wait: Wait) -> Result<Stats> {
        let join = &self.store.join;
        let behind = self.store.catch_up_within(wait)?;
        let state = join.state().stats()?;
        let totals = join.state().read(|tx| catalog::totals(tx, &join.home()))?;
        let logs = LogFigures { files: totals.logs, bytes: totals.bytes, events: totals.events };
        Ok(Stats { state, logs, behind })
    }

    /// Makes the derived rows anew from the logs, beside readers and writers; `each` is told of each session done.
    pub fn rebuild(&self, each: impl FnMut(&Rebuilt)) -> Result<Rebuilt> {
        if !self.store.is_writable() {
            return Err(duolog_join::Error::ReadOnly.into());
        }
        Ok(self.store.join.rebuild(each)?)
    }

    /// Counts how often the logs name each blob, and gives what can then be pruned; `each` is told how many bytes of the
    /// logs are read.
    pub fn count_blobs(&self, each: impl FnMut(u64)) -> Result<CountedBlobs> {
        Ok(CountedBlobs::new(&self.store, self.store.join.count_blobs(each)?))
    }

    /// The schema's version. Opening a store for writing has brought it up to date.
    pub fn version(&self) -> Migrated {
        Migrated { version: self.store.join.state().schema_version(), known: duolog_state::known_version() }
    }

    /// Moves what is in the write-ahead log into the database, and shortens it. A server does that by itself.
    pub fn checkpoint(&self) -> Result<WalCheckpoint> {
        Ok(self.store.join.state().checkpoint()?)
    }

    /// Gives back the space of what was deleted.
    ///
    /// A file is rewritten, which needs as much space again and holds writers up; on a server our tables are vacuumed
    /// and analysed beside everything else.
    pub fn vacuum(&self) -> Result<Vacuumed> {
        let state = self.store.join.state();
        let before = state.stats()?;
        state.vacuum()?;
        let after = state.stats()?;
        // What a file's write-ahead log holds is a part of the database that has not moved yet.
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

    /// Copies the home to a directory that does not exist yet, or is empty, while writers run. The copy opens as a home.
    ///
    /// It is a home once it is whole: until then it is in a directory `state.partial`, which goes if the copy fails.
    ///
    /// A state on a server is copied by the server's own tools, and this says so before anything is made.
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

/// The directory of a copy that is not whole yet.
const PARTIAL: &str = "state.partial";

fn is_server(address: &Address) -> bool {
    matches!(address, Address::Server(_))
}
