//! The agent's process as the demo sees it: started, listened to, killed.

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

/// How long to wait for the agent's next write, or its word.
const PATIENCE: Duration = Duration::from_secs(20);

/// Something that the agent said.
pub enum AgentMessage {
    /// These lines are safe.
    Acknowledged(Vec<Vec<u8>>),
    /// A large line is ready, of so many bytes.
    Large(u64),
    /// Half a line was written.
    Half,
}

/// The address of a state in its own home.
pub const STORE: &str = "sqlite:";

/// What to start.
pub struct Job<'a> {
    /// The home to work in.
    pub home: &'a Path,
    /// The session to write.
    pub session: &'a SessionId,
    /// How far to go.
    pub stage: Stage,
    /// How long to wait after each batch.
    pub pace: Duration,
    /// The log itself.
    pub log: &'a Path,
}

/// A running agent. It is killed when it goes out of scope, so that none outlives the demo.
pub struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<AgentMessage>,
}

impl Agent {
    /// Starts this same program as an agent.
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
        let (sender, said) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || listen(BufReader::new(stdout), &sender));
        }
        Ok(Self { stdin: child.stdin.take(), child, said })
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it says next; nothing within `wait`, or once it has ended.
    pub fn next(&self, wait: Duration) -> Result<Option<AgentMessage>, Gone> {
        match self.said.recv_timeout(wait) {
            Ok(said) => Ok(Some(said)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Gone),
        }
    }

    /// What it says next, however long that takes within reason.
    pub fn wait_for_word(&self) -> Result<Option<AgentMessage>, Gone> {
        self.next(PATIENCE)
    }

    /// Lets it write, and kills it as soon as the file has grown.
    pub fn kill_in_mid_write(&mut self, file: &Path) -> io::Result<()> {
        let (file, agent) = (File::open(file)?, Pid::from_child(&self.child));
        let before = file.metadata()?.len();
        let is_watching = AtomicBool::new(false);
        // Nothing sleeps while it watches: the write takes less than a millisecond, and has to be caught in it. The
        // watcher has a thread of its own because the system likes to run whoever is woken in the place of who woke it.
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
            let told = stdin.map_or(Ok(()), |stdin| stdin.write_all(b"go\n"));
            let killed = watcher.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
            told.and(killed)
        })?;
        self.child.wait().map(drop)
    }

    /// Kills it: SIGKILL, which no process can answer.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Whether it ended by itself and well. Waits for its end.
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

/// The agent has ended, and said all it had to say.
pub struct Gone;

/// Passes on what the agent says, up to its end. What it did not say to the end it did not say.
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
    while let Some(said) = word() {
        if sender.send(said).is_err() {
            return;
        }
    }
    // Whatever else comes is read, so that the agent does not fail for want of a listener.
    let _ = stdout.read_to_end(&mut Vec::new());
}

fn whole_line(stdout: &mut BufReader<ChildStdout>) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    stdout.read_until(b'\n', &mut line).ok()?;
    line.pop().filter(|last| *last == b'\n').map(|_| line)
}
