//! Waits for signals together with other descriptors.

use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::low_level;

/// The signals that a process listens for.
pub(super) struct Signals(Vec<(i32, UnixStream)>);

/// The events that ended a wait.
pub(super) struct WakeReasons {
    /// The signals that arrived.
    pub(super) signals: Vec<i32>,
    /// True if the other end of the descriptor was closed.
    pub(super) is_hung_up: bool,
}

impl Signals {
    /// Starts to listen. The signals no longer end the process.
    pub(super) fn listen(signals: &[i32]) -> io::Result<Self> {
        let listen = |signal: &i32| {
            let (stream, written) = UnixStream::pair()?;
            low_level::pipe::register(*signal, written)?;
            stream.set_nonblocking(true)?;
            Ok((*signal, stream))
        };
        signals.iter().map(listen).collect::<io::Result<_>>().map(Self)
    }

    /// Returns a descriptor that becomes readable on a signal. Another thread may wait for it, but must not read it.
    pub(super) fn descriptor(&self, signal: i32) -> io::Result<Option<UnixStream>> {
        let stream = self.0.iter().find(|(of, _)| *of == signal).map(|(_, stream)| stream.try_clone());
        stream.transpose()
    }

    /// Waits for a signal, or until the other end of `also` is closed, at most `timeout`.
    pub(super) fn wait(&mut self, also: Option<&UnixStream>, timeout: Option<Duration>) -> io::Result<WakeReasons> {
        let mut polled: Vec<PollFd<'_>> =
            self.0.iter().map(|(_, stream)| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)).collect();
        polled.extend(also.map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_hung_up = also.is_some() && polled.last().is_some_and(|last| !last.revents().is_empty());
        let mut signals = Vec::new();
        for (signal, stream) in &mut self.0 {
            if stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {
                signals.push(*signal);
            }
        }
        Ok(WakeReasons { signals, is_hung_up })
    }
}

/// Waits until one of the descriptors is readable.
pub(super) fn wait_for(streams: &[UnixStream]) {
    let mut polled: Vec<PollFd<'_>> =
        streams.iter().map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)).collect();
    while rustix::event::poll(&mut polled, None) == Err(Errno::INTR) {}
}
