//! SQLite: a database file on this machine, with one writing connection that callers queue for and a few reading ones.

mod checkpointer;
mod connection;
mod foreign;
mod group;
mod lock;
mod maintenance;
mod pool;
mod resync;
mod schema;
mod writer;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use duolog_types::Durability;
use rusqlite::Connection;

pub(super) use connection::{column, execute, query, text_bytes};

pub use foreign::Foreign;

use connection::{CacheSize, Place, Readable, check_length, error, open_reader, open_writer};
use lock::{Doubt, StateLock, holder_of};
use pool::Pool;
use writer::Writer;

use super::{Tally, Tx};
use crate::address::DATABASE;
use crate::error::{Error, Result};
use crate::state::{Access, Migrate, OpenState, Reading};
use crate::{filesystem, migrate};

/// The name of the lock file in the database's directory.
const LOCK: &str = "state.lock";
/// The size of a write-ahead log that closing leaves as it is.
const SHORT_LOG_BYTES: u64 = writer::CLOSE_PAGES * 4096;

/// A state in a file.
pub(crate) struct Sqlite {
    place: Place,
    lock_path: PathBuf,
    access: Access,
    version: u32,
    writer: Option<Writer>,
    pool: Pool,
    reading: Reading,
    tally: Arc<Tally>,
}

impl Sqlite {
    /// Opens the database in a directory. Creates the directory if it does not exist and `access` is `ReadWrite`.
    ///
    /// A database with the current version is opened without a write transaction. Its pages are not checked.
    pub(crate) fn open(dir: &Path, options: &OpenState, tally: Arc<Tally>) -> Result<Self> {
        filesystem::check(dir)?;
        let absolute = std::path::absolute(dir).map_err(|error| Error::io("find", dir, error))?;
        check_length(&absolute.join(DATABASE))?;
        if options.access == Access::ReadWrite && !dir.exists() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(dir).map_err(|error| Error::io("create", dir, error))?;
        }
        let dir = match dir.canonicalize() {
            Ok(dir) => dir,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Missing { place: dir.join(DATABASE).display().to_string() });
            }
            Err(error) => return Err(Error::io("find", dir, error)),
        };
        let place = Place { path: dir.join(DATABASE), busy_timeout: options.busy_timeout };
        // Checked again: a symbolic link may lead to a longer path.
        check_length(&place.path)?;
        let lock_path = dir.join(LOCK);
        let (writer, first, readable, version) = match options.access {
            Access::ReadWrite => {
                let lock = StateLock::open(lock_path.clone(), place.beside("-wal"))?;
                let held = lock.acquire(Instant::now() + options.busy_timeout)?;
                let opened = open_writer(&place, options.migrate == Migrate::Yes);
                let (connection, version) = opened.inspect_err(|error| {
                    if failed_sync(error) {
                        held.mark(Doubt::LOG);
                    }
                })?;
                drop(held);
                let checkpointer_place = (options.reading == Reading::OwnConnections).then(|| place.clone());
                let writer = Writer::new(connection, lock, &place, version, Arc::clone(&tally), checkpointer_place)?;
                (Some(writer), None, Readable::Shared, version)
            }
            Access::ReadOnly => {
                let (connection, readable, version) = open_to_read(&place)?;
                (None, Some(connection), readable, version)
            }
        };
        let readers = place.clone();
        let pool = Pool::new(options.connections_max, first, move |cache| open_reader(&readers, readable, cache));
        let (access, reading) = (options.access, options.reading);
        Ok(Self { place, lock_path, access, version, writer, pool, reading, tally })
    }

    /// Runs a request in a transaction, alone or in a group, and returns when the commit has the requested durability.
    pub(crate) fn write<T, E>(
        &self,
        durability: Durability,
        after_commit: &dyn Fn(Durability),
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.writer()?.write(durability, self.deadline(), after_commit, f)
    }

    /// Runs `f` on one snapshot.
    pub(crate) fn read<T, E: From<Error>>(&self, f: impl FnOnce(&mut Tx<'_>) -> Result<T, E>) -> Result<T, E> {
        if self.reading == Reading::WriterConnection
            && let Some(writer) = self.writer.as_ref().and_then(Writer::borrow_idle)
        {
            return f(&mut writer.begin()?);
        }
        let reader = self.pool.take(self.deadline())?;
        let mut tx = reader.begin()?;
        f(&mut tx)
    }

    /// Returns true if a process may exit without closing the database.
    ///
    /// Every commit is in the write-ahead log, and the locks end with the process. Only a large log makes closing
    /// useful: it is checkpointed then.
    pub(crate) fn may_be_left_open(&self) -> bool {
        // Stat by path, not by descriptor: closing a descriptor of this process would drop SQLite's locks.
        std::fs::metadata(self.place.beside("-wal")).is_ok_and(|log| log.len() < SHORT_LOG_BYTES)
    }

    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Returns the process that is writing now, if any and known.
    pub(crate) fn lock_holder(&self) -> Result<Option<u32>> {
        holder_of(&self.lock_path)
    }

    fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or(Error::ReadOnly)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.place.busy_timeout
    }
}

/// Returns true if SQLite could not write or sync a file.
pub(super) fn failed_sync(error: &Error) -> bool {
    let (Error::Engine { source } | Error::WriteFailed { source }) = error else { return false };
    source.downcast_ref().is_some_and(connection::is_failed_sync)
}

/// Runs statements without parameters and results.
pub(super) fn command(connection: &Connection, commands: &[&str]) -> Result<()> {
    commands.iter().try_for_each(|command| execute(connection, command, &[]).map(drop))
}

/// Opens the database for reading, shared or immutable.
fn open_to_read(place: &Place) -> Result<(Connection, Readable, u32)> {
    if !place.path.exists() {
        return Err(Error::Missing { place: place.path.display().to_string() });
    }
    let try_as = |readable| {
        let connection = open_reader(place, readable, CacheSize::Large)?;
        let version = schema::identify(&connection, &place.path)?;
        Ok((connection, readable, version))
    };
    let log_is_empty = std::fs::metadata(place.beside("-wal")).map_or(true, |log| log.len() == 0);
    let opened = match try_as(Readable::Shared) {
        // On a read-only mount the index of the write-ahead log cannot be created. If the log is empty, the database
        // file alone has all rows.
        Err(Error::Engine { .. } | Error::Unopenable { .. } | Error::WriteFailed { .. } | Error::ReadOnly)
            if log_is_empty =>
        {
            try_as(Readable::Immutable)
        }
        other => other,
    }?;
    migrate::may_read(opened.2)?;
    Ok(opened)
}
