//! Marks: rows that name the sessions with log bytes that are not folded yet (R6).
//!
//! This process sets its mark before the first append of a burst. The mark stays until a fold has reached the end and
//! no append ran meanwhile, also while the log is closed to make room for another. Only its owner deletes it; the marks
//! of a dead owner are deleted by the next fold.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duolog_state::Tx;
use duolog_state::owned::behind::{self, BehindRow};
use duolog_state::owned::outbox::OutboxKey;
use duolog_state::owned::sessions;
use duolog_types::limits::MARKS_MAX;
use duolog_types::{Durability, Epoch, Position, ProcessId, SessionId};
use parking_lot::{Mutex, MutexGuard};

use crate::error::Result;
use crate::open_log::OpenLog;
use crate::store::{Join, known};

/// This process's marks, by session.
#[derive(Default)]
pub(crate) struct Marks {
    by_session: Mutex<HashMap<SessionId, Arc<Mark>>>,
    generations: AtomicU64,
}

/// This process's mark on one session.
pub(crate) struct Mark {
    session: SessionId,
    burst: Mutex<Burst>,
    /// The lines about rows that this process wrote to the log and whose outbox rows wait for a sync.
    copied: Mutex<Vec<CopiedLine>>,
}

/// The appends under one mark.
#[derive(Clone, Copy, Default)]
struct Burst {
    /// The row exists.
    set: bool,
    generation: u64,
    in_flight: u32,
    /// The number of starts and ends of appends: if unchanged, nothing was appended since.
    changes: u64,
}

/// A line about a row that was written to a log.
#[derive(Clone)]
pub(crate) struct CopiedLine {
    pub(crate) epoch: Epoch,
    /// The end of the log after it.
    pub(crate) end: Position,
    pub(crate) key: OutboxKey,
}

/// A running append. The mark stays while there is one.
pub(crate) struct Flight<'o>(&'o Mark);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut burst = self.0.burst.lock();
        burst.in_flight -= 1;
        burst.changes += 1;
    }
}

/// A mark of this process, read by a fold before it examined the log.
#[derive(Clone)]
pub(crate) struct SeenMark {
    pub(crate) mark: Arc<Mark>,
    changes: u64,
}

/// A mark whose row is about to be deleted.
pub(crate) struct LiftedMark {
    pub(crate) mark: Arc<Mark>,
    pub(crate) generation: u64,
}

impl Mark {
    pub(crate) fn is_set(&self) -> bool {
        self.burst.lock().set
    }

    pub(crate) fn note_set(&self, generation: u64) {
        let mut burst = self.burst.lock();
        burst.set = true;
        burst.generation = burst.generation.max(generation);
    }

    /// Records that the row is gone: the session was deleted and created again.
    pub(crate) fn note_gone(&self) {
        self.burst.lock().set = false;
    }

    /// Returns the lines about rows that were written to the log and whose outbox rows still exist.
    pub(crate) fn copied(&self) -> MutexGuard<'_, Vec<CopiedLine>> {
        self.copied.lock()
    }

    /// Removes and returns the lines that a sync up to `synced` covers, and drops those of an older epoch.
    pub(crate) fn take_copied(&self, epoch: Epoch, synced: Position) -> Vec<CopiedLine> {
        let mut copied = self.copied();
        copied.retain(|line| line.epoch >= epoch);
        copied.extract_if(.., |line| line.epoch == epoch && line.end <= synced).collect()
    }
}

impl SeenMark {
    /// Lifts the mark if nothing was appended since it was read. The caller deletes its row. A later append sets a mark
    /// of a later generation, which that does not delete.
    pub(crate) fn lift(&self) -> Option<LiftedMark> {
        let mut burst = self.mark.burst.lock();
        if !burst.set || burst.in_flight > 0 || burst.changes != self.changes {
            return None;
        }
        burst.set = false;
        Some(LiftedMark { mark: Arc::clone(&self.mark), generation: burst.generation })
    }
}

impl LiftedMark {
    /// Sets the mark again: its row was certainly not deleted.
    pub(crate) fn put_back(&self) {
        let mut burst = self.mark.burst.lock();
        // An append that ran meanwhile has set a later one.
        if burst.generation == self.generation {
            burst.set = true;
        }
    }
}

impl Marks {
    fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Returns the mark on a session, set or not.
    pub(crate) fn of(&self, session: &SessionId) -> Arc<Mark> {
        let mut marks = self.by_session.lock();
        if let Some(mark) = marks.get(session) {
            return Arc::clone(mark);
        }
        let mark = Arc::new(Mark { session: session.clone(), burst: Mutex::default(), copied: Mutex::default() });
        marks.insert(session.clone(), Arc::clone(&mark));
        mark
    }

    /// Returns the current mark on a session, if it is set: for a fold, before it examines the log.
    pub(crate) fn seen(&self, session: &SessionId) -> Option<SeenMark> {
        let mark = Arc::clone(self.by_session.lock().get(session)?);
        let burst = *mark.burst.lock();
        burst.set.then_some(SeenMark { mark, changes: burst.changes })
    }

    /// Returns the sessions with a set mark.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let set = |(session, mark): (&SessionId, &Arc<Mark>)| mark.is_set().then(|| session.clone());
        let mut sessions: Vec<SessionId> = self.by_session.lock().iter().filter_map(set).collect();
        sessions.sort_unstable();
        sessions
    }

    /// Removes a mark that is not set and not in use.
    pub(crate) fn forget_unused(&self, session: &SessionId) {
        let mut marks = self.by_session.lock();
        let is_unused = |mark: &Arc<Mark>| Arc::strong_count(mark) == 1 && !mark.is_set() && mark.copied().is_empty();
        if marks.get(session).is_some_and(is_unused) {
            marks.remove(session);
        }
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.by_session.lock().len() > MARKS_MAX
    }
}

impl Join {
    /// Announces an append: the session is marked and stays marked until the append is done.
    pub(crate) fn enter<'o>(&self, open: &'o OpenLog) -> Result<Flight<'o>> {
        let mut burst = open.mark.burst.lock();
        burst.in_flight += 1;
        burst.changes += 1;
        let flight = Flight(&open.mark);
        let set = burst.set;
        drop(burst);
        if !set {
            let row = self.new_mark(&open.session);
            let generation = row.generation;
            let session = open.session.clone();
            self.write(Durability::Process, move |tx| {
                // A session that is deleted now has no log to mark.
                known(tx, &session)?;
                Ok(set_mark(tx, &row)?)
            })
            .map_err(|error| error.of_session(&open.session))?;
            open.mark.note_set(generation);
        }
        Ok(flight)
    }

    /// Gives up the marks of this process to the next fold, except those of running appends.
    pub(crate) fn hand_over(&self) -> Result<()> {
        let (process, home) = (self.process.id(), self.home);
        let (mut left, mut running) = (Vec::new(), Vec::new());
        let marks: Vec<Arc<Mark>> = self.marks.by_session.lock().values().cloned().collect();
        // Marks that are set from here on have a later generation and stay.
        let up_to = self.marks.generations.load(Ordering::SeqCst);
        for mark in marks {
            let mut burst = mark.burst.lock();
            if burst.set && burst.in_flight > 0 {
                running.push(self.mark_of(&mark.session, burst.generation));
            } else if burst.set && burst.generation <= up_to {
                burst.set = false;
                left.push(LiftedMark { mark: Arc::clone(&mark), generation: burst.generation });
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let handed_over = self.write(Durability::Process, move |tx| {
            behind::hand_over(tx, &process, up_to)?;
            for row in &running {
                // Its session may be deleted, and with it the log.
                if sessions::find(tx, &row.session_id)?.is_some_and(|row| row.home_id == home) {
                    behind::mark(tx, row)?;
                }
            }
            Ok(())
        });
        if handed_over.as_ref().is_err_and(|error| !error.is_unknown()) {
            left.iter().for_each(LiftedMark::put_back);
        }
        for lifted in left {
            let session = lifted.mark.session.clone();
            drop(lifted);
            self.marks.forget_unused(&session);
        }
        handed_over
    }

    /// Returns a mark of the next generation.
    pub(crate) fn new_mark(&self, session: &SessionId) -> BehindRow {
        self.mark_of(session, self.marks.next_generation())
    }

    /// Returns the row of a lifted mark.
    pub(crate) fn lifted_row(&self, session: &SessionId, lifted: &LiftedMark) -> BehindRow {
        self.mark_of(session, lifted.generation)
    }

    fn mark_of(&self, session: &SessionId, generation: u64) -> BehindRow {
        BehindRow {
            session_id: session.clone(),
            process_id: self.process.id(),
            home_id: self.home,
            generation,
            pid: std::process::id(),
            marked_at: self.clock.now(),
        }
    }
}

/// Sets a mark and updates the session's timestamp.
pub(crate) fn set_mark(tx: &mut Tx<'_>, mark: &BehindRow) -> std::result::Result<(), duolog_state::Error> {
    behind::mark(tx, mark)?;
    sessions::touch(tx, &mark.session_id, mark.marked_at)
}

/// Returns true if the mark has no owner, so that any fold may delete it.
pub(crate) fn has_no_owner(mark: &BehindRow) -> bool {
    mark.process_id == ProcessId::NOBODY
}
