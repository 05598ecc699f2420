//! What a thread does while the process lives: it copies lines that transitions owe to logs, and keeps derived rows near
//! the logs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use duolog_types::SessionId;

use crate::outbox::DRAIN_ROWS;
use crate::store::Join;

/// How long after a look the next one comes: one sync then serves many appends.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long the thread lets transitions come before it copies their lines: it writes the state too, and for each of many
/// alone it would be in their way.
const COALESCING: Duration = Duration::from_millis(20);
/// The sessions that may be owed lines at a time; whoever adds more copies its own.
const OWED_MAX: usize = 1024;

/// The sessions whose logs are owed lines, for the thread to copy.
///
/// A session stays here until its lines stand in its log, so that nobody in this process goes before them.
#[derive(Default)]
pub(crate) struct Owed {
    inner: Mutex<Inner>,
    asked: Condvar,
    /// Lets appends and readers pass without a lock.
    many: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    /// A thread is there to copy.
    is_served: bool,
    stop: bool,
    /// Each with the number of the last transition that added to it.
    sessions: BTreeMap<SessionId, u64>,
    added: u64,
}

impl Owed {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the lines of these sessions to the thread; false where there is none, or it has enough to do.
    pub(crate) fn add(&self, sessions: &[SessionId]) -> bool {
        let mut inner = self.inner();
        if !inner.is_served || inner.sessions.len() + sessions.len() > OWED_MAX {
            return false;
        }
        inner.added += 1;
        let added = inner.added;
        // With some it does not wait for more: it lets them come.
        let was_idle = inner.sessions.is_empty();
        inner.sessions.extend(sessions.iter().map(|session| (session.clone(), added)));
        self.many.store(inner.sessions.len(), Ordering::SeqCst);
        drop(inner);
        if was_idle {
            self.asked.notify_one();
        }
        true
    }

    /// Whether a session's log is owed lines that the thread has not copied yet.
    pub(crate) fn has(&self, session: &SessionId) -> bool {
        self.many.load(Ordering::SeqCst) > 0 && self.inner().sessions.contains_key(session)
    }

    /// Notes that what was owed then stands in the log, or cannot be copied now.
    fn settle(&self, session: &SessionId, added: u64) {
        let mut inner = self.inner();
        if inner.sessions.get(session) == Some(&added) {
            inner.sessions.remove(session);
            self.many.store(inner.sessions.len(), Ordering::SeqCst);
        }
    }

    /// Waits for work, or until then. Says whether the thread is to end: then nobody leaves it any more.
    fn wait(&self, until: Instant) -> (Vec<(SessionId, u64)>, bool) {
        let mut inner = self.inner();
        while inner.sessions.is_empty() && !inner.stop {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            inner = self.asked.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if !inner.sessions.is_empty() && !inner.stop {
            let wait = self.asked.wait_timeout_while(inner, COALESCING, |inner| !inner.stop);
            inner = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        inner.is_served = !inner.stop;
        (inner.sessions.iter().map(|(session, added)| (session.clone(), *added)).collect(), inner.stop)
    }

    fn set(&self, is_served: bool) {
        let mut inner = self.inner();
        (inner.is_served, inner.stop) = (is_served, !is_served);
        self.asked.notify_all();
    }
}

/// A running thread; it stops when this goes.
pub struct Folder {
    join: Arc<Join>,
    thread: Option<JoinHandle<()>>,
}

impl Folder {
    /// Starts copying what this process's transitions owe, and folding what it appends.
    pub fn start(join: &Arc<Join>) -> std::io::Result<Self> {
        let at_work = join.clone();
        join.owed.set(true);
        let thread = std::thread::Builder::new().name("duolog-fold".to_owned()).spawn(move || work(&at_work));
        let thread = thread.inspect_err(|_| join.owed.set(false))?;
        Ok(Self { join: join.clone(), thread: Some(thread) })
    }
}

fn work(join: &Join) {
    let mut next = Instant::now() + INTERVAL;
    loop {
        let (owed, stop) = join.owed.wait(next);
        copy(join, &owed);
        if stop {
            return;
        }
        if Instant::now() >= next {
            let _ = join.fold_own(join.limits().fold_before_read_bytes);
            next = Instant::now() + INTERVAL;
        }
    }
}

/// Copies what logs are owed, and forgets it all at once: each commit is in the way of the next transition.
fn copy(join: &Join, owed: &[(SessionId, u64)]) {
    // What fails here stays in the outbox or marked, and is told of by whoever reads or appends.
    let mut copied = Vec::new();
    for (session, added) in owed {
        let lines = join.copy_waiting(session).unwrap_or_default();
        // There may be more than are copied at a time.
        if lines.len() < DRAIN_ROWS as usize {
            copied.extend(lines);
        } else if join.forget(lines).is_ok() {
            let _ = join.drain(session);
        }
        join.owed.settle(session, *added);
    }
    if !copied.is_empty() {
        let _ = join.forget(copied);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.join.owed.set(false);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
