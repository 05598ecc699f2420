//! One run of the real binary: its arguments, its input, its faults and its output.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;

use super::domain::json::lenient;
use super::faults::{Fault, FaultTools};

/// The time after which a command counts as hanging: no lock timeout is longer.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(5);

/// The outcome of a command for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged: the command took effect.
    Done,
    /// Refused: nothing was changed.
    Refused,
    /// Killed, or failed in the middle: the command may have taken effect or not.
    Unknown,
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct Call {
    /// The arguments after the global ones.
    pub words: Vec<String>,
    /// The standard input.
    pub input: Vec<u8>,
    /// The fault to inject.
    pub fault: Fault,
    /// The error of its wall clock, in milliseconds.
    pub clock_ms: Option<i64>,
}

impl Call {
    /// Creates a command without input and faults.
    pub fn new(words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self { words, input: Vec::new(), fault: Fault::None, clock_ms: None }
    }

    /// Adds an argument.
    pub fn word(mut self, word: impl Into<String>) -> Self {
        self.words.push(word.into());
        self
    }

    /// Sets the standard input.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Returns the noun and the verb.
    pub fn verb(&self) -> String {
        self.words.iter().take(2).take_while(|word| !word.starts_with('-')).cloned().collect::<Vec<_>>().join(" ")
    }
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// The outcome.
    pub outcome: Outcome,
    /// The exit code; `None` if it was ended by a signal.
    pub code: Option<i32>,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: String,
    /// True if it was ended by a signal that the tester did not send, or did not end.
    pub crashed: bool,
    /// The elapsed time.
    pub took: Duration,
}

impl CommandOutput {
    /// Returns the complete JSON objects on stdout, without the error.
    pub fn answers(&self) -> Vec<Value> {
        self.objects().into_iter().filter(|value| !value["error"].is_object()).collect()
    }

    /// Returns the answer if there is exactly one.
    pub fn answer(&self) -> Option<Value> {
        self.answers().into_iter().next()
    }

    /// Returns the kind, the message and the hint of the error.
    pub fn error(&self) -> Option<(String, String, String)> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let error = self.objects().into_iter().map(|value| value["error"].clone()).find(Value::is_object)?;
        Some((text(&error, "kind"), text(&error, "message"), text(&error, "hint")))
    }

    /// Returns the kind of the error; for a command of several parts, that of the first failed part.
    pub fn error_kind(&self) -> Option<String> {
        let of_one = |value: &Value| value["errors"][0]["error"]["kind"].as_str().map(str::to_owned);
        self.error().map(|(kind, ..)| kind).or_else(|| self.objects().iter().find_map(of_one))
    }

    fn objects(&self) -> Vec<Value> {
        self.lines().filter_map(lenient).filter(Value::is_object).collect()
    }

    /// Returns the first complete line on stdout.
    pub fn text(&self) -> String {
        self.lines().next().unwrap_or_default().to_owned()
    }

    /// Returns the complete lines on stdout that are UTF-8.
    fn lines(&self) -> impl Iterator<Item = &str> {
        let complete = self.stdout.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        complete.filter_map(|line| std::str::from_utf8(line).ok())
    }
}

/// The binary, a home, and a directory for the input and output of processes.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The path of the binary.
    pub path: PathBuf,
    /// The home.
    pub home: PathBuf,
    /// The address of the state, if it is not SQLite in the home.
    pub store: Option<String>,
    /// The directory for stdin, stdout and stderr, not on the tested disk.
    pub scratch: PathBuf,
    /// A rule to remove in the processes; needs a test build.
    pub mutant: Option<String>,
}

impl Binary {
    /// Returns the same binary on another home, with the state in that home.
    pub fn on(&self, home: &Path) -> Self {
        Self { home: home.to_owned(), store: None, ..self.clone() }
    }

    /// Returns the command line as a person would type it.
    pub fn text(&self, call: &Call) -> String {
        let mut words = vec!["duolog".to_owned(), "--home".to_owned(), self.home.display().to_string()];
        words.extend(self.store.iter().flat_map(|store| ["--store".to_owned(), store.clone()]));
        words.push("--json".to_owned());
        words.extend(call.words.iter().cloned());
        let mut text = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
        if !call.input.is_empty() {
            let input = String::from_utf8_lossy(&call.input);
            let short: String = input.chars().take(200).collect();
            let dots = if short.len() < input.len() { "…" } else { "" };
            text = format!("printf %s {}{dots} | {text}", quote(&short));
        }
        if let Some(ms) = call.clock_ms {
            text = format!("{text}   # clock {ms:+} ms");
        }
        if call.fault != Fault::None {
            text = format!("{text}   # {:?}", call.fault);
        }
        text
    }

    /// Runs a command to its end.
    pub fn run(&self, call: &Call, fault_tools: &FaultTools) -> CommandOutput {
        let file = |name: &str| self.scratch.join(name);
        fs::write(file("stdin"), &call.input).expect("scratch");
        let mut command = self.traced(&call.fault);
        command.arg("--home").arg(&self.home).arg("--json");
        if let Some(store) = &self.store {
            command.args(["--store", store]);
        }
        command.args(&call.words);
        if let (Some(ms), Some(shim)) = (call.clock_ms, fault_tools.clock_shim()) {
            command.env("LD_PRELOAD", shim).env("BLACKBOX_CLOCK_MS", ms.to_string());
        }
        if let Some(mutant) = &self.mutant {
            command.env("DUOLOG_TEST_MUTANT", mutant);
        }
        command
            .env_remove("DUOLOG_HOME")
            .env_remove("DUOLOG_STORE")
            .stdin(Stdio::from(File::open(file("stdin")).expect("scratch")))
            .stdout(Stdio::from(File::create(file("stdout")).expect("scratch")))
            .stderr(Stdio::from(File::create(file("stderr")).expect("scratch")));
        let begun = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {}: {error}", self.path.display()));
        let sent = Self::act(&mut child, &call.fault);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let hangs = pid.is_some_and(|pid| !ends_within(pid, COMMAND_TIMEOUT));
        if hangs {
            child.kill().expect("a child can be killed");
        }
        let status = child.wait().expect("the child ends");
        let took = begun.elapsed();
        let stdout = fs::read(file("stdout")).expect("scratch");
        let stderr = String::from_utf8_lossy(&fs::read(file("stderr")).expect("scratch")).into_owned();
        let expected = sent || matches!(call.fault, Fault::KillAt(..));
        let mut ran =
            CommandOutput { outcome: Outcome::Unknown, code: status.code(), stdout, stderr, crashed: false, took };
        ran.crashed = hangs || status.code().is_none() && !expected;
        ran.outcome = outcome(&ran, status);
        ran
    }

    /// Returns the command, run by strace if the fault is at a system call.
    fn traced(&self, fault: &Fault) -> Command {
        let (call, what, fast) = match fault {
            Fault::PauseAt(call, nth, pause) => (call, format!("delay_enter={}:when={nth}", pause.as_micros()), true),
            Fault::KillAt(call, nth) => (call, format!("signal=KILL:when={nth}"), false),
            _ => return Command::new(&self.path),
        };
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:{what}")]);
        if fast {
            // strace injects pauses under a seccomp filter, but not signals.
            command.arg("--seccomp-bpf");
        }
        command.arg(&self.path);
        command
    }

    /// Sends the signals of the fault. Returns true if the process was killed.
    fn act(child: &mut Child, fault: &Fault) -> bool {
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return false };
        let send = |signal| kill_process(pid, signal).is_ok();
        match fault {
            Fault::Kill(after) => !ends_within(pid, *after) && send(Signal::KILL),
            Fault::Pause(after, pause) => {
                if !ends_within(pid, *after) {
                    send(Signal::STOP);
                    std::thread::sleep(*pause);
                    send(Signal::CONT);
                }
                false
            }
            Fault::Stutter(step) => {
                for _ in 0..50 {
                    if ends_within(pid, *step) {
                        break;
                    }
                    send(Signal::STOP);
                    std::thread::sleep(*step * 3);
                    send(Signal::CONT);
                }
                false
            }
            Fault::None | Fault::PauseAt(..) | Fault::KillAt(..) => false,
        }
    }
}

/// Waits until a process ends, for at most `time`. A stopped process has not ended.
fn ends_within(pid: Pid, time: Duration) -> bool {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let Ok(time) = Timespec::try_from(time) else { return false };
    let mut fds = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
}

/// A complete answer on stdout is an acknowledgement, whatever happened to the process afterwards.
fn outcome(ran: &CommandOutput, status: ExitStatus) -> Outcome {
    match status.code() {
        Some(0) => Outcome::Done,
        Some(1 | 2 | 3 | 6 | 7) => Outcome::Refused,
        Some(_)
            if ran.error().is_some_and(|(_, message, hint)| claims_no_change(&message) || claims_no_change(&hint)) =>
        {
            Outcome::Refused
        }
        None if ran.answer().is_some_and(|answer| !is_negative(&answer)) => Outcome::Done,
        Some(_) | None => Outcome::Unknown,
    }
}

/// Returns true if an answer may come with exit code 1 or 3: no row to return, nothing changed, or the phase belongs to
/// another owner.
fn is_negative(answer: &Value) -> bool {
    let is_phase = answer.get("phase").is_some() && (answer["status"] == "running" || answer["status"] == "done");
    answer["changed"] == false || answer.get("item").is_some_and(Value::is_null) || is_phase
}

/// Returns true if an error claims that nothing was written.
pub fn claims_no_change(text: &str) -> bool {
    ["nothing was written", "nothing was changed", "nothing was appended", "nothing changed", "no line was appended"]
        .iter()
        .any(|claim| text.contains(claim))
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
