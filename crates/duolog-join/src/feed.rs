//! Wakes followers in this process. It carries no data: readers read the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duolog_log::Bell;
use duolog_types::SessionId;
use parking_lot::Mutex;

/// The followers of each session.
#[derive(Default)]
pub struct Feed {
    bells: Mutex<HashMap<SessionId, Vec<Bell>>>,
    /// Lets an append skip the lock if there are no followers.
    subscribers: AtomicUsize,
}

/// The subscription of one follower.
pub struct Subscription {
    feed: Arc<Feed>,
    session: SessionId,
    bell: Bell,
}

impl Feed {
    /// Wakes the followers of a session.
    pub fn wake(&self, session: &SessionId) {
        if self.subscribers.load(Ordering::SeqCst) == 0 {
            return;
        }
        self.bells.lock().get(session).into_iter().flatten().for_each(Bell::ring);
    }

    /// Rings a bell whenever the session's log grows, from now on.
    pub fn subscribe(self: &Arc<Self>, session: &SessionId, bell: Bell) -> Subscription {
        self.subscribers.fetch_add(1, Ordering::SeqCst);
        self.bells.lock().entry(session.clone()).or_default().push(bell.clone());
        Subscription { feed: Arc::clone(self), session: session.clone(), bell }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut bells = self.feed.bells.lock();
        if let Some(here) = bells.get_mut(&self.session) {
            here.retain(|bell| !bell.is(&self.bell));
            if here.is_empty() {
                bells.remove(&self.session);
            }
        }
        self.feed.subscribers.fetch_sub(1, Ordering::SeqCst);
    }
}
