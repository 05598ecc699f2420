//! The handle: opening, writing, reading.

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

/// The reading connections when nobody asks for another number; on a server, all connections.
const CONNECTIONS_MAX: usize = 4;

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
    /// Where it is.
    pub address: Address,
    /// What for.
    pub access: Access,
    /// How long a caller waits for a lock before it is told who holds it.
    pub busy_timeout: Duration,
    /// How many connections there may be, beside the one that writes to a file.
    pub connections_max: usize,
    /// What reads go through.
    pub reading: Reading,
    /// Whether an older schema may be brought up to date.
    pub migrate: Migrate,
    /// What to call after each commit.
    pub on_commit: Option<CommitHook>,
}

impl OpenState {
    /// Opens `state.db` in a directory for reading and writing, with the default limits.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::address(Address::Directory(dir.into()))
    }

    /// Opens what is at an address, for reading and writing, with the default limits.
    pub fn address(address: Address) -> Self {
        Self {
            address,
            access: Access::ReadWrite,
            busy_timeout: Limits::default().busy_timeout,
            connections_max: CONNECTIONS_MAX,
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

/// What the rows are kept by.
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
    /// Opens a state, and makes it where there is none yet and writing was asked for.
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

    /// Runs `f` in one write transaction and returns once that is as durable as asked (I10).
    ///
    /// `f` may run on another caller's thread, together with other requests; its error or panic undoes only its own
    /// work. On a server it may run more than once, because what another transaction or a lost connection undid is
    /// tried again: it must have no effect but on the transaction. A caller that waits longer than the busy time-out
    /// gets [`Error::Busy`]; its request never runs. When the commit fails the answer is [`Error::Full`] if that was
    /// why, and nothing was kept, else [`Error::Unknown`]. Calling `write` from inside `f` waits for itself and ends as
    /// busy.
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

    /// Runs `f` on one consistent snapshot. Writers are not held up, and do not hold it up.
    ///
    /// When every connection is out it waits for one, at most for the busy time-out. A long read keeps what is deleted
    /// from being reused: read in pages.
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

    /// The schema version of the database.
    pub fn schema_version(&self) -> u32 {
        match &self.0.engine {
            Engine::Sqlite(sqlite) => sqlite.version(),
            Engine::Postgres(postgres) => postgres.version(),
        }
    }

    /// Where it is, for people: the database file, or the server's address without its password.
    pub fn place(&self) -> String {
        self.0.address.to_string()
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.0.address
    }

    /// What it was opened for.
    pub fn access(&self) -> Access {
        self.0.access
    }

    /// The process that writes at this moment, if any does and the system tells. A server's writers are not told.
    pub fn lock_holder(&self) -> Result<Option<u32>> {
        match &self.0.engine {
            Engine::Sqlite(sqlite) => sqlite.lock_holder(),
            Engine::Postgres(_) => Ok(None),
        }
    }

    /// Whether a process that is about to end may leave it open: closing would change nothing that outlives the process.
    pub fn may_be_left_open(&self) -> bool {
        match &self.0.engine {
            Engine::Sqlite(sqlite) => sqlite.may_be_left_open(),
            // The server notices that the line is gone, and says so in its log.
            Engine::Postgres(_) => false,
        }
    }

    /// Lets go of this handle; the last one closes the connections. The write-ahead log stays for whoever opens next.
    pub fn close(self) {
        drop(self);
    }

    /// Refuses every later call on this opening, from any clone, with [`Error::Closed`]. A transaction that is running ends
    /// as usual.
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

    /// Returns an error if nothing can be done with this opening: it was stopped, or made by the process that forked this
    /// one.
    pub fn check(&self) -> Result<()> {
        self.check_not_stopped()?;
        same_process(self.0.pid, std::process::id())
    }

    /// Returns an error if this opening was stopped. Costs no system call.
    pub fn check_not_stopped(&self) -> Result<()> {
        if self.0.is_stopped.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }
}

/// Refuses a handle that came here by a fork: locks and connections stayed with the parent.
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
