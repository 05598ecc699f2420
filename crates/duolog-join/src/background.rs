//! The background thread that keeps derived rows close to the logs.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::store::Join;

/// The pause between two folds: one sync then serves many appends.
const INTERVAL: Duration = Duration::from_millis(250);

/// The background thread. Dropping it stops the thread.
pub struct Folder {
    join: Arc<Join>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits for the next fold. Returns true if the thread must stop.
    fn wait(&self) -> bool {
        let mut asked = self.asked.lock();
        self.changed.wait_while_for(&mut asked, |asked| !*asked, INTERVAL);
        *asked
    }

    fn ask(&self) {
        *self.asked.lock() = true;
        self.changed.notify_all();
    }
}

impl Folder {
    /// Starts folding the logs that this process appends to, and those of processes that ended.
    pub fn start(join: &Arc<Join>) -> std::io::Result<Self> {
        let stop = Arc::<Stop>::default();
        let (at_work, stopped) = (join.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("duolog-fold".to_owned()).spawn(move || {
            while !stopped.wait() {
                // After an error the sessions stay marked. Readers and appends report it.
                let _ = at_work.fold_in_background(at_work.limits().fold_before_read_bytes);
            }
        })?;
        Ok(Self { join: join.clone(), stop, thread: Some(thread) })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.join.process.is_forked() {
            // A forked child does not have the thread, and would wait for it for ever.
            return;
        }
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            // If it panicked, the sessions that it did not fold stay marked.
            let _ = thread.join();
        }
    }
}
