//! PostgreSQL: a pool of connections to one server, which any number of hosts share.
//!
//! A write is one snapshot too, and one that another overtook is run again: what was read is what is changed, as if one
//! transaction wrote at a time. Only rules over several rows that nobody changes need more: a constraint, or a lock
//! taken on a row that they share. The driver is asynchronous and runs on a thread of its own; callers wait.

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

/// How long one statement may run. What takes longer has its own limit.
const STATEMENT_MAX: Duration = Duration::from_secs(30);
/// How long a transaction may stand still: after that the server ends it, so that a stopped process blocks nobody.
const STANDSTILL_MAX: Duration = Duration::from_secs(30);
/// How much longer than the server we wait for its answer before the line counts as dead.
const GRACE: Duration = Duration::from_secs(5);
/// How long a silent line is believed in.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How often a request looks again for a key that was taken beside it.
const LOOKS_MAX: u32 = 4;

/// A state on a server.
pub(crate) struct Postgres {
    server: Server,
    pool: Pool,
    /// The thread that the driver runs on; taken when it is dropped.
    runtime: Option<Runtime>,
    version: u32,
    busy_timeout: Duration,
    tally: Arc<Tally>,
}

impl Postgres {
    /// Connects, makes sure that the database is ours, and brings it up to date where that may be.
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

    /// Runs one request in a transaction of its own, and again where that can help.
    ///
    /// The server syncs before it answers, whatever was asked for: it knows nothing between that and a write which the
    /// death of its own process takes back.
    pub(crate) fn write<T, E: From<Error>>(
        &self,
        after_commit: &dyn Fn(Durability),
        mut f: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut patience = Wait::at_most(self.busy_timeout);
        let mut looks = LOOKS_MAX;
        loop {
            let undone = match self.attempt(&mut f) {
                Ok(done) => {
                    self.tally.commits.fetch_add(1, Ordering::Relaxed);
                    self.tally.power_commits.fetch_add(1, Ordering::Relaxed);
                    after_commit(Durability::Power);
                    return Ok(done);
                }
                Err(undone) => undone,
            };
            // A key that was free when it was looked for may have been taken by a transaction that this snapshot does
            // not show. Looked at once more, it is taken, and the request knows what to do about that; unless it was
            // given up and taken anew meanwhile.
            let overtaken = |cause: &Error| cause.is_transient() || (looks > 0 && cause.is_taken());
            match patience.pause().filter(|_| undone.cause.as_ref().is_some_and(overtaken)) {
                Some(pause) => std::thread::sleep(pause),
                None => return Err(undone.why.into_error()),
            }
            self.tally.again.fetch_add(1, Ordering::Relaxed);
            looks -= u32::from(undone.cause.as_ref().is_some_and(Error::is_taken));
        }
    }

    /// One transaction. What it answers before the commit is certain: nothing happened.
    fn attempt<T, E>(&self, f: &mut impl FnMut(&mut Tx<'_>) -> Result<T, E>) -> Result<T, Undone<E>> {
        let object = self.connect(Patience::Long)?;
        let session = Session::new(&object, &self.server);
        let open = session.begin(self.version)?;
        self.tally.transactions.fetch_add(1, Ordering::Relaxed);
        let mut tx = Tx::postgres(session);
        // Whatever the request made of it: the engine's error decides whether another try can help.
        let done = tx.attempt(f).map_err(|why| Undone { why, cause: tx.spoilt().cloned() })?;
        open.commit()?;
        Ok(done)
    }

    /// Runs `f` on one snapshot.
    pub(crate) fn read<T, E: From<Error>>(&self, f: impl FnOnce(&mut Tx<'_>) -> Result<T, E>) -> Result<T, E> {
        let object = self.connect(Patience::Long)?;
        let session = Session::new(&object, &self.server);
        // Sent with the first statement, not before it: reading waits for the server once less.
        let mut beginning = pin!(object.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"));
        let early = wait(beginning.as_mut(), Instant::now());
        let open = Open::read(session.clone());
        let answer = f(&mut Tx::postgres(session));
        let began = early.or_else(|| wait(beginning, Instant::now() + GRACE));
        drop(open);
        match began {
            // Without a transaction what was read is not one snapshot.
            Some(Err(error)) if answer.is_ok() => Err(fault(&self.server, error).into()),
            None if answer.is_ok() => Err(self.unreachable("it does not answer").into()),
            _ => answer,
        }
    }

    /// Takes a connection that works, or says why there is none.
    fn connect(&self, patience: Patience) -> Result<Object> {
        let deadline = Instant::now() + self.busy_timeout;
        let mut retry = Wait::at_most(self.busy_timeout);
        let mut before = None;
        loop {
            let error = match self.try_connect(deadline) {
                Some(Ok(object)) => return Ok(object),
                Some(Err(error)) => error,
                // What was answered says more than that time ran out.
                None => return Err(before.unwrap_or_else(|| self.no_answer())),
            };
            let is_transient = match &error {
                // All of the server's connections are taken, or it is just starting.
                Error::Busy { .. } => true,
                Error::Unreachable { .. } => patience == Patience::Long || answer::is_starting(&error),
                _ => false,
            };
            match retry.pause().filter(|_| is_transient) {
                Some(pause) => std::thread::sleep(pause.max(Duration::from_millis(5))),
                None => return Err(error),
            }
            before = Some(error);
        }
    }

    /// A connection, or an answer; nothing when the deadline passed first.
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

/// A transaction that was undone.
struct Undone<E> {
    /// What the caller is told.
    why: Undo<E>,
    /// What the engine said, if it said something.
    cause: Option<Error>,
}

impl<E> From<Error> for Undone<E> {
    fn from(error: Error) -> Self {
        Self { why: Undo::Engine(error.clone()), cause: Some(error) }
    }
}

/// How long to try to reach a server that does not answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Once: the address may be wrong, and whoever typed it wants to know.
    Short,
    /// As long as for a lock: it answered before.
    Long,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.pool.close();
        if let Some(runtime) = self.runtime.take() {
            // Dropping it would wait, which may not be done inside another runtime.
            runtime.shutdown_background();
        }
    }
}

/// The connections, none of them made yet. Each is set up as it is made.
fn pool(server: &Server, options: &OpenState) -> Result<Pool> {
    let mut config = tokio_postgres::Config::clone(&server.config);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.busy_timeout);
    }
    config.keepalives(true).keepalives_idle(SILENCE_MAX).tcp_user_timeout(SILENCE_MAX);
    let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, tls::connector(&server.trust)?, how);
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

/// What a connection is told before its first use.
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
