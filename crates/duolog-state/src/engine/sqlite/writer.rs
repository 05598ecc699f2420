//! The writing connection: group commit, its durability, and its checkpoints (R4).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use duolog_types::Durability;
use duolog_types::mutant::{self, Mutant};
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};

use super::connection::{self, Place, error};
use super::group::{Batch, Job, Lead, Members, Outcome, Queue, Turn};
use super::lock::{Held, StateLock};
use super::mover::{Mover, move_pages};
use crate::engine::{Tally, Tx, Undo, lock};
use crate::error::{Error, Result};

/// The requests of one group (I9).
const GROUP_MAX: usize = 256;
/// A leader waits for company for at most this part of what a commit takes, and never longer than that.
const PATIENCE_PART: u32 = 4;
const PATIENCE_MAX: Duration = Duration::from_millis(1);
/// The pages by which the write-ahead log grows before its pages are moved into the database. One that is written again
/// and again is moved once for all of that, so the more the cheaper; who opens it after a crash reads all of them.
pub(super) const CHECKPOINT_PAGES: u64 = 2000;
/// The pages from which on whoever writes moves them: while others go on writing, the log never begins anew.
const LOG_PAGES_MAX: u64 = 2 * CHECKPOINT_PAGES;

/// The pages from which on closing empties the log.
pub(super) const CLOSE_PAGES: u64 = 100;

/// The one connection that writes, and the line before it.
pub(super) struct Writer {
    queue: Queue,
    connection: Mutex<Tuned>,
    lock: StateLock,
    /// The schema version it was opened with.
    version: u32,
    /// The pages in the write-ahead log after the last commit.
    log_pages: Arc<AtomicU64>,
    tally: Arc<Tally>,
    /// Where a thread may move pages, in a process that lives long enough for one.
    aside: Option<Place>,
    mover: OnceLock<Option<Mover>>,
    /// Held by who moves pages: of two at once SQLite turns one away.
    moving: Arc<Mutex<()>>,
}

struct Tuned {
    connection: Connection,
    /// What `synchronous` is set to.
    synchronous: Durability,
    /// The pages that the log had when they were last moved.
    moved_pages: u64,
    /// How long the last commit took.
    commit_took: Duration,
}

/// Exclusive use of the writing connection, in this process and, by `state.lock`, among all.
pub(super) struct Alone<'w> {
    connection: MutexGuard<'w, Tuned>,
    _held: Held<'w>,
    _moving: MutexGuard<'w, ()>,
    // Last: the next caller may lead only once the connection and the lock are free.
    _lead: Lead<'w>,
}

impl Alone<'_> {
    pub(super) fn connection(&self) -> &Connection {
        &self.connection.connection
    }
}

/// The writing connection, lent to a reader while nobody writes. It comes back without a transaction.
pub(super) struct Lent<'w> {
    connection: MutexGuard<'w, Tuned>,
    _lead: Lead<'w>,
}

impl Lent<'_> {
    /// Begins a read transaction.
    pub(super) fn begin(&self) -> Result<Tx<'_>> {
        connection::begin_read(&self.connection.connection)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let connection = &self.connection.connection;
        if !connection.is_autocommit() {
            // Should even this fail, the next write rolls back before it begins.
            let _ = connection.execute_batch("ROLLBACK");
        }
    }
}

impl Writer {
    /// Lends the connection for a read, unless someone writes or waits to.
    pub(super) fn lend(&self) -> Option<Lent<'_>> {
        let lead = self.queue.try_lead()?;
        Some(Lent { connection: lock(&self.connection), _lead: lead })
    }

    /// Takes an opened connection, which syncs at every commit (`synchronous=FULL`).
    ///
    /// Pages are moved by a thread where `aside` says where, and otherwise by whoever writes.
    pub(super) fn new(
        mut connection: Connection,
        lock: StateLock,
        version: u32,
        tally: Arc<Tally>,
        aside: Option<Place>,
    ) -> Result<Self> {
        let log_pages = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&log_pages);
        // The hook takes the place of SQLite's own checkpoint inside COMMIT. It only notes: an error from here would
        // make a commit that happened look failed.
        let note = move |_: &mut Wal, pages| {
            seen.store(u64::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(note)).map_err(error)?;
        let connection = Mutex::new(Tuned {
            connection,
            synchronous: Durability::Power,
            moved_pages: 0,
            commit_took: Duration::ZERO,
        });
        let (mover, moving) = (OnceLock::new(), Arc::default());
        Ok(Self { queue: Queue::default(), connection, lock, version, log_pages, tally, aside, mover, moving })
    }

    /// Runs one request in a transaction, alone or with others, and returns once it is as durable as asked.
    pub(super) fn write<T, E>(
        &self,
        durability: Durability,
        deadline: Instant,
        after_commit: &dyn Fn(Durability),
        f: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        if let Some(lead) = self.queue.try_lead() {
            let mut result = None;
            let own = |tx: &mut Tx<'_>| result.insert(f(tx)).is_ok();
            let outcome = self.run(&lead, durability, deadline, after_commit, own);
            return settle(outcome, result);
        }
        let kept = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&kept);
        let job: Job = Box::new(move |tx| {
            let result = f(tx);
            let ok = result.is_ok();
            *lock(&slot) = Some(result);
            ok
        });
        let outcome = match self.queue.join(durability, Some(job), deadline) {
            Turn::Lead(lead, Some(job)) => self.run(&lead, durability, deadline, after_commit, job),
            Turn::Done(outcome) => outcome,
            Turn::Lead(_, None) | Turn::Late => {
                Outcome::Failed(Error::Busy { what: "the state", holder: self.holder_if_other() })
            }
        };
        let result = lock(&kept).take();
        settle(outcome, result)
    }

    /// Waits for the connection and `state.lock`, and takes both: for maintenance.
    pub(super) fn alone(&self, deadline: Instant) -> Result<Alone<'_>> {
        let lead = match self.queue.try_lead() {
            Some(lead) => lead,
            None => match self.queue.join(Durability::Process, None, deadline) {
                Turn::Lead(lead, _) => lead,
                Turn::Done(_) | Turn::Late => {
                    return Err(Error::Busy { what: "the state", holder: self.holder_if_other() });
                }
            },
        };
        let connection = lock(&self.connection);
        let moving = lock(&self.moving);
        let held = self.lock.acquire(deadline)?;
        Ok(Alone { connection, _held: held, _moving: moving, _lead: lead })
    }

    /// Asks the writing connection something that changes nothing; not for use inside a write.
    pub(super) fn ask<T>(&self, deadline: Instant, f: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let lead = match self.queue.try_lead() {
            Some(lead) => lead,
            None => match self.queue.join(Durability::Process, None, deadline) {
                Turn::Lead(lead, _) => lead,
                Turn::Done(_) | Turn::Late => return Err(Error::Busy { what: "the state", holder: None }),
            },
        };
        let answer = f(&lock(&self.connection).connection);
        drop(lead);
        answer
    }

    /// Who holds `state.lock`; a caller that waited in our own line may have waited for a thread of this process.
    fn holder_if_other(&self) -> Option<u32> {
        self.lock.holder().ok().flatten()
    }

    /// Runs one group: the leader's own request, and those it takes along.
    fn run(
        &self,
        lead: &Lead<'_>,
        durability: Durability,
        deadline: Instant,
        after_commit: &dyn Fn(Durability),
        own: impl FnOnce(&mut Tx<'_>) -> bool,
    ) -> Outcome {
        let mut members = Members::default();
        let (outcome, durability) = {
            let mut tuned = lock(&self.connection);
            let held = match self.lock.acquire(deadline) {
                Ok(held) => held,
                Err(error) => return Outcome::Failed(error),
            };
            let batch = lead.gather(GROUP_MAX - 1, (tuned.commit_took / PATIENCE_PART).min(PATIENCE_MAX));
            let durability = batch.strongest(durability);
            let outcome = self.transaction(&mut tuned, durability, own, batch, &mut members).unwrap_or_else(|error| {
                members.fail(&error);
                Outcome::Failed(error)
            });
            drop(held);
            // What was in force, not what was asked for: whoever watches commits is told what they are worth.
            (outcome, tuned.synchronous)
        };
        if matches!(outcome, Outcome::Committed) {
            after_commit(durability);
        }
        members.acknowledge();
        self.checkpoint_if_grown();
        outcome
    }

    /// One transaction. An error means that nothing of it was kept, or, as [`Error::Unknown`], that nobody can tell.
    fn transaction(
        &self,
        tuned: &mut Tuned,
        durability: Durability,
        own: impl FnOnce(&mut Tx<'_>) -> bool,
        mut batch: Batch<'_>,
        members: &mut Members,
    ) -> Result<Outcome> {
        let connection = &tuned.connection;
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK").map_err(error)?;
        }
        // Between transactions only: inside one the setting would be ignored.
        let wanted = if mutant::is(Mutant::NormalSync) { Durability::Process } else { durability };
        if tuned.synchronous != wanted {
            let level = if wanted == Durability::Power { "FULL" } else { "NORMAL" };
            connection::set(connection, "synchronous", level)?;
            tuned.synchronous = wanted;
        }
        let open = Open::begin(connection)?;
        let found: u32 = connection
            .prepare_cached("PRAGMA user_version")
            .and_then(|mut version| version.query_row([], |row| row.get(0)))
            .map_err(error)?;
        if found != self.version {
            return Err(Error::SchemaChanged { opened: self.version, found });
        }
        let mut tx = Tx::sqlite(connection);
        self.tally.transactions.fetch_add(1, Ordering::Relaxed);
        // The leader's own request needs no savepoint: when it fails nothing else has begun, and the others go back.
        match attempt(&mut tx, own) {
            Outcome::Committed => {}
            other => return Ok(other),
        }
        while let Some((ticket, job)) = batch.begin_next() {
            self.tally.transactions.fetch_add(1, Ordering::Relaxed);
            let savepoint = match tx.mark() {
                Ok(savepoint) => savepoint,
                Err(error) => {
                    members.push(ticket, Outcome::Failed(error.clone()));
                    return Err(error);
                }
            };
            let outcome = attempt(&mut tx, job);
            if tx.ended().is_none() {
                let committed = matches!(outcome, Outcome::Committed);
                let ended = if committed { tx.keep(savepoint) } else { tx.undo(savepoint) };
                if let Err(error) = ended {
                    members.push(ticket, Outcome::Failed(error.clone()));
                    return Err(error);
                }
            }
            members.push(ticket, outcome);
            // The engine rolled everything back. Those that ran before did nothing wrong, and did not happen.
            if let Some(error) = tx.ended() {
                return Err(error.clone());
            }
        }
        let begun = Instant::now();
        open.commit().map_err(|error| match error.sqlite_error_code() {
            // The page that makes the commit valid could not be written whole.
            Some(ErrorCode::DiskFull) => Error::Full { source: Arc::new(error) },
            _ => Error::Unknown { source: Arc::new(error) },
        })?;
        tuned.commit_took = begun.elapsed();
        self.tally.commits.fetch_add(1, Ordering::Relaxed);
        if durability == Durability::Power {
            self.tally.power_commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Outcome::Committed)
    }

    /// Has pages moved from the log to the database once it has grown, after everyone has been answered.
    fn checkpoint_if_grown(&self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        let mut tuned = lock(&self.connection);
        if pages < tuned.moved_pages {
            // The log began anew.
            tuned.moved_pages = 0;
        }
        if pages - tuned.moved_pages < CHECKPOINT_PAGES {
            return;
        }
        tuned.moved_pages = pages;
        if pages >= LOG_PAGES_MAX || !self.mover().is_some_and(Mover::ask) {
            let _turn = lock(&self.moving);
            move_pages(&tuned.connection, &self.tally);
        }
    }

    /// The thread that moves pages, from the first time on that there are enough.
    fn mover(&self) -> Option<&Mover> {
        let start = || Mover::start(self.aside.clone()?, Arc::clone(&self.moving), Arc::clone(&self.tally)).ok();
        self.mover.get_or_init(start).as_ref()
    }
}

/// Who opens a database that nobody has open reads its whole log again, so one that is not small is emptied on the way
/// out. Not at every close: of many short commands only one in several finds the log this long.
///
/// Emptied and not only moved: that its pages were moved is known to open connections alone, and the last one is going.
impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.mover.take());
        if self.log_pages.load(Ordering::Relaxed) < CLOSE_PAGES {
            return;
        }
        // Only if nobody is in the way, and whatever comes of it: the pages are in the log.
        if let Ok(_held) = self.lock.acquire(Instant::now()) {
            let tuned = lock(&self.connection);
            let _ = tuned.connection.busy_timeout(Duration::ZERO);
            let _ = tuned.connection.wal_checkpoint_v2(Some("main"), CheckpointMode::TRUNCATE);
        }
    }
}

/// A write transaction that was begun: undone when dropped, unless it was committed.
///
/// Its statements are prepared once, and not each time as the driver's own would be.
struct Open<'c>(&'c Connection);

impl<'c> Open<'c> {
    fn begin(connection: &'c Connection) -> Result<Self> {
        run(connection, "BEGIN IMMEDIATE").map_err(error)?;
        Ok(Self(connection))
    }

    fn commit(self) -> rusqlite::Result<()> {
        run(self.0, "COMMIT")
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // Should even this fail, the next write rolls back before it begins.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

fn run(connection: &Connection, command: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(command).and_then(|mut statement| statement.execute([])).map(drop)
}

/// Runs one request. It keeps its own result, and its own error.
fn attempt(tx: &mut Tx<'_>, f: impl FnOnce(&mut Tx<'_>) -> bool) -> Outcome {
    match tx.attempt(|tx| if f(tx) { Ok(()) } else { Err(()) }) {
        Ok(()) => Outcome::Committed,
        Err(Undo::Caller(())) => Outcome::Refused,
        Err(Undo::Engine(error)) => Outcome::Failed(error),
    }
}

fn settle<T, E: From<Error>>(outcome: Outcome, result: Option<Result<T, E>>) -> Result<T, E> {
    match (outcome, result) {
        (Outcome::Failed(error), _) => Err(error.into()),
        (_, Some(result)) => result,
        (_, None) => Err(Error::Panicked { message: "the request left no result".to_owned() }.into()),
    }
}
