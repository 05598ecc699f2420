//! The queue of callers that want to write (R4).
//!
//! The first caller leads: it runs its request on its own thread, unboxed. Callers that arrive meanwhile wait with a
//! boxed request. When the leader is done, the first of them leads and runs the requests of the others in its
//! transaction. A request is in one stage at a time (waiting, begun, done, withdrawn), so it never runs twice.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duolog_types::Durability;
use parking_lot::{Condvar, Mutex};

use crate::engine::Tx;
use crate::error::Error;

/// A request. It stores its own result and returns whether its changes are kept.
pub(super) type Job = Box<dyn FnOnce(&mut Tx<'_>) -> bool + Send>;

/// The outcome of a request.
#[derive(Clone, Debug)]
pub(super) enum RequestOutcome {
    /// Its transaction was committed.
    Committed,
    /// It returned an error and was rolled back.
    Refused,
    /// It was rolled back for another reason, or its outcome is unknown.
    Failed(Error),
}

/// The result of waiting in the queue.
pub(super) enum Turn<'q> {
    /// The caller leads, and gets its request back.
    Lead(Lead<'q>, Option<Job>),
    /// A leader ran the request.
    Done(RequestOutcome),
    /// The deadline passed before a leader began the request, which is withdrawn.
    Late,
}

/// The queue of callers.
#[derive(Default)]
pub(super) struct Queue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    has_leader: bool,
    waiting: VecDeque<Arc<Ticket>>,
    /// The size of the last group. Its callers have returned, and those that write again are about to join.
    last_group: usize,
}

/// A waiting caller.
pub(super) struct Ticket {
    pub(super) durability: Durability,
    /// It has no request and waits only to lead, for maintenance.
    is_maintenance: bool,
    stage: Mutex<Stage>,
    stage_changed: Condvar,
}

enum Stage {
    Waiting(Option<Job>),
    Lead(Option<Job>),
    Begun,
    Done(RequestOutcome),
    Withdrawn,
}

impl Queue {
    /// Becomes the leader if there is none.
    pub(super) fn try_lead(&self) -> Option<Lead<'_>> {
        let mut state = self.0.lock();
        // Lazy: dropping a `Lead` passes the lead on.
        (!mem::replace(&mut state.has_leader, true)).then(|| Lead { queue: self })
    }

    /// Joins the queue and waits. Without a job it waits to lead.
    ///
    /// A request that a leader has begun is waited for, even after the deadline: its outcome will be known.
    pub(super) fn join(&self, durability: Durability, job: Option<Job>, deadline: Instant) -> Turn<'_> {
        let ticket = {
            let mut queue = self.0.lock();
            if !mem::replace(&mut queue.has_leader, true) {
                return Turn::Lead(Lead { queue: self }, job);
            }
            let is_maintenance = job.is_none();
            let stage = Mutex::new(Stage::Waiting(job));
            let ticket = Arc::new(Ticket { durability, is_maintenance, stage, stage_changed: Condvar::new() });
            queue.waiting.push_back(Arc::clone(&ticket));
            ticket
        };
        let mut stage = ticket.stage.lock();
        loop {
            match mem::replace(&mut *stage, Stage::Withdrawn) {
                Stage::Lead(job) => return Turn::Lead(Lead { queue: self }, job),
                Stage::Done(outcome) => return Turn::Done(outcome),
                Stage::Begun => {
                    *stage = Stage::Begun;
                    ticket.stage_changed.wait(&mut stage);
                }
                Stage::Waiting(job) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    *stage = Stage::Waiting(job);
                    ticket.stage_changed.wait_for(&mut stage, left);
                }
                Stage::Withdrawn => break,
            }
        }
        // Lock order: the queue before a ticket.
        drop(stage);
        self.0.lock().waiting.retain(|other| !Arc::ptr_eq(other, &ticket));
        Turn::Late
    }
}

/// The right to use the writing connection. Dropping it passes the lead to the first caller in the queue.
pub(super) struct Lead<'q> {
    queue: &'q Queue,
}

impl<'q> Lead<'q> {
    /// Takes up to `max` waiting requests, in order, up to the first caller that waits for maintenance.
    ///
    /// The callers of the last group join again shortly after its sync. Without waiting for them, callers would split
    /// into two groups that alternate, each with its own sync. So the leader waits, at most `patience`, until the queue
    /// is as long as the last group. A single writer does not wait.
    pub(super) fn gather(&self, max: usize, patience: Duration) -> Batch<'q> {
        let mut state = self.queue.0.lock();
        let until = (state.waiting.len() < state.last_group).then(|| Instant::now() + patience);
        while state.waiting.len() < state.last_group && until.is_some_and(|until| Instant::now() < until) {
            drop(state);
            std::thread::yield_now();
            state = self.queue.0.lock();
        }
        state.last_group = state.waiting.len();
        let count = state.waiting.iter().take(max).take_while(|ticket| !ticket.is_maintenance).count();
        Batch { queue: self.queue, tickets: state.waiting.drain(..count).collect() }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut queue = self.queue.0.lock();
        while let Some(ticket) = queue.waiting.pop_front() {
            let mut stage = ticket.stage.lock();
            if let Stage::Waiting(job) = &mut *stage {
                *stage = Stage::Lead(job.take());
                ticket.stage_changed.notify_one();
                return;
            }
        }
        queue.has_leader = false;
    }
}

/// Requests that were taken from the queue and not begun. Dropping it puts them back at the head of the queue.
pub(super) struct Batch<'q> {
    queue: &'q Queue,
    tickets: VecDeque<Arc<Ticket>>,
}

impl Batch<'_> {
    /// Returns the strongest durability of the members and `own`: one member with `Power` makes the group sync.
    pub(super) fn strongest(&self, own: Durability) -> Durability {
        self.tickets.iter().map(|ticket| ticket.durability).fold(own, Ord::max)
    }

    /// Begins the next request that is not withdrawn. From here on its caller waits for the outcome.
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
        let mut state = self.queue.0.lock();
        while let Some(ticket) = self.tickets.pop_back() {
            state.waiting.push_front(ticket);
        }
    }
}

/// Requests that ran and whose callers wait. If it is dropped before `acknowledge`, they get [`Error::Unknown`].
#[derive(Default)]
pub(super) struct Members(Vec<(Arc<Ticket>, RequestOutcome)>);

impl Members {
    pub(super) fn push(&mut self, ticket: Arc<Ticket>, outcome: RequestOutcome) {
        self.0.push((ticket, outcome));
    }

    /// Sets this error as the outcome of every member that would be committed.
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
            ticket.stage_changed.notify_one();
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
