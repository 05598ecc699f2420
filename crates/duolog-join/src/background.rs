//! What a thread does while the process lives: it keeps derived rows near the logs.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::store::Join;

/// How long after a look the next one comes: one sync then serves many appends.
const INTERVAL: Duration = Duration::from_millis(250);

/// A running thread; it stops when this goes.
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
    /// Waits for the next look; true where there is none.
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
    /// Starts folding what this process appends, and what processes left that ended.
    pub fn start(join: &Arc<Join>) -> std::io::Result<Self> {
        let stop = Arc::<Stop>::default();
        let (at_work, stopped) = (join.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("duolog-fold".to_owned()).spawn(move || {
            while !stopped.wait() {
                // What fails here stays marked, and is told of by whoever reads or appends.
                let _ = at_work.fold_in_background(at_work.limits().fold_before_read_bytes);
            }
        })?;
        Ok(Self { join: join.clone(), stop, thread: Some(thread) })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.join.process.is_forked() {
            // The thread did not come along, and would be waited for in vain.
            return;
        }
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            // Had it panicked, what it did not fold stays marked.
            let _ = thread.join();
        }
    }
}
