//! Following one log.

use std::time::Duration;

use duolog_join::Seen;
use duolog_log::{Bell, Item, Pace};
use duolog_types::Cursor;

use crate::error::Result;
use crate::store::Store;

/// Follows one log: delivers each line once, in order, as soon as it is stable.
///
/// It owns a clone of its store, so it may move to a thread or a task.
pub struct Follow {
    follow: duolog_join::Follow,
    /// Keeps the store open.
    _store: Store,
}

impl Follow {
    pub(crate) fn new(store: &Store, follow: duolog_join::Follow) -> Self {
        Self { follow, _store: store.clone() }
    }

    /// Sets how often the log is polled if the system reports no changes.
    #[must_use]
    pub fn at_pace(mut self, pace: Pace) -> Self {
        self.follow = self.follow.at_pace(pace);
        self
    }

    /// Returns the bell that ends [`Follow::wait`] early. Another thread rings it to make this one poll or stop.
    pub fn bell(&self) -> Bell {
        self.follow.bell()
    }

    /// Returns the cursor after the last line that was delivered.
    pub fn cursor(&self) -> Cursor {
        self.follow.cursor()
    }

    /// Delivers the lines that are new and stable.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read, or the store was closed.
    pub fn poll(&mut self, each: &mut dyn FnMut(Item<'_>)) -> Result<Seen> {
        Ok(self.follow.poll(each)?)
    }

    /// Waits until the log may have changed, the bell rings, or `timeout` has passed.
    pub fn wait(&mut self, timeout: Duration) {
        self.follow.wait(timeout);
    }
}
