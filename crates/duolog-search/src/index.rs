//! The index of a home: `search.db`, a database of its own that is derived from the logs and can be deleted.
//!
//! Each indexed session has a checkpoint (epoch and position). The transaction that adds texts advances it, and only if
//! it is where the caller found it: a process that is killed or overtaken leaves a consistent index. One process at a
//! time writes to the index; others read.
//!
//! Every text is a row in `docs` and an entry in the full-text table, which stores words but no text. [`Key`] is the
//! order of hits: newest first.

mod batch;
mod file;
mod find;

pub use batch::{Batch, Doc, IndexedTo, Indexing, SourceId};
pub use file::IndexReport;
pub use find::{Candidate, Filter, IndexProgress, Key, NotAKey, Snapshot};

use std::path::{Path, PathBuf};

use duolog_types::HomeId;
use rusqlite::Connection;

use crate::error::{Error, Result};

/// An open index.
pub struct Index {
    connection: Connection,
    path: PathBuf,
    ident: file::Ident,
}

impl Index {
    /// Returns the path of the index in a home's state directory.
    pub fn path_in(state: &Path) -> PathBuf {
        state.join(file::NAME)
    }

    /// Opens the index of a home; creates it if there is none, and rebuilds it empty if it cannot be used. Never waits.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if another process is about to do the same.
    pub fn open_or_create(state: &Path, home: HomeId) -> Result<Self> {
        match Self::open(state, home) {
            Err(error) if error.is_rebuildable() => {
                let path = Self::path_in(state);
                let _lock = file::lock(state)?;
                // The process that held the lock before may have created it.
                match Self::open(state, home) {
                    Err(error) if error.is_rebuildable() => file::create(&path, home)?,
                    other => return other,
                }
                Self::open(state, home)
            }
            other => other,
        }
    }

    /// Opens an existing index.
    pub fn open(state: &Path, home: HomeId) -> Result<Self> {
        let path = Self::path_in(state);
        let (connection, ident) = file::open(&path, home)?;
        Ok(Self { connection, path, ident })
    }

    /// Deletes the index, unless another program created it. A process that has it open keeps its copy.
    pub fn delete(state: &Path) -> Result<()> {
        let _lock = file::lock(state)?;
        file::delete(&Self::path_in(state))
    }

    /// Checks the index for damage. It reads the whole index.
    pub fn examine(&self) -> Result<IndexReport> {
        file::examine(&self.connection, &self.path)
    }

    /// Takes the right to write to the index; `None` if another process has it.
    pub fn indexing(&mut self) -> Result<Option<Indexing<'_>>> {
        let state = self.path.parent().unwrap_or(Path::new("/"));
        match file::lock(state) {
            Ok(lock) => Ok(Some(Indexing::new(self, lock))),
            Err(Error::Busy(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns a consistent snapshot of the index.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        Snapshot::begin(self)
    }

    /// Returns true if the path still names the open file.
    pub fn is_in_place(&self) -> bool {
        file::ident(&self.path) == Some(self.ident)
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> Error + Copy {
        Error::sql(&self.path)
    }
}
