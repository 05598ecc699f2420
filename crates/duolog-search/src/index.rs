//! The index of a home: `search.db`, a file of its own that is derived from the logs and can be thrown away.
//!
//! Each session that was indexed has a checkpoint (epoch and position), moved in the transaction that adds what stands
//! before it, and only from where the caller found it: whoever is killed or overtaken leaves a whole index. One process
//! adds to it at a time; the others read what is there.
//!
//! Every text is a row in `docs` and an entry in the full-text table, which keeps words and no text. [`Key`] is the order
//! of hits: the newest first.

mod batch;
mod file;
mod find;

pub use batch::{Batch, Doc, IndexedTo, Indexing, SourceId};
pub use file::Examined;
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
    /// The file of the index of a home whose state directory is this.
    pub fn path_in(state: &Path) -> PathBuf {
        state.join(file::NAME)
    }

    /// Opens the index of a home, making it where there is none and making it anew where it cannot be used.
    ///
    /// Never waits: where another process is about to do the same, that is [`Error::Busy`].
    pub fn open_or_make(state: &Path, home: HomeId) -> Result<Self> {
        match Self::open(state, home) {
            Err(error) if error.is_to_be_made_anew() => {
                let path = Self::path_in(state);
                let _lock = file::lock(state)?;
                // Whoever held the lock before may have made it.
                match Self::open(state, home) {
                    Err(error) if error.is_to_be_made_anew() => file::make(&path, home)?,
                    other => return other,
                }
                Self::open(state, home)
            }
            other => other,
        }
    }

    /// Opens the index that is there.
    pub fn open(state: &Path, home: HomeId) -> Result<Self> {
        let path = Self::path_in(state);
        let (connection, ident) = file::open(&path, home)?;
        Ok(Self { connection, path, ident })
    }

    /// Throws the index away, unless another program made it. Whoever has it open keeps what it has.
    pub fn throw_away(state: &Path) -> Result<()> {
        let _lock = file::lock(state)?;
        file::throw_away(&Self::path_in(state))
    }

    /// Looks whether the index is whole. Takes as long as reading all of it.
    pub fn examine(&self) -> Result<Examined> {
        file::examine(&self.connection, &self.path)
    }

    /// Becomes the one who adds to the index; nothing where another process is.
    pub fn indexing(&mut self) -> Result<Option<Indexing<'_>>> {
        let state = self.path.parent().unwrap_or(Path::new("/"));
        match file::lock(state) {
            Ok(lock) => Ok(Some(Indexing::new(self, lock))),
            Err(Error::Busy(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is in the index now, seen as of one moment.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        Snapshot::begin(self)
    }

    /// Whether the file is still the one at its place.
    pub fn is_in_place(&self) -> bool {
        file::ident(&self.path) == Some(self.ident)
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> Error + Copy {
        Error::sql(&self.path)
    }
}
