//! The handle of a state: open, write, read.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duolog_types::Durability;
use duolog_types::limits::Limits;

use crate::address::Address;
use crate::engine::{Postgres, Sqlite, Tally, Tx};
use crate::error::{Error, Result};

/// The default number of reading connections; on a server, of all connections.
const CONNECTIONS_MAX: usize = 4;

/// The access mode of an open state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing.
    ReadWrite,
    /// Reading. Nothing is migrated, `state.lock` is neither created nor locked, and a newer schema is accepted.
    ///
    /// SQLite creates `-wal` and `-shm` if they are missing and the directory is writable.
    ReadOnly,
}

/// What opening does with an older schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrate {
    /// An older schema is migrated.
    Yes,
    /// An older schema is an error.
    No,
}

/// A function that runs after each commit and before its callers return. It gets the durability of the commit.
///
/// It may read and copy the state. It must not write: the write would wait for the commit that called it, and time out.
pub type CommitHook = Arc<dyn Fn(&State, Durability) + Send + Sync>;

/// The options for opening a state.
#[derive(Clone)]
pub struct OpenState {
    /// The address.
    pub address: Address,
    /// The access mode.
    pub access: Access,
    /// The time to wait for a lock before [`Error::Busy`].
    pub busy_timeout: Duration,
    /// The maximum number of connections; on SQLite, beside the writing connection.
    pub connections_max: usize,
    /// The connections that reads use.
    pub reading: Reading,
    /// What to do with an older schema.
    pub migrate: Migrate,
    /// The function to call after each commit.
    pub on_commit: Option<CommitHook>,
}

impl OpenState {
    /// Returns options to open `state.db` in a directory for reading and writing, with the default limits.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::address(Address::Directory(dir.into()))
    }

    /// Returns options to open the state at an address for reading and writing, with the default limits.
    pub fn address(address: Address) -> Self {
        Self {
            address,
            access: Access::ReadWrite,
            busy_timeout: Limits::default().busy_timeout,
            connections_max: CONNECTIONS_MAX,
            reading: Reading::OwnConnections,
            migrate: Migrate::Yes,
            on_commit: None,
        }
    }

    /// Sets the access mode to read-only.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { access: Access::ReadOnly, ..self }
    }

    /// Sets the time to wait for a lock.
    #[must_use]
    pub fn busy_timeout(self, busy_timeout: Duration) -> Self {
        Self { busy_timeout, ..self }
    }
}

/// The connections that reads use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Connections of their own. For long-lived processes.
    OwnConnections,
    /// The writing connection, while it is idle. For short processes: to open a second connection would cost them more
    /// than all their reads.
    WriterConnection,
}

/// An open state. Clones share one set of connections.
#[derive(Clone)]
pub struct State(Arc<Inner>);

struct Inner {
    address: Address,
    access: Access,
    /// The process that opened it.
    pid: u32,
    engine: Engine,
    tally: Arc<Tally>,
    on_commit: Option<CommitHook>,
    /// Set by [`State::stop`].
    is_stopped: AtomicBool,
}

/// The database engine.
pub(crate) enum Engine {
    Sqlite(Box<Sqlite>),
    Postgres(Box<Postgres>),
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("address", &self.0.address)
            .field("access", &self.0.access)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Opens a state. Creates it if it does not exist and `access` is [`Access::ReadWrite`].
    pub fn open(options: OpenState) -> Result<Self> {
        let tally = Arc::new(Tally::default());
        let engine = match &options.address {
            Address::Directory(dir) => Engine::Sqlite(Box::new(Sqlite::open(dir, &options, Arc::clone(&tally))?)),
            Address::Server(server) => {
                Engine::Postgres(Box::new(Postgres::open(server, &options, Arc::clone(&tally))?))
            }
        };
        let OpenState { address, access, on_commit, .. } = options;
        let is_stopped = AtomicBool::new(false);
        Ok(Self(Arc::new(Inner { address, access, pid: std::process::id(), engine, tally, on_commit, is_stopped })))
    }

    /// Runs `f` in one write transaction and returns when the commit has the requested durability (I10).
    ///
    /// `f` may run on another caller's thread, in one commit with other requests; its error or panic rolls back only
    /// its own changes. On PostgreSQL `f` is retried after a conflict or a lost connection, so it must have no effect
    /// outside the transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if the lock was not free before the busy timeout; `f` did not run. [`Error::Full`] if the disk
    /// is full; nothing was kept. [`Error::Unknown`] if the commit failed for another reason. A `write` inside `f`
    /// waits for itself and returns [`Error::Busy`].
    pub fn write<T, E>(
        &self,
        durability: Durability,
        f: impl FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.writable()?;
        let after_commit = |durability| {
            if let Some(hook) = &self.0.on_commit {
                hook(self, durability);
            }
        };
        match &self.0.engine {
            Engine::Sqlite(sqlite) => sqlite.write(durability, &after_commit, f),
            Engine::Postgres(postgres) => postgres.write(&after_commit, f),
        }
    }

    /// Runs `f` on one consistent snapshot. Readers and writers do not block each other.
    ///
    /// If all connections are in use, it waits for one, up to the busy timeout. A long read prevents the reuse of
    /// deleted space: read in pages.
    pub fn read<T, E>(&self, f: impl FnOnce(&mut Tx<'_>) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        self.check()?;
        match &self.0.engine {
            Engine::Sqlite(sqlite) => sqlite.read(f),
            Engine::Postgres(postgres) => postgres.read(f),
        }
    }

    /// Returns the schema version of the database.
    pub fn schema_version(&self) -> u32 {
        match &self.0.engine {
            Engine::Sqlite(sqlite) => sqlite.version(),
            Engine::Postgres(postgres) => postgres.version(),
        }
    }

    /// Returns the address as text: the path of the database file, or the server's address without its password.
    pub fn place(&self) -> String {
        self.0.address.to_string()
    }

    /// Returns the address.
    pub fn address(&self) -> &Address {
        &self.0.address
    }

    /// Returns the access mode.
    pub fn access(&self) -> Access {
        self.0.access
    }

    /// Returns the process that is writing now. `None` if there is none, if it is unknown, or on a server.
    pub fn lock_holder(&self) -> Result<Option<u32>> {
        match &self.0.engine {
            Engine::Sqlite(sqlite) => sqlite.lock_holder(),
            Engine::Postgres(_) => Ok(None),
        }
    }

    /// Returns true if a process may exit without closing the state: closing would change nothing on disk.
    pub fn may_be_left_open(&self) -> bool {
        match &self.0.engine {
            Engine::Sqlite(sqlite) => sqlite.may_be_left_open(),
            // The server would log a lost connection.
            Engine::Postgres(_) => false,
        }
    }

    /// Drops this handle; the last one closes the connections. The write-ahead log is kept for the next process.
    pub fn close(self) {
        drop(self);
    }

    /// Makes every later call on this handle and its clones return [`Error::Closed`]. A running transaction ends
    /// normally.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.0.tally
    }

    pub(crate) fn writable(&self) -> Result<()> {
        self.check()?;
        if self.0.access == Access::ReadWrite { Ok(()) } else { Err(Error::ReadOnly) }
    }

    /// Returns an error if the state was stopped, or opened by another process before a fork.
    pub fn check(&self) -> Result<()> {
        self.check_not_stopped()?;
        same_process(self.0.pid, std::process::id())
    }

    /// Returns an error if the state was stopped. Makes no system call.
    pub fn check_not_stopped(&self) -> Result<()> {
        if self.0.is_stopped.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }
}

/// Returns an error after a fork: locks and connections belong to the parent.
fn same_process(opened: u32, now: u32) -> Result<()> {
    if opened == now { Ok(()) } else { Err(Error::Forked { opened, now }) }
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
