//! Wakes followers in this process. It carries positions, not data: readers read the log.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duolog_types::{Position, SessionId};

/// Who waits for which session.
#[derive(Default)]
pub struct Feed {
    signals: Mutex<HashMap<SessionId, Arc<Signal>>>,
    /// Lets an append without followers pass without a lock.
    subscribers: AtomicUsize,
}

#[derive(Default)]
struct Signal {
    end: Mutex<Position>,
    moved: Condvar,
}

/// One follower's place in the feed.
pub struct Subscription {
    feed: Arc<Feed>,
    session: SessionId,
    signal: Arc<Signal>,
    seen: Position,
}

impl Feed {
    /// Tells those who follow the session that its log has grown.
    pub fn wake(&self, session: &SessionId, end: Position) {
        if self.subscribers.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(signal) = lock(&self.signals).get(session) {
            let mut at = lock(&signal.end);
            *at = end.max(*at);
            signal.moved.notify_all();
        }
    }

    /// Waits for a session from now on.
    pub fn subscribe(self: &Arc<Self>, session: &SessionId) -> Subscription {
        self.subscribers.fetch_add(1, Ordering::SeqCst);
        let signal = lock(&self.signals).entry(session.clone()).or_default().clone();
        let seen = *lock(&signal.end);
        Subscription { feed: self.clone(), session: session.clone(), signal, seen }
    }
}

impl Subscription {
    /// Waits until the log grows, at most `timeout`; says whether it did.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut end = lock(&self.signal.end);
        while *end <= self.seen {
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            end = self.signal.moved.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.seen = *end;
        true
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut signals = lock(&self.feed.signals);
        // Ours and the map's: nobody else listens.
        if Arc::strong_count(&self.signal) == 2 {
            signals.remove(&self.session);
        }
        self.feed.subscribers.fetch_sub(1, Ordering::SeqCst);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
