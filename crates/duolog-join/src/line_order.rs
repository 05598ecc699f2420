//! The order of lines: the sessions whose logs are about to get lines from changes of this process, and those whose
//! lines could not be appended.
//!
//! A change is visible in the state from its commit on, shortly before its line is in the log. A thread of this process
//! that saw the change and appends waits here for the line.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use duolog_types::SessionId;
use parking_lot::{Condvar, Mutex};

/// The sessions with lines to come.
#[derive(Default)]
pub(crate) struct LineOrder {
    sessions: Mutex<HashMap<SessionId, Entry>>,
    changed: Condvar,
    /// Lets an append skip the lock while there are none.
    count: AtomicUsize,
}

#[derive(Default)]
struct Entry {
    /// The number of changes between their commit and their line.
    running: usize,
    /// A line could not be appended and is pending in the outbox.
    has_pending: bool,
}

/// What an append to a session must do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeforeAppend {
    /// Nothing.
    Nothing,
    /// Append the pending lines.
    AppendPending,
    /// Give up: a change takes longer than the timeout.
    TimedOut,
}

impl LineOrder {
    pub(crate) fn begin(&self, session: &SessionId) {
        let mut sessions = self.sessions.lock();
        sessions.entry(session.clone()).or_default().running += 1;
        self.count.store(sessions.len(), Ordering::SeqCst);
    }

    pub(crate) fn end(&self, session: &SessionId) {
        self.change(session, |entry| entry.running = entry.running.saturating_sub(1));
    }

    /// Records whether a session has pending lines.
    pub(crate) fn set_pending(&self, session: &SessionId, has_pending: bool) {
        if has_pending || self.count.load(Ordering::SeqCst) > 0 {
            self.change(session, |entry| entry.has_pending = has_pending);
        }
    }

    fn change(&self, session: &SessionId, f: impl FnOnce(&mut Entry)) {
        let mut sessions = self.sessions.lock();
        let entry = sessions.entry(session.clone()).or_default();
        f(entry);
        if entry.running == 0 && !entry.has_pending {
            sessions.remove(session);
        }
        self.count.store(sessions.len(), Ordering::SeqCst);
        drop(sessions);
        self.changed.notify_all();
    }

    /// Waits until no change is about to append lines to a session's log. Returns what an append must do first.
    pub(crate) fn wait(&self, session: &SessionId, timeout: Duration) -> BeforeAppend {
        if self.count.load(Ordering::SeqCst) == 0 {
            return BeforeAppend::Nothing;
        }
        let deadline = Instant::now() + timeout;
        let mut sessions = self.sessions.lock();
        loop {
            match sessions.get(session) {
                None => return BeforeAppend::Nothing,
                Some(entry) if entry.running == 0 => return BeforeAppend::AppendPending,
                Some(_) => {}
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return BeforeAppend::TimedOut;
            };
            self.changed.wait_for(&mut sessions, left);
        }
    }
}
