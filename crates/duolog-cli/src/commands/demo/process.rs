//! The agent process: started, read from and killed by the demo.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use duolog::SessionId;
use rustix::process::{Pid, Signal, kill_process};

use super::agent::Stage;
use crate::failure::Failure;

/// The maximum wait for the agent's next write or message.
const PATIENCE: Duration = Duration::from_secs(20);

/// A message of the agent.
pub enum AgentMessage {
    /// These lines are acknowledged.
    Acknowledged(Vec<Vec<u8>>),
    /// A large line of this many bytes is ready.
    Large(u64),
    /// Half a line was written.
    Half,
}

/// The address of a state in the home.
pub const STORE: &str = "sqlite:";

/// The arguments of an agent.
pub struct Job<'a> {
    /// The home.
    pub home: &'a Path,
    /// The session to append to.
    pub session: &'a SessionId,
    /// The part of the script to play.
    pub stage: Stage,
    /// The pause after each batch.
    pub pace: Duration,
    /// The log file.
    pub log: &'a Path,
}

/// A running agent. It is killed on drop, so that no agent outlives the demo.
pub struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<AgentMessage>,
}

impl Agent {
    /// Starts this program as an agent.
    pub fn start(job: &Job<'_>) -> Result<Self, Failure> {
        let failed = |source| Failure::File { call: "start", path: "the agent of the demo".into(), source };
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("--home").arg(job.home).args([
            "--store",
            STORE,
            "--quiet",
            "demo-agent",
            "--session",
            job.session.as_str(),
        ]);
        command.args(["--stage", job.stage.as_str(), "--pace-ms", &job.pace.as_millis().to_string()]);
        command.arg("--file").arg(job.log);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (sender, messages) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || listen(BufReader::new(stdout), &sender));
        }
        Ok(Self { stdin: child.stdin.take(), child, messages })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next message; `None` if there is none within `wait`. Returns an error if the agent has ended.
    pub fn next(&self, wait: Duration) -> Result<Option<AgentMessage>, AgentEnded> {
        match self.messages.recv_timeout(wait) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(AgentEnded),
        }
    }

    /// Returns the next message, and waits long for it.
    pub fn wait_for_word(&self) -> Result<Option<AgentMessage>, AgentEnded> {
        self.next(PATIENCE)
    }

    /// Tells the agent to write, and kills it as soon as the file grows.
    pub fn kill_in_mid_write(&mut self, file: &Path) -> io::Result<()> {
        let (file, agent) = (File::open(file)?, Pid::from_child(&self.child));
        let before = file.metadata()?.len();
        let is_watching = AtomicBool::new(false);
        // The watcher spins: the write takes less than a millisecond, and the kill must come within it. It has its own
        // thread because the scheduler may run a woken process in place of the thread that woke it.
        let watch = || {
            is_watching.store(true, Ordering::Release);
            let deadline = Instant::now() + PATIENCE;
            while file.metadata()?.len() == before && Instant::now() < deadline {}
            kill_process(agent, Signal::KILL).map_err(io::Error::from)
        };
        let stdin = self.stdin.as_mut();
        thread::scope(|scope| {
            let watcher = scope.spawn(watch);
            while !is_watching.load(Ordering::Acquire) && !watcher.is_finished() {
                thread::yield_now();
            }
            let sent = stdin.map_or(Ok(()), |stdin| stdin.write_all(b"go\n"));
            let killed = watcher.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            sent.and(killed)
        })?;
        self.child.wait().map(drop)
    }

    /// Kills the agent with SIGKILL.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Waits for the agent to end, and returns true if it succeeded.
    pub fn ended_well(&mut self) -> io::Result<bool> {
        self.stdin = None;
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The agent has ended and sent all its messages.
pub struct AgentEnded;

/// Forwards the messages of the agent until it ends. Incomplete messages are ignored.
fn listen(mut stdout: BufReader<ChildStdout>, sender: &mpsc::Sender<AgentMessage>) {
    let mut word = || -> Option<AgentMessage> {
        let mut head = String::new();
        stdout.read_line(&mut head).ok()?;
        let (what, number) = head.strip_suffix('\n')?.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        Some(match what {
            "large" => AgentMessage::Large(number),
            "half" => AgentMessage::Half,
            _ => AgentMessage::Acknowledged((0..number).map(|_| whole_line(&mut stdout)).collect::<Option<_>>()?),
        })
    };
    while let Some(message) = word() {
        if sender.send(message).is_err() {
            return;
        }
    }
    // Drain the pipe, so that the agent does not fail on a closed pipe.
    let _ = stdout.read_to_end(&mut Vec::new());
}

fn whole_line(stdout: &mut BufReader<ChildStdout>) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    stdout.read_until(b'\n', &mut line).ok()?;
    line.pop().filter(|last| *last == b'\n').map(|_| line)
}
