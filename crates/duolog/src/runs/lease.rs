//! Keeping a claim: a thread renews the lease until it is stopped or the claim is lost.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{RunHandle, rules};
use crate::error::{Error, Io, Result};

/// The shortest pause between two renewals.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Renews the lease of a claim in a thread, until it is stopped or dropped, or the claim is lost.
///
/// Stop it before you record the end of the work, so that it does not renew the lease of finished work.
pub struct LeaseKeeper {
    shared: Arc<Shared>,
    lease: Duration,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    is_stopped: bool,
    /// The time of the last successful renewal.
    renewed: Instant,
    lost: Option<Error>,
}

impl RunHandle {
    /// Renews the lease of this claim now, and then after each third of the lease, in a thread.
    ///
    /// `on_lost` is called once, in that thread, if the claim is lost: another claim has overtaken it, the run is no
    /// longer running, or the lease has expired because renewals failed.
    ///
    /// # Errors
    ///
    /// Returns an error if the first renewal fails or the thread cannot be started.
    pub fn keep_lease(&self, lease: Option<Duration>, on_lost: impl FnOnce() + Send + 'static) -> Result<LeaseKeeper> {
        let lease = lease.unwrap_or(self.store.join.limits().runs.lease);
        let renewed = Instant::now();
        self.renew(Some(lease))?;
        let state = Mutex::new(State { is_stopped: false, renewed, lost: None });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let (run, seen) = (self.clone(), Arc::clone(&shared));
        let keep = move || {
            if let Some(error) = seen.keep(&run, lease) {
                seen.state().lost = Some(error);
                on_lost();
            }
        };
        let thread = std::thread::Builder::new().name("lease".to_owned()).spawn(keep);
        let thread = thread.map_err(|error| Error::Io(Io::Thread(error)))?;
        Ok(LeaseKeeper { shared, lease, thread: Some(thread) })
    }
}

impl LeaseKeeper {
    /// Returns the remaining time of the lease, by the clock of this process, if no further renewal succeeds.
    pub fn remaining(&self) -> Duration {
        self.lease.saturating_sub(self.shared.state().renewed.elapsed())
    }

    /// Stops renewing, and returns the reason if the claim was lost.
    pub fn stop(mut self) -> Option<Error> {
        self.end();
        self.shared.state().lost.take()
    }

    fn end(&mut self) {
        self.shared.state().is_stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in `on_lost` is a fault of the caller and does not change the claim.
            let _ = thread.join();
        }
    }
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews until it is stopped. Returns the reason if the claim was lost.
    fn keep(&self, run: &RunHandle, lease: Duration) -> Option<Error> {
        let third = (lease / 3).max(PAUSE_MIN);
        let mut pause = third;
        loop {
            if self.is_stopped_within(pause) {
                return None;
            }
            let sent = Instant::now();
            match run.renew(Some(lease)) {
                Ok(_) => {
                    self.state().renewed = sent;
                    pause = third;
                }
                Err(error) if rules::is_claim_lost(&error) || self.state().renewed.elapsed() >= lease => {
                    return Some(error);
                }
                // Busy, or the system failed: there is time to try again.
                Err(_) => pause = (third / 4).max(PAUSE_MIN),
            }
        }
    }

    /// Waits. Returns true if it was stopped in the meantime.
    fn is_stopped_within(&self, pause: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), pause, |state| !state.is_stopped);
        waited.map_or_else(|poisoned| poisoned.into_inner().0.is_stopped, |(state, _)| state.is_stopped)
    }
}
