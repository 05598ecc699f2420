//! The writing connection: group commit, its durability, and its checkpoints (R4).

mod transaction;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use duolog_types::Durability;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;

use super::checkpointer::{Checkpointer, move_pages};
use super::connection::{self, Place, error, is_failed_sync};
use super::group::{Batch, Job, Lead, Members, Queue, RequestOutcome, Turn};
use super::lock::{Doubt, Held, StateLock};
use super::resync;
use crate::engine::{Tally, Tx};
use crate::error::{Error, Result};

pub(super) use transaction::{Open, roll_back};

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
    lock: Arc<StateLock>,
    /// The write-ahead log.
    log: PathBuf,
    /// The schema version it was opened with.
    version: u32,
    /// The pages in the write-ahead log after the last commit.
    log_pages: Arc<AtomicU64>,
    tally: Arc<Tally>,
    /// Where a thread may move pages, in a process that lives long enough for one.
    aside: Option<Place>,
    checkpointer: OnceLock<Option<Checkpointer>>,
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
    held: Held<'w>,
    _moving: MutexGuard<'w, ()>,
    // Last: the next caller may lead only once the connection and the lock are free.
    _lead: Lead<'w>,
}

impl Alone<'_> {
    /// Runs `f` on the connection, and records a failed sync.
    pub(super) fn run<T>(&self, f: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        f(&self.connection.connection).inspect_err(|error| {
            if is_failed_sync(error) {
                self.held.mark(Doubt::ALL);
            }
        })
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
        Some(Lent { connection: self.connection.lock(), _lead: lead })
    }

    /// Takes an opened connection, which syncs at every commit (`synchronous=FULL`).
    ///
    /// Pages are moved by a thread where `aside` says where, and otherwise by whoever writes.
    pub(super) fn new(
        mut connection: Connection,
        lock: StateLock,
        place: &Place,
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
        let (checkpointer, moving) = (OnceLock::new(), Arc::default());
        let (lock, log) = (Arc::new(lock), place.beside("-wal"));
        Ok(Self {
            queue: Queue::default(),
            connection,
            lock,
            log,
            version,
            log_pages,
            tally,
            aside,
            checkpointer,
            moving,
        })
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
            *slot.lock() = Some(result);
            ok
        });
        let outcome = match self.queue.join(durability, Some(job), deadline) {
            Turn::Lead(lead, Some(job)) => self.run(&lead, durability, deadline, after_commit, job),
            Turn::Done(outcome) => outcome,
            Turn::Lead(_, None) | Turn::Late => {
                RequestOutcome::Failed(Error::Busy { what: "the state", holder: self.holder_if_other() })
            }
        };
        let result = kept.lock().take();
        settle(outcome, result)
    }

    /// Waits for the connection and `state.lock`, and takes both: for maintenance. What a failed sync left in doubt is
    /// made sure of first.
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
        let connection = self.connection.lock();
        let moving = self.moving.lock();
        let held = self.lock.acquire(deadline)?;
        resync::settle(&connection.connection, &self.log, &held)?;
        Ok(Alone { connection, held, _moving: moving, _lead: lead })
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
        let answer = f(&self.connection.lock().connection);
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
    ) -> RequestOutcome {
        let mut members = Members::default();
        let (outcome, durability) = {
            let mut tuned = self.connection.lock();
            let held = match self.lock.acquire(deadline) {
                Ok(held) => held,
                Err(error) => return RequestOutcome::Failed(error),
            };
            let batch = match self.gather(lead, &tuned, durability, &held) {
                Ok(batch) => batch,
                Err(error) => return RequestOutcome::Failed(error),
            };
            let durability = batch.strongest(durability);
            let answer = self.transaction(&mut tuned, durability, &held, own, batch, &mut members);
            let outcome = answer.unwrap_or_else(|error| {
                members.fail(&error);
                RequestOutcome::Failed(error)
            });
            drop(held);
            // What was in force, not what was asked for: whoever watches commits is told what they are worth.
            (outcome, tuned.synchronous)
        };
        if matches!(outcome, RequestOutcome::Committed) {
            after_commit(durability);
        }
        members.acknowledge();
        self.checkpoint_if_grown();
        outcome
    }

    /// Chooses who comes along in the leader's transaction.
    ///
    /// After a failed sync a leader that asks for power makes the log durable first, or is refused. One that does not
    /// goes alone: others may ask for power, and find out for themselves.
    fn gather<'q>(&self, lead: &Lead<'q>, tuned: &Tuned, durability: Durability, held: &Held<'_>) -> Result<Batch<'q>> {
        let patience = (tuned.commit_took / PATIENCE_PART).min(PATIENCE_MAX);
        if held.is_in_doubt() && held.doubt().has(Doubt::LOG) {
            if durability == Durability::Process {
                return Ok(lead.gather(0, Duration::ZERO));
            }
            let _turn = self.moving.lock();
            resync::settle_log(&tuned.connection, &self.log, held)?;
        }
        Ok(lead.gather(GROUP_MAX - 1, patience))
    }

    /// Has pages moved from the log to the database once it has grown, after everyone has been answered.
    fn checkpoint_if_grown(&self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        let mut tuned = self.connection.lock();
        if pages < tuned.moved_pages {
            // The log began anew.
            tuned.moved_pages = 0;
        }
        if pages - tuned.moved_pages < CHECKPOINT_PAGES {
            return;
        }
        tuned.moved_pages = pages;
        if pages >= LOG_PAGES_MAX || !self.checkpointer().is_some_and(Checkpointer::ask) {
            let _turn = self.moving.lock();
            if self.lock.doubt().has(Doubt::ALL)
                && let Ok(held) = self.lock.acquire(Instant::now())
            {
                // If it stays in doubt, nothing is moved.
                let _ = resync::settle(&tuned.connection, &self.log, &held);
            }
            move_pages(&tuned.connection, &self.lock, &self.tally);
        }
    }

    /// The thread that moves pages, from the first time on that there are enough.
    fn checkpointer(&self) -> Option<&Checkpointer> {
        let start = || {
            let (state_lock, moving) = (Arc::clone(&self.lock), Arc::clone(&self.moving));
            Checkpointer::start(self.aside.clone()?, state_lock, moving, Arc::clone(&self.tally)).ok()
        };
        self.checkpointer.get_or_init(start).as_ref()
    }
}

/// Who opens a database that nobody has open reads its whole log again, so one that is not small is emptied on the way
/// out. Not at every close: of many short commands only one in several finds the log this long.
///
/// Emptied and not only moved: that its pages were moved is known to open connections alone, and the last one is going.
impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.checkpointer.take());
        if self.log_pages.load(Ordering::Relaxed) < CLOSE_PAGES {
            return;
        }
        // Only if nobody is in the way, and whatever comes of it: the pages are in the log.
        if let Ok(held) = self.lock.acquire(Instant::now()) {
            let tuned = self.connection.lock();
            let _ = tuned.connection.busy_timeout(Duration::ZERO);
            if resync::settle(&tuned.connection, &self.log, &held).is_ok()
                && let Err(error) = tuned.connection.wal_checkpoint_v2(Some("main"), CheckpointMode::TRUNCATE)
                && is_failed_sync(&error)
            {
                held.mark(Doubt::ALL);
            }
        }
    }
}

fn settle<T, E: From<Error>>(outcome: RequestOutcome, result: Option<Result<T, E>>) -> Result<T, E> {
    match (outcome, result) {
        (RequestOutcome::Failed(error), _) => Err(error.into()),
        (_, Some(result)) => result,
        (_, None) => Err(Error::Panicked { message: "the request left no result".to_owned() }.into()),
    }
}
