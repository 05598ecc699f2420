//! Who leads, who follows: the line of callers that want to write (R4).
//!
//! The first caller leads and runs on its own thread, unboxed. Those who come while it works wait with their request in
//! a box; when it is done the first of them leads, and takes the others along in its transaction. A request is in one
//! hand at any time (waiting, begun, done, withdrawn), so it never runs twice.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duolog_types::Durability;
use parking_lot::{Condvar, Mutex};

use crate::engine::Tx;
use crate::error::Error;

/// A request: it keeps its own result and says whether what it did should stay.
pub(super) type Job = Box<dyn FnOnce(&mut Tx<'_>) -> bool + Send>;

/// How a request ended.
#[derive(Clone, Debug)]
pub(super) enum RequestOutcome {
    /// It is in a transaction that committed.
    Committed,
    /// Its own error undid it.
    Refused,
    /// Something else undid it, or left its end unknown.
    Failed(Error),
}

/// What a caller that joined the line got.
pub(super) enum Turn<'q> {
    /// It leads, and has its request back.
    Lead(Lead<'q>, Option<Job>),
    /// A leader ran its request.
    Done(RequestOutcome),
    /// Its deadline passed before anyone began, and its request is withdrawn.
    Late,
}

/// The line of callers.
#[derive(Default)]
pub(super) struct Queue(Mutex<Line>);

#[derive(Default)]
struct Line {
    led: bool,
    waiting: VecDeque<Arc<Ticket>>,
    /// How many the last group took along: they have been answered, and those who write on are on their way here.
    company: usize,
}

/// One waiting caller.
pub(super) struct Ticket {
    pub(super) durability: Durability,
    /// It brings no request and waits only to lead: maintenance.
    alone: bool,
    stage: Mutex<Stage>,
    moved: Condvar,
}

enum Stage {
    Waiting(Option<Job>),
    Lead(Option<Job>),
    Begun,
    Done(RequestOutcome),
    Withdrawn,
}

impl Queue {
    /// Leads at once if nobody does.
    pub(super) fn try_lead(&self) -> Option<Lead<'_>> {
        let mut line = self.0.lock();
        // Lazily: a lead that is made and dropped hands itself over.
        (!mem::replace(&mut line.led, true)).then(|| Lead { queue: self })
    }

    /// Joins the line and waits for a turn. Without a job it waits to lead.
    ///
    /// Once begun a request is waited for, however long: its end is not unknown merely because it is late.
    pub(super) fn join(&self, durability: Durability, job: Option<Job>, deadline: Instant) -> Turn<'_> {
        let ticket = {
            let mut line = self.0.lock();
            if !mem::replace(&mut line.led, true) {
                return Turn::Lead(Lead { queue: self }, job);
            }
            let alone = job.is_none();
            let stage = Mutex::new(Stage::Waiting(job));
            let ticket = Arc::new(Ticket { durability, alone, stage, moved: Condvar::new() });
            line.waiting.push_back(Arc::clone(&ticket));
            ticket
        };
        let mut stage = ticket.stage.lock();
        loop {
            match mem::replace(&mut *stage, Stage::Withdrawn) {
                Stage::Lead(job) => return Turn::Lead(Lead { queue: self }, job),
                Stage::Done(outcome) => return Turn::Done(outcome),
                Stage::Begun => {
                    *stage = Stage::Begun;
                    ticket.moved.wait(&mut stage);
                }
                Stage::Waiting(job) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    *stage = Stage::Waiting(job);
                    ticket.moved.wait_for(&mut stage, left);
                }
                Stage::Withdrawn => break,
            }
        }
        // The line is always locked before a ticket, never after it.
        drop(stage);
        self.0.lock().waiting.retain(|other| !Arc::ptr_eq(other, &ticket));
        Turn::Late
    }
}

/// The right to use the writing connection. Dropping it hands it to the first in the line.
pub(super) struct Lead<'q> {
    queue: &'q Queue,
}

impl<'q> Lead<'q> {
    /// Takes up to `max` waiting requests along, in order, up to the first caller that must lead by itself.
    ///
    /// Whoever was in the last group comes back a moment after its sync. Without waiting for them, callers fall into two
    /// groups that take turns, each with a sync of its own; so a leader waits, for at most `patience`, until the line is
    /// as long as it was. One who writes alone waits for nobody.
    pub(super) fn gather(&self, max: usize, patience: Duration) -> Batch<'q> {
        let mut line = self.queue.0.lock();
        let until = (line.waiting.len() < line.company).then(|| Instant::now() + patience);
        while line.waiting.len() < line.company && until.is_some_and(|until| Instant::now() < until) {
            drop(line);
            std::thread::yield_now();
            line = self.queue.0.lock();
        }
        line.company = line.waiting.len();
        let many = line.waiting.iter().take(max).take_while(|ticket| !ticket.alone).count();
        Batch { queue: self.queue, tickets: line.waiting.drain(..many).collect() }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut line = self.queue.0.lock();
        while let Some(ticket) = line.waiting.pop_front() {
            let mut stage = ticket.stage.lock();
            if let Stage::Waiting(job) = &mut *stage {
                *stage = Stage::Lead(job.take());
                ticket.moved.notify_one();
                return;
            }
        }
        line.led = false;
    }
}

/// Requests that were gathered and not begun. Those left when it is dropped go back to the head of the line.
pub(super) struct Batch<'q> {
    queue: &'q Queue,
    tickets: VecDeque<Arc<Ticket>>,
}

impl Batch<'_> {
    /// The strongest durability among the members and `own`: one member that asks for power makes the group sync.
    pub(super) fn strongest(&self, own: Durability) -> Durability {
        self.tickets.iter().map(|ticket| ticket.durability).fold(own, Ord::max)
    }

    /// The next request that has not been withdrawn; from here on its caller waits for the end.
    pub(super) fn begin_next(&mut self) -> Option<(Arc<Ticket>, Job)> {
        while let Some(ticket) = self.tickets.pop_front() {
            let mut stage = ticket.stage.lock();
            if let Stage::Waiting(job) = &mut *stage
                && let Some(job) = job.take()
            {
                *stage = Stage::Begun;
                drop(stage);
                return Some((ticket, job));
            }
        }
        None
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let mut line = self.queue.0.lock();
        while let Some(ticket) = self.tickets.pop_back() {
            line.waiting.push_front(ticket);
        }
    }
}

/// Members that were run and whose callers wait. None is forgotten: those left over learn that their end is unknown.
#[derive(Default)]
pub(super) struct Members(Vec<(Arc<Ticket>, RequestOutcome)>);

impl Members {
    pub(super) fn push(&mut self, ticket: Arc<Ticket>, outcome: RequestOutcome) {
        self.0.push((ticket, outcome));
    }

    /// Turns every member that would have been committed into this failure.
    pub(super) fn fail(&mut self, error: &Error) {
        for (_, outcome) in &mut self.0 {
            if matches!(outcome, RequestOutcome::Committed) {
                *outcome = RequestOutcome::Failed(error.clone());
            }
        }
    }

    /// Wakes every caller with its outcome.
    pub(super) fn acknowledge(&mut self) {
        for (ticket, outcome) in self.0.drain(..) {
            *ticket.stage.lock() = Stage::Done(outcome);
            ticket.moved.notify_one();
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let source = std::io::Error::other("the leader of the group panicked");
        self.fail(&Error::Unknown { source: Arc::new(source) });
        self.acknowledge();
    }
}
