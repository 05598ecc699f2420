//! The writing connection: group commit, durability, checkpoints (R4).

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

use super::checkpointer::{Checkpointer, checkpoint_passively};
use super::connection::{self, Place, error, is_failed_sync};
use super::group::{Batch, Job, Lead, Members, Queue, RequestOutcome, Turn};
use super::lock::{Doubt, Held, StateLock};
use super::resync;
use crate::engine::{Tally, Tx};
use crate::error::{Error, Result};

pub(super) use transaction::{Open, roll_back};

/// The maximum number of requests in a group (I9).
const GROUP_MAX: usize = 256;
/// A leader waits for the last group at most this fraction of a commit's duration, and at most `PATIENCE_MAX`.
const PATIENCE_PART: u32 = 4;
const PATIENCE_MAX: Duration = Duration::from_millis(1);
/// The growth of the write-ahead log, in pages, that starts a checkpoint. A page that is written many times is
/// checkpointed once, so a larger number is cheaper; but the first open after a crash reads all of them.
pub(super) const CHECKPOINT_PAGES: u64 = 2000;
/// The size of the log, in pages, at which the writer runs the checkpoint itself: as long as others write, the log is
/// never reset.
const LOG_PAGES_MAX: u64 = 2 * CHECKPOINT_PAGES;

/// The size of the log, in pages, at which closing truncates it.
pub(super) const CLOSE_PAGES: u64 = 100;

/// The writing connection and its queue.
pub(super) struct Writer {
    queue: Queue,
    connection: Mutex<WriterConnection>,
    lock: Arc<StateLock>,
    /// The write-ahead log.
    log: PathBuf,
    /// The schema version when it was opened.
    version: u32,
    /// The number of pages in the write-ahead log after the last commit.
    log_pages: Arc<AtomicU64>,
    tally: Arc<Tally>,
    /// The database for the checkpointer thread. `None` in a process that is too short-lived for one.
    checkpointer_place: Option<Place>,
    checkpointer: OnceLock<Option<Checkpointer>>,
    /// Held during a checkpoint: SQLite refuses the second of two at once.
    checkpointing: Arc<Mutex<()>>,
}

struct WriterConnection {
    connection: Connection,
    /// The current value of `synchronous`.
    synchronous: Durability,
    /// The size of the log, in pages, at the last checkpoint.
    checkpointed_pages: u64,
    /// The duration of the last commit.
    commit_took: Duration,
}

/// Exclusive use of the writing connection, in this process and, through `state.lock`, among all processes.
pub(super) struct Exclusive<'w> {
    connection: MutexGuard<'w, WriterConnection>,
    held: Held<'w>,
    _checkpointing: MutexGuard<'w, ()>,
    // Last field: the next caller may lead only when the connection and the lock are free.
    _lead: Lead<'w>,
}

impl Exclusive<'_> {
    /// Runs `f` on the connection and records a failed sync.
    pub(super) fn run<T>(&self, f: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        f(&self.connection.connection).inspect_err(|error| {
            if is_failed_sync(error) {
                self.held.mark(Doubt::ALL);
            }
        })
    }
}

/// The writing connection, used for a read while no writer needs it. Dropping it ends the transaction.
pub(super) struct BorrowedWriter<'w> {
    connection: MutexGuard<'w, WriterConnection>,
    _lead: Lead<'w>,
}

impl BorrowedWriter<'_> {
    /// Begins a read transaction.
    pub(super) fn begin(&self) -> Result<Tx<'_>> {
        connection::begin_read(&self.connection.connection)
    }
}

impl Drop for BorrowedWriter<'_> {
    fn drop(&mut self) {
        let connection = &self.connection.connection;
        if !connection.is_autocommit() {
            // If this fails, the next write rolls back before it begins.
            let _ = connection.execute_batch("ROLLBACK");
        }
    }
}

impl Writer {
    /// Borrows the connection for a read. `None` if a caller is writing or waiting to write.
    pub(super) fn borrow_idle(&self) -> Option<BorrowedWriter<'_>> {
        let lead = self.queue.try_lead()?;
        Some(BorrowedWriter { connection: self.connection.lock(), _lead: lead })
    }

    /// Takes over an open connection with `synchronous=FULL`.
    ///
    /// A thread runs the checkpoints if `checkpointer_place` is given; otherwise the writer does.
    pub(super) fn new(
        mut connection: Connection,
        lock: StateLock,
        place: &Place,
        version: u32,
        tally: Arc<Tally>,
        checkpointer_place: Option<Place>,
    ) -> Result<Self> {
        let log_pages = Arc::new(AtomicU64::new(0));
        let pages_seen = Arc::clone(&log_pages);
        // The hook replaces SQLite's own checkpoint inside COMMIT. It only stores the number: an error from it would
        // make a successful commit look failed.
        let note = move |_: &mut Wal, pages| {
            pages_seen.store(u64::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(note)).map_err(error)?;
        let connection = Mutex::new(WriterConnection {
            connection,
            synchronous: Durability::Power,
            checkpointed_pages: 0,
            commit_took: Duration::ZERO,
        });
        let (checkpointer, checkpointing) = (OnceLock::new(), Arc::default());
        let (lock, log) = (Arc::new(lock), place.beside("-wal"));
        Ok(Self {
            queue: Queue::default(),
            connection,
            lock,
            log,
            version,
            log_pages,
            tally,
            checkpointer_place,
            checkpointer,
            checkpointing,
        })
    }

    /// Runs a request in a transaction, alone or in a group, and returns when the commit has the requested durability.
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
            return into_result(outcome, result);
        }
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
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
        let result = result.lock().take();
        into_result(outcome, result)
    }

    /// Waits for the connection and `state.lock` and takes both, for maintenance. Files in doubt after a failed sync
    /// are synced first.
    pub(super) fn exclusive(&self, deadline: Instant) -> Result<Exclusive<'_>> {
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
        let checkpointing = self.checkpointing.lock();
        let held = self.lock.acquire(deadline)?;
        resync::settle(&connection.connection, &self.log, &held)?;
        Ok(Exclusive { connection, held, _checkpointing: checkpointing, _lead: lead })
    }

    /// Runs a read-only function on the writing connection. Must not be called inside a write.
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

    /// Returns the holder of `state.lock`. A caller that waited in the queue may have waited for a thread of this
    /// process.
    fn holder_if_other(&self) -> Option<u32> {
        self.lock.holder().ok().flatten()
    }

    /// Runs one group: the leader's request and those that it takes from the queue.
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
            let mut writer = self.connection.lock();
            let held = match self.lock.acquire(deadline) {
                Ok(held) => held,
                Err(error) => return RequestOutcome::Failed(error),
            };
            let batch = match self.gather(lead, &writer, durability, &held) {
                Ok(batch) => batch,
                Err(error) => return RequestOutcome::Failed(error),
            };
            let durability = batch.strongest(durability);
            let answer = self.transaction(&mut writer, durability, &held, own, batch, &mut members);
            let outcome = answer.unwrap_or_else(|error| {
                members.fail(&error);
                RequestOutcome::Failed(error)
            });
            drop(held);
            // The durability in force, not the requested one: the hook gets what the commit really has.
            (outcome, writer.synchronous)
        };
        if matches!(outcome, RequestOutcome::Committed) {
            after_commit(durability);
        }
        members.acknowledge();
        self.checkpoint_if_grown();
        outcome
    }

    /// Takes the requests that join the leader's transaction.
    ///
    /// After a failed sync, a leader with `Power` syncs the log first, or returns the error. A leader with `Process`
    /// runs alone: the others may need `Power` and sync the log themselves.
    fn gather<'q>(
        &self,
        lead: &Lead<'q>,
        writer: &WriterConnection,
        durability: Durability,
        held: &Held<'_>,
    ) -> Result<Batch<'q>> {
        let patience = (writer.commit_took / PATIENCE_PART).min(PATIENCE_MAX);
        if held.is_in_doubt() && held.doubt().has(Doubt::LOG) {
            if durability == Durability::Process {
                return Ok(lead.gather(0, Duration::ZERO));
            }
            let _turn = self.checkpointing.lock();
            resync::settle_log(&writer.connection, &self.log, held)?;
        }
        Ok(lead.gather(GROUP_MAX - 1, patience))
    }

    /// Starts a checkpoint if the log has grown enough. Called after all callers have been answered.
    fn checkpoint_if_grown(&self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        let mut writer = self.connection.lock();
        if pages < writer.checkpointed_pages {
            // The log was reset.
            writer.checkpointed_pages = 0;
        }
        if pages - writer.checkpointed_pages < CHECKPOINT_PAGES {
            return;
        }
        writer.checkpointed_pages = pages;
        if pages >= LOG_PAGES_MAX || !self.checkpointer().is_some_and(Checkpointer::ask) {
            let _turn = self.checkpointing.lock();
            if self.lock.doubt().has(Doubt::ALL)
                && let Ok(held) = self.lock.acquire(Instant::now())
            {
                // If the doubt remains, the checkpoint does nothing.
                let _ = resync::settle(&writer.connection, &self.log, &held);
            }
            checkpoint_passively(&writer.connection, &self.lock, &self.tally);
        }
    }

    /// Returns the checkpointer thread; the first call starts it.
    fn checkpointer(&self) -> Option<&Checkpointer> {
        let start = || {
            let (state_lock, checkpointing) = (Arc::clone(&self.lock), Arc::clone(&self.checkpointing));
            Checkpointer::start(self.checkpointer_place.clone()?, state_lock, checkpointing, Arc::clone(&self.tally))
                .ok()
        };
        self.checkpointer.get_or_init(start).as_ref()
    }
}

/// Truncates a log that is not small. The first process that opens a closed database reads its whole log. Of many short
/// commands only a few find the log this long, so most of them close without a checkpoint.
///
/// The log is truncated and not only checkpointed: how far it was checkpointed is in shared memory, which ends with the
/// last connection.
impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.checkpointer.take());
        if self.log_pages.load(Ordering::Relaxed) < CLOSE_PAGES {
            return;
        }
        // Only if the lock is free. A failure loses nothing: the pages are in the log.
        if let Ok(held) = self.lock.acquire(Instant::now()) {
            let writer = self.connection.lock();
            let _ = writer.connection.busy_timeout(Duration::ZERO);
            if resync::settle(&writer.connection, &self.log, &held).is_ok()
                && let Err(error) = writer.connection.wal_checkpoint_v2(Some("main"), CheckpointMode::TRUNCATE)
                && is_failed_sync(&error)
            {
                held.mark(Doubt::ALL);
            }
        }
    }
}

fn into_result<T, E: From<Error>>(outcome: RequestOutcome, result: Option<Result<T, E>>) -> Result<T, E> {
    match (outcome, result) {
        (RequestOutcome::Failed(error), _) => Err(error.into()),
        (_, Some(result)) => result,
        (_, None) => Err(Error::Panicked { message: "the request returned no result".to_owned() }.into()),
    }
}
