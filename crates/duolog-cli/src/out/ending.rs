//! What ends a command that goes on and on: Ctrl-C, and a reader of the answer that went away.
//!
//! A thread waits for both, so that whoever waits for something else is woken and never has to look.

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

/// Whether it is time to end.
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
    /// Listens from now on. The first Ctrl-C only asks: what is being printed is printed whole. A second one ends.
    pub(super) fn listen(stdout: &impl AsFd) -> io::Result<Self> {
        let (signals, told) = UnixStream::pair()?;
        low_level::pipe::register(SIGINT, told)?;
        let stdout = stdout.as_fd().try_clone_to_owned()?;
        let shared = Arc::new(Shared::default());
        let ending = Self(Arc::clone(&shared));
        std::thread::Builder::new().name("ending".to_owned()).spawn(move || watch(signals, &stdout, &shared))?;
        Ok(ending)
    }

    /// Whether it is time to end.
    pub fn has_come(&self) -> bool {
        self.0.state.lock().has_come
    }

    /// Has the end ring a bell.
    pub fn rings(&self, bell: Bell) {
        let mut state = self.0.state.lock();
        if state.has_come {
            bell.ring();
        }
        state.bell = Some(bell);
    }

    /// Waits for the end, at most `timeout`.
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

/// Waits for a signal, or for the reader of the answer to go; then for a second signal.
fn watch(mut signals: UnixStream, stdout: &OwnedFd, shared: &Shared) {
    loop {
        // Of stdout only that it is broken is waited for, which is told unasked.
        let mut polled = [PollFd::new(&signals, PollFlags::IN), PollFd::new(stdout, PollFlags::empty())];
        match rustix::event::poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            // Where nothing could be heard any more it is better to end than never to.
            Ok(_) | Err(_) => break,
        }
    }
    let is_signal = signals.set_nonblocking(true).is_ok() && signals.read(&mut [0; 64]).is_ok();
    shared.end();
    // Where the reader went first, the first signal is still to come, and finds a command that ends anyway.
    if is_signal && signals.set_nonblocking(false).is_ok() && signals.read(&mut [0]).is_ok() {
        let _ = low_level::emulate_default_handler(SIGINT);
    }
}
