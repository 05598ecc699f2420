//! The fold in the background: a thread that keeps derived rows near the log while the process lives.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::store::Join;

/// How long after a look the next one comes: one sync then serves many appends.
const INTERVAL: Duration = Duration::from_millis(250);

/// A running fold; it stops when this goes.
pub struct Folder {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Folder {
    /// Starts folding what this process appends.
    pub fn start(join: &Arc<Join>) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (join, stopped) = (join.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("duolog-fold".to_owned()).spawn(move || {
            let (stop, wake) = &*stopped;
            let mut stop = stop.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stop {
                stop = wake.wait_timeout(stop, INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
                if !*stop {
                    // What fails here stays marked, and is told of by whoever reads or appends.
                    let _ = join.fold_own(join.limits().fold_before_read_bytes);
                }
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
