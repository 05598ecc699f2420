//! The sessions that changes of this process are telling of right now, and those whose lines could not be written.
//!
//! A change is seen in the state from its commit on, a moment before its line is in the log. A thread of this process that
//! saw it and appends waits for that moment here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use duolog_types::SessionId;
use parking_lot::{Condvar, Mutex};

/// Who tells of what.
#[derive(Default)]
pub(crate) struct Telling {
    sessions: Mutex<HashMap<SessionId, Entry>>,
    changed: Condvar,
    /// Lets an append pass without a lock while nobody tells anything.
    many: AtomicUsize,
}

#[derive(Default)]
struct Entry {
    /// How many changes are between their commit and their line.
    under_way: usize,
    /// A line could not be written and waits in the outbox.
    owes: bool,
}

/// What an append to a session has to do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Nothing.
    Nothing,
    /// Write the lines that wait.
    Write,
    /// Give up: a change takes longer than the time-out.
    Late,
}

impl Telling {
    pub(crate) fn begin(&self, session: &SessionId) {
        let mut sessions = self.sessions.lock();
        sessions.entry(session.clone()).or_default().under_way += 1;
        self.many.store(sessions.len(), Ordering::SeqCst);
    }

    pub(crate) fn end(&self, session: &SessionId) {
        self.change(session, |entry| entry.under_way = entry.under_way.saturating_sub(1));
    }

    /// Notes whether lines of a session wait.
    pub(crate) fn set_owes(&self, session: &SessionId, owes: bool) {
        if owes || self.many.load(Ordering::SeqCst) > 0 {
            self.change(session, |entry| entry.owes = owes);
        }
    }

    fn change(&self, session: &SessionId, f: impl FnOnce(&mut Entry)) {
        let mut sessions = self.sessions.lock();
        let entry = sessions.entry(session.clone()).or_default();
        f(entry);
        if entry.under_way == 0 && !entry.owes {
            sessions.remove(session);
        }
        self.many.store(sessions.len(), Ordering::SeqCst);
        drop(sessions);
        self.changed.notify_all();
    }

    /// Waits until no change is telling of a session, and says what an append to it has to do first.
    pub(crate) fn wait(&self, session: &SessionId, timeout: Duration) -> First {
        if self.many.load(Ordering::SeqCst) == 0 {
            return First::Nothing;
        }
        let deadline = Instant::now() + timeout;
        let mut sessions = self.sessions.lock();
        loop {
            match sessions.get(session) {
                None => return First::Nothing,
                Some(entry) if entry.under_way == 0 => return First::Write,
                Some(_) => {}
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return First::Late;
            };
            self.changed.wait_for(&mut sessions, left);
        }
    }
}
