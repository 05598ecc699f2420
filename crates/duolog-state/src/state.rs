//! The handle: opening, writing, reading.

use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duolog_types::Durability;
use duolog_types::limits::Limits;
use rusqlite::Connection;

use crate::engine::{Place, Pool, Readable, StateLock, Tally, Tx, Writer, error, open_reader, open_writer};
use crate::error::{Error, Result};
use crate::{filesystem, migrate};

/// The database's file name in its directory.
const DATABASE: &str = "state.db";
/// The lock's file name beside it.
const LOCK: &str = "state.lock";
/// The reading connections when nobody asks for another number.
const READERS_MAX: usize = 4;

/// What an opening is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing.
    ReadWrite,
    /// Reading. Nothing is migrated, and `state.lock` is neither made nor taken; a newer schema is welcome.
    ///
    /// SQLite makes `-wal` and `-shm` beside a database that lacks them, where the directory can be written.
    ReadOnly,
}

/// Whether an opening may bring an older schema up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrate {
    /// It may.
    Yes,
    /// It may not, and fails when that is needed.
    No,
}

/// Called after each commit and before its callers are answered, with what the commit survives.
///
/// It may read and copy the state; a write from inside waits for the one it was called from, and ends as busy.
pub type CommitHook = Arc<dyn Fn(&State, Durability) + Send + Sync>;

/// How to open a state.
#[derive(Clone)]
pub struct OpenState {
    /// The directory that holds `state.db` and `state.lock`.
    pub dir: PathBuf,
    /// What for.
    pub access: Access,
    /// How long a caller waits for a lock before it is told who holds it.
    pub busy_timeout: Duration,
    /// How many reading connections there may be.
    pub readers_max: usize,
    /// What reads go through.
    pub reading: Reading,
    /// Whether an older schema may be brought up to date.
    pub migrate: Migrate,
    /// What to call after each commit.
    pub on_commit: Option<CommitHook>,
}

impl OpenState {
    /// Opens for reading and writing, with the default limits.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            access: Access::ReadWrite,
            busy_timeout: Limits::default().busy_timeout,
            readers_max: READERS_MAX,
            reading: Reading::Beside,
            migrate: Migrate::Yes,
            on_commit: None,
        }
    }

    /// Opens for reading only.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { access: Access::ReadOnly, ..self }
    }

    /// Waits this long for locks.
    #[must_use]
    pub fn busy_timeout(self, busy_timeout: Duration) -> Self {
        Self { busy_timeout, ..self }
    }
}

/// What reads go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Connections of their own, beside the one that writes: for processes that stay.
    Beside,
    /// The connection that writes, while nobody does: for short ones, to which a second connection costs more than all
    /// they do with it.
    Lent,
}

/// The state, open. Clones are the same opening.
#[derive(Clone)]
pub struct State(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) place: Place,
    lock_path: PathBuf,
    access: Access,
    version: u32,
    /// The process that opened it.
    pid: u32,
    pub(crate) writer: Option<Writer>,
    pub(crate) pool: Pool,
    pub(crate) tally: Arc<Tally>,
    on_commit: Option<CommitHook>,
    reading: Reading,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("path", &self.0.place.path)
            .field("access", &self.0.access)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Opens the state in a directory, which is made where it does not exist and writing was asked for.
    ///
    /// A current database is opened without a write transaction, and its pages are not checked: see
    /// [`State::integrity`].
    pub fn open(options: OpenState) -> Result<Self> {
        filesystem::check(&options.dir)?;
        if options.access == Access::ReadWrite && !options.dir.exists() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(&options.dir).map_err(|error| Error::io("create", &options.dir, error))?;
        }
        let dir = match options.dir.canonicalize() {
            Ok(dir) => dir,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Missing { path: options.dir.join(DATABASE) });
            }
            Err(error) => return Err(Error::io("find", &options.dir, error)),
        };
        let place = Place { path: dir.join(DATABASE), busy_timeout: options.busy_timeout };
        let tally = Arc::new(Tally::default());
        let (writer, first, readable, version) = match options.access {
            Access::ReadWrite => {
                let lock = StateLock::open(dir.join(LOCK))?;
                let held = lock.acquire(Instant::now() + options.busy_timeout)?;
                let (connection, version) = open_writer(&place, options.migrate == Migrate::Yes)?;
                drop(held);
                let writer = Writer::new(connection, lock, version, Arc::clone(&tally))?;
                (Some(writer), None, Readable::Shared, version)
            }
            Access::ReadOnly => {
                let (connection, readable, version) = open_to_read(&place)?;
                (None, Some(connection), readable, version)
            }
        };
        let readers = place.clone();
        let pool = Pool::new(options.readers_max, first, move || open_reader(&readers, readable));
        Ok(Self(Arc::new(Inner {
            place,
            lock_path: dir.join(LOCK),
            access: options.access,
            version,
            pid: std::process::id(),
            writer,
            pool,
            tally,
            on_commit: options.on_commit,
            reading: options.reading,
        })))
    }

    /// Runs `f` in one write transaction and returns once that is as durable as asked (I10).
    ///
    /// `f` may run on another caller's thread, together with other requests; its error or panic undoes only its own
    /// work. A caller that waits longer than the busy time-out gets [`Error::Busy`]; its request never runs. When the
    /// commit fails the answer is [`Error::Full`] if that was why, and nothing was kept, else [`Error::Unknown`].
    /// Calling `write` from inside `f` waits for itself and ends as busy.
    pub fn write<T, E>(
        &self,
        durability: Durability,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let writer = self.writer()?;
        let after_commit = |durability| {
            if let Some(hook) = &self.0.on_commit {
                hook(self, durability);
            }
        };
        writer.write(durability, self.deadline(), &after_commit, f)
    }

    /// Runs `f` on one consistent snapshot. Writers are not held up, and do not hold it up.
    ///
    /// When every reading connection is out it waits for one, at most for the busy time-out. A long read keeps the
    /// write-ahead log from being reused: read in pages.
    pub fn read<T, E>(&self, f: impl FnOnce(&mut Tx<'_>) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        self.check()?;
        if self.0.reading == Reading::Lent
            && let Some(lent) = self.0.writer.as_ref().and_then(Writer::lend)
        {
            return f(&mut lent.begin()?);
        }
        let reader = self.0.pool.take(self.deadline())?;
        let mut tx = reader.begin()?;
        f(&mut tx)
    }

    /// The schema version of the database.
    pub fn schema_version(&self) -> u32 {
        self.0.version
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.0.place.path
    }

    /// What it was opened for.
    pub fn access(&self) -> Access {
        self.0.access
    }

    /// The process that writes at this moment, if any does and the system tells.
    pub fn lock_holder(&self) -> Result<Option<u32>> {
        crate::engine::holder_of(&self.0.lock_path)
    }

    /// Lets go of this handle; the last one closes the connections. The write-ahead log stays for whoever opens next.
    pub fn close(self) {
        drop(self);
    }

    pub(crate) fn writer(&self) -> Result<&Writer> {
        self.check()?;
        self.0.writer.as_ref().ok_or(Error::ReadOnly)
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.0.place.busy_timeout
    }

    pub(crate) fn check(&self) -> Result<()> {
        same_process(self.0.pid, std::process::id())
    }
}

/// Refuses a handle that came here by a fork: SQLite's locks stayed with the parent.
fn same_process(opened: u32, now: u32) -> Result<()> {
    if opened == now { Ok(()) } else { Err(Error::Forked { opened, now }) }
}

/// Opens for reading, and finds out how that can be done here.
fn open_to_read(place: &Place) -> Result<(Connection, Readable, u32)> {
    if !place.path.exists() {
        return Err(Error::Missing { path: place.path.clone() });
    }
    let try_as = |readable| {
        let connection = open_reader(place, readable)?;
        let version = migrate::identify(&connection, &place.path)?;
        Ok((connection, readable, version))
    };
    let log_is_empty = std::fs::metadata(place.beside("-wal")).map_or(true, |log| log.len() == 0);
    let opened = match try_as(Readable::Shared) {
        // On a read-only mount the log's index cannot be made. Without a log the file alone is the whole database.
        Err(Error::Engine { .. } | Error::ReadOnly) if log_is_empty => try_as(Readable::Immutable),
        other => other,
    }?;
    migrate::may_read(opened.2)?;
    Ok(opened)
}

/// Reads a pragma as text, whatever it answers with.
pub(crate) fn pragma(connection: &Connection, name: &str) -> Result<String> {
    use rusqlite::types::ValueRef;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_from_before_a_fork_is_refused() {
        assert!(same_process(7, 7).is_ok());
        let error = same_process(7, 8).expect_err("another process");
        assert!(matches!(error, Error::Forked { opened: 7, now: 8 }), "{error}");
    }
}
