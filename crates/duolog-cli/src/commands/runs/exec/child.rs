//! The child process of `duolog runs exec`: start, signals and output.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child as Process, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, kill_process};

use super::guard::ExecGuard;

/// The number of bytes kept from the end of the output.
const TAIL_BYTES: usize = 64 << 10;

/// The command to start and its settings.
pub(super) struct Job<'a> {
    /// Program and arguments.
    pub(super) command: &'a [OsString],
    /// Environment variables to add to those of this process.
    pub(super) variables: Vec<(&'static str, OsString)>,
    /// Time between SIGTERM and SIGKILL when it is stopped.
    pub(super) grace: Duration,
    /// True if it may read the stdin of this process.
    pub(super) reads_stdin: bool,
    /// True if its stdout goes to stderr, because stdout is reserved for JSON.
    pub(super) only_stderr: bool,
}

/// A running command. It is stopped when this is dropped.
pub(super) struct Child {
    guard: Process,
    has_ended: bool,
    tail: Arc<Mutex<VecDeque<u8>>>,
    copies: Vec<JoinHandle<()>>,
    /// Closed to end the copies, because processes left by the command may keep the pipes open.
    copying: Vec<UnixStream>,
}

impl Child {
    pub(super) fn start(job: Job<'_>) -> io::Result<Self> {
        let mut guard = ExecGuard::command(Some(job.grace), job.command)?;
        // A command in the background must not read the terminal: the system would stop it.
        let stdin = if job.reads_stdin && !io::stdin().is_terminal() { Stdio::inherit() } else { Stdio::null() };
        guard.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).envs(job.variables);
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let stdout =
            if job.only_stderr { stderr.try_clone()? } else { File::from(io::stdout().as_fd().try_clone_to_owned()?) };
        let mut guard = guard.spawn()?;
        let (out, err) = (guard.stdout.take(), guard.stderr.take());
        let (tail, copies, copying) = (Arc::default(), Vec::new(), Vec::new());
        let mut child = Self { guard, has_ended: false, tail, copies, copying };
        out.map_or(Ok(()), |out| child.copy(out, stdout))?;
        err.map_or(Ok(()), |err| child.copy(err, stderr))?;
        Ok(child)
    }

    /// Copies a pipe in a thread, and keeps the end of the data.
    fn copy(&mut self, pipe: impl Read + AsFd + Send + 'static, to: File) -> io::Result<()> {
        ioctl_fionbio(&pipe, true)?;
        let (ending, copying) = UnixStream::pair()?;
        let tail = Arc::clone(&self.tail);
        let copy = move || copy(pipe, to, &ending, &tail);
        self.copies.push(std::thread::Builder::new().name("output".to_owned()).spawn(copy)?);
        self.copying.push(copying);
        Ok(())
    }

    /// Returns the exit code if the command has ended; 128 plus the number for a signal, as in a shell.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<i32>> {
        let status = self.guard.try_wait()?;
        self.has_ended |= status.is_some();
        Ok(status.map(super::guard::code))
    }

    /// Sends a signal to the command.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.has_ended {
            // The process is not reaped, so its id cannot be reused.
            let _ = kill_process(Pid::from_child(&self.guard), signal);
        }
    }

    /// Stops the command and its children: SIGTERM, then SIGKILL after the grace period.
    pub(super) fn stop(&self) {
        self.signal(Signal::HUP);
    }

    /// Ends the copies, and returns the end of the command's output.
    pub(super) fn output(&mut self) -> String {
        self.copying.clear();
        for copy in self.copies.drain(..) {
            let _ = copy.join();
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let (front, back) = tail.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).replace('\0', "\u{fffd}")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.has_ended {
            self.stop();
            let _ = self.guard.wait();
        }
    }
}

/// Copies a pipe until its end, or until `ending` is closed and the pipe is empty.
fn copy(mut pipe: impl Read + AsFd, mut to: File, ending: &UnixStream, tail: &Mutex<VecDeque<u8>>) {
    let mut buffer = vec![0; 16 << 10];
    let mut is_ending = false;
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => {
                // A closed output does not end the command.
                let _ = to.write_all(&buffer[..read]);
                let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
                tail.extend(&buffer[..read]);
                let more = tail.len().saturating_sub(TAIL_BYTES);
                tail.drain(..more);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !is_ending => {
                let mut polled = [PollFd::new(&pipe, PollFlags::IN), PollFd::new(ending, PollFlags::IN)];
                match rustix::event::poll(&mut polled, None) {
                    Ok(_) => is_ending = !polled[1].revents().is_empty(),
                    Err(Errno::INTR) => {}
                    Err(_) => return,
                }
            }
            Err(_) => return,
        }
    }
}
