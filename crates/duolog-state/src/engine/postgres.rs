//! PostgreSQL: a pool of connections to one server, which any number of hosts may share.
//!
//! A write transaction runs on one snapshot (REPEATABLE READ) and is retried after a conflict with another transaction.
//! So what it read is still true when it commits. A rule over several rows that the transaction does not change needs
//! more: a constraint, or a lock on a row that they share. The driver is asynchronous and runs on its own thread;
//! callers block.

mod answer;
mod maintenance;
mod schema;
mod session;
mod tls;
mod wait;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod};
use duolog_types::Durability;
use duolog_types::contention::Wait;
use tokio::runtime::Runtime;

pub(super) use session::{Session, column, name, width};
pub(super) use tokio_postgres::Row as Answer;

use answer::{connecting, failed_commit, fault};
use session::Open;
use wait::wait;

use super::{Tally, Tx, Undo};
use crate::address::Server;
use crate::error::{Error, Result};
use crate::state::{Access, Migrate, OpenState};

/// The limit for one statement. Operations that take longer set their own limit.
const STATEMENT_MAX: Duration = Duration::from_secs(30);
/// The limit for an idle transaction. After it the server ends the transaction, so that a stopped process blocks
/// nobody.
const STANDSTILL_MAX: Duration = Duration::from_secs(30);
/// The time added to the server's own limit before a connection counts as lost.
const GRACE: Duration = Duration::from_secs(5);
/// The TCP keepalive and user timeout: after this time without an answer, a connection is closed.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The maximum number of retries after a unique violation.
const UNIQUE_RETRIES_MAX: u32 = 4;

/// A state on a server.
pub(crate) struct Postgres {
    server: Server,
    pool: Pool,
    /// The runtime with the driver's thread. `None` while it is dropped.
    runtime: Option<Runtime>,
    version: u32,
    busy_timeout: Duration,
    tally: Arc<Tally>,
}

impl Postgres {
    /// Connects, checks that the database belongs to Duolog, and migrates it if needed and allowed.
    pub(crate) fn open(server: &Server, options: &OpenState, tally: Arc<Tally>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("duolog-postgres")
            .enable_all()
            .build()
            .map_err(|error| Error::Engine { source: Arc::new(error) })?;
        let mut opened = Self {
            server: server.clone(),
            pool: pool(server, options)?,
            runtime: Some(runtime),
            version: 0,
            busy_timeout: options.busy_timeout,
            tally,
        };
        let object = opened.connect(Patience::Short)?;
        let session = Session::new(&object, server);
        opened.version = match options.access {
            Access::ReadWrite => schema::prepare(&session, options.migrate == Migrate::Yes)?,
            Access::ReadOnly => schema::look(&session)?,
        };
        drop(object);
        Ok(opened)
    }

    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Runs a request in its own transaction and retries it if a retry may succeed.
    ///
    /// The commit is always synced. PostgreSQL has no level between that and `synchronous_commit = off`, which loses
    /// commits if the server process dies.
    pub(crate) fn write<T, E: From<Error>>(
        &self,
        after_commit: &dyn Fn(Durability),
        mut f: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut patience = Wait::at_most(self.busy_timeout);
        let mut unique_retries = UNIQUE_RETRIES_MAX;
        loop {
            let failure = match self.attempt(&mut f) {
                Ok(done) => {
                    self.tally.commits.fetch_add(1, Ordering::Relaxed);
                    self.tally.power_commits.fetch_add(1, Ordering::Relaxed);
                    after_commit(Durability::Power);
                    return Ok(done);
                }
                Err(failure) => failure,
            };
            // A unique violation may come from a transaction that this snapshot does not show: the key was free when
            // the request looked for it. A retry sees the row. The row may be deleted and inserted again meanwhile, so
            // there is more than one retry.
            let may_retry = |cause: &Error| cause.is_transient() || (unique_retries > 0 && cause.is_taken());
            match patience.pause().filter(|_| failure.cause.as_ref().is_some_and(may_retry)) {
                Some(pause) => std::thread::sleep(pause),
                None => return Err(failure.why.into_error()),
            }
            self.tally.again.fetch_add(1, Ordering::Relaxed);
            unique_retries -= u32::from(failure.cause.as_ref().is_some_and(Error::is_taken));
        }
    }

    /// Runs one transaction. An error before the commit means that nothing was changed.
    fn attempt<T, E>(&self, f: &mut impl FnMut(&mut Tx<'_>) -> Result<T, E>) -> Result<T, Failure<E>> {
        let object = self.connect(Patience::Long)?;
        let session = Session::new(&object, &self.server);
        let open = session.begin(self.version)?;
        self.tally.transactions.fetch_add(1, Ordering::Relaxed);
        let mut tx = Tx::postgres(session);
        // The engine's error decides about a retry, even if the request returned another error.
        let done = tx.attempt(f).map_err(|why| Failure { why, cause: tx.failure().cloned() })?;
        open.commit()?;
        Ok(done)
    }

    /// Runs `f` on one snapshot.
    pub(crate) fn read<T, E: From<Error>>(&self, f: impl FnOnce(&mut Tx<'_>) -> Result<T, E>) -> Result<T, E> {
        let object = self.connect(Patience::Long)?;
        let session = Session::new(&object, &self.server);
        // BEGIN is sent together with the first statement, which saves one round trip.
        let mut beginning = pin!(object.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"));
        let early = wait(beginning.as_mut(), Instant::now());
        let open = Open::read(session.clone());
        let answer = f(&mut Tx::postgres(session));
        let began = early.or_else(|| wait(beginning, Instant::now() + GRACE));
        drop(open);
        match began {
            // Without a transaction the reads are not one snapshot.
            Some(Err(error)) if answer.is_ok() => Err(fault(&self.server, error).into()),
            None if answer.is_ok() => Err(self.unreachable("it does not answer").into()),
            _ => answer,
        }
    }

    /// Takes a working connection from the pool, or returns the reason why there is none.
    fn connect(&self, patience: Patience) -> Result<Object> {
        let deadline = Instant::now() + self.busy_timeout;
        let mut retry = Wait::at_most(self.busy_timeout);
        let mut last_error = None;
        loop {
            let error = match self.try_connect(deadline) {
                Some(Ok(object)) => return Ok(object),
                Some(Err(error)) => error,
                // The last error says more than a timeout.
                None => return Err(last_error.unwrap_or_else(|| self.no_answer())),
            };
            let is_transient = match &error {
                // The server has no free connection, or is starting.
                Error::Busy { .. } => true,
                Error::Unreachable { .. } => patience == Patience::Long || answer::is_starting(&error),
                _ => false,
            };
            match retry.pause().filter(|_| is_transient) {
                Some(pause) => std::thread::sleep(pause.max(Duration::from_millis(5))),
                None => return Err(error),
            }
            last_error = Some(error);
        }
    }

    /// Tries to get a connection. `None` if the deadline passed first.
    fn try_connect(&self, deadline: Instant) -> Option<Result<Object>> {
        let Some(runtime) = &self.runtime else { return Some(Err(self.unreachable("the state is closed"))) };
        let _inside = runtime.enter();
        let answer = wait(self.pool.get(), deadline)?;
        Some(answer.map_err(|error| match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                connecting(&self.server, &error)
            }
            error => self.unreachable(&error.to_string()),
        }))
    }

    fn no_answer(&self) -> Error {
        let status = self.pool.status();
        if status.size >= status.max_size && status.available == 0 {
            return Error::Busy { what: "every connection of this process", holder: None };
        }
        self.unreachable("it does not answer")
    }

    fn unreachable(&self, detail: &str) -> Error {
        Error::Unreachable { place: self.server.to_string(), detail: detail.to_owned() }
    }
}

/// A transaction that was rolled back.
struct Failure<E> {
    /// The error for the caller.
    why: Undo<E>,
    /// The engine's error, if there is one.
    cause: Option<Error>,
}

impl<E> From<Error> for Failure<E> {
    fn from(error: Error) -> Self {
        Self { why: Undo::Engine(error.clone()), cause: Some(error) }
    }
}

/// How long to retry a connection to a server that does not answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// One attempt: the address may be wrong, and the user should learn it at once.
    Short,
    /// Up to the busy timeout: the server has answered before.
    Long,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.pool.close();
        if let Some(runtime) = self.runtime.take() {
            // Dropping the runtime would block, which panics inside another runtime.
            runtime.shutdown_background();
        }
    }
}

/// Builds the pool. It opens connections on demand and applies the settings to each.
fn pool(server: &Server, options: &OpenState) -> Result<Pool> {
    let mut config = tokio_postgres::Config::clone(&server.config);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.busy_timeout);
    }
    config.keepalives(true).keepalives_idle(SILENCE_MAX).tcp_user_timeout(SILENCE_MAX);
    let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, tls::connector(&server.trust)?, manager_config);
    let settings = settings(options);
    let prepare = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
        let settings = settings.clone();
        Box::pin(async move { client.batch_execute(&settings).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(options.connections_max.max(1))
        .post_create(prepare)
        .build()
        .map_err(|error| Error::Engine { source: Arc::new(error) })
}

/// Returns the SQL that sets up a new connection.
fn settings(options: &OpenState) -> String {
    let (locks, statements) = (options.busy_timeout.as_millis().max(1), STATEMENT_MAX.as_millis());
    let read_only = if options.access == Access::ReadOnly { "on" } else { "off" };
    format!(
        "SET lock_timeout = {locks}; SET statement_timeout = {statements}; \
         SET idle_in_transaction_session_timeout = {standstill}; SET client_min_messages = warning; \
         SET TimeZone = 'UTC'; SET default_transaction_read_only = {read_only}; \
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
        standstill = STANDSTILL_MAX.as_millis(),
    )
}
