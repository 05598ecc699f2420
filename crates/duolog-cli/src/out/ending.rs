//! The end of a streaming command: Ctrl-C, or a reader that closed the pipe.
//!
//! A thread waits for both and wakes the command, so the command does not poll.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use duolog::Bell;
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use signal_hook::consts::SIGINT;
use signal_hook::low_level;

/// A listener for Ctrl-C and a closed pipe.
pub struct Ending(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    has_come: bool,
    bell: Option<Bell>,
}

impl Ending {
    /// Starts to listen. The first Ctrl-C asks the command to end after the current output; a second one ends the process.
    pub(super) fn listen(stdout: &impl AsFd) -> io::Result<Self> {
        let (signals, sender) = UnixStream::pair()?;
        low_level::pipe::register(SIGINT, sender)?;
        let stdout = stdout.as_fd().try_clone_to_owned()?;
        let shared = Arc::new(Shared::default());
        let ending = Self(Arc::clone(&shared));
        std::thread::Builder::new().name("ending".to_owned()).spawn(move || watch(signals, &stdout, &shared))?;
        Ok(ending)
    }

    /// Returns true if the command must end.
    pub fn has_come(&self) -> bool {
        self.0.state.lock().has_come
    }

    /// Sets the bell that rings at the end.
    pub fn rings(&self, bell: Bell) {
        let mut state = self.0.state.lock();
        if state.has_come {
            bell.ring();
        }
        state.bell = Some(bell);
    }

    /// Waits for the end, up to `timeout`.
    pub fn wait(&self, timeout: Duration) {
        let mut state = self.0.state.lock();
        self.0.changed.wait_while_for(&mut state, |state| !state.has_come, timeout);
    }
}

impl Shared {
    fn end(&self) {
        let mut state = self.state.lock();
        state.has_come = true;
        state.bell.iter().for_each(Bell::ring);
        self.changed.notify_all();
    }
}

/// Waits for a signal or a closed pipe, and then for a second signal.
fn watch(mut signals: UnixStream, stdout: &OwnedFd, shared: &Shared) {
    loop {
        // poll always reports errors of stdout, so no flags are needed.
        let mut polled = [PollFd::new(&signals, PollFlags::IN), PollFd::new(stdout, PollFlags::empty())];
        match rustix::event::poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            // If poll fails, end the command: it could not be ended otherwise.
            Ok(_) | Err(_) => break,
        }
    }
    let is_signal = signals.set_nonblocking(true).is_ok() && signals.read(&mut [0; 64]).is_ok();
    shared.end();
    // After a closed pipe the command ends anyway, so no second signal is needed.
    if is_signal && signals.set_nonblocking(false).is_ok() && signals.read(&mut [0]).is_ok() {
        let _ = low_level::emulate_default_handler(SIGINT);
    }
}
