//! A worker: one thread that runs random commands one after the other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::command::{Binary, Call, CommandOutput, Outcome, claims_no_change};
use super::domain::Owned;
use super::faults::{Fault, FaultTools};
use super::history::{History, Line, Place, Span, Step};
use super::home::RoundDirectory;
use super::{Profile, Tally};
use crate::random::{Random, mix};

/// The flag of an operation id.
pub const OPERATION: &str = "--operation-id";
/// Values that are difficult for a reader of lines.
const ODD: [&str; 8] =
    ["1", "\"\\ud800\"", "1e999", "\"\\u0000\"", "\"é\u{202e}\"", "[[[[{}]]]]", "-0.0", "{\"bb\":\"same\"}"];
/// The start of every line of this tester.
pub const MARK: &str = "{\"bb\":";

/// The state that all workers of a round share.
#[derive(Debug)]
pub struct Round {
    /// The record of their commands.
    pub history: History,
    /// Their directory.
    pub directory: RoundDirectory,
    /// The programs for faults.
    pub fault_tools: Arc<FaultTools>,
    /// The number of workers.
    pub workers: usize,
    /// Their commands.
    pub profile: Profile,
    /// Unique in the run: part of every tag.
    pub number: u32,
    /// True if wall clocks jump in this round.
    pub jumps: bool,
    /// The limit on running runs: low, or never reached.
    pub slots: usize,
}

/// An operation that can be retried.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its id.
    pub id: String,
    /// The session in the command.
    pub target: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A worker.
pub struct Worker {
    /// Its number.
    pub id: usize,
    /// Its random numbers.
    pub random: Random,
    /// The binary.
    pub binary: Binary,
    /// The shared state.
    pub round: Arc<Round>,
    /// Its appends with an operation id.
    pub operations: Vec<Operation>,
    /// Its cursors by session.
    pub cursors: BTreeMap<String, (u64, u64)>,
    /// The last known end of its own session.
    pub own_end: Option<u64>,
    /// The counts of its commands.
    pub tally: Tally,
    /// True if faults are injected.
    pub faulty: bool,
    /// Its objects of each noun.
    pub owned: Owned,
    seed: u64,
    steps: usize,
    tags: usize,
    usual: Duration,
}

/// A command that was run.
pub struct CommandRun {
    /// Its number in the history.
    pub step: usize,
    /// Its ticks.
    pub span: Span,
    /// Its result.
    pub ran: CommandOutput,
}

impl CommandRun {
    /// Returns its outcome.
    pub fn outcome(&self) -> Outcome {
        self.ran.outcome
    }
}

impl Worker {
    /// Creates a worker with its own directory for the input and output of processes.
    pub fn new(id: usize, seed: u64, mut binary: Binary, round: &Arc<Round>) -> Self {
        binary.scratch = round.directory.scratch().join(format!("worker-{id}"));
        std::fs::create_dir_all(&binary.scratch).expect("scratch");
        Self {
            id,
            random: Random::new(seed),
            binary,
            round: Arc::clone(round),
            operations: Vec::new(),
            cursors: BTreeMap::new(),
            own_end: None,
            tally: Tally::default(),
            faulty: true,
            owned: Owned::default(),
            seed,
            steps: 0,
            tags: 0,
            usual: Duration::from_millis(20),
        }
    }

    /// Starts a step with its own random numbers, so that one step does not change the choices of the next.
    pub fn begin_step(&mut self, number: usize) {
        self.random = Random::new(mix(self.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }

    /// Returns the path of a new directory next to the home.
    pub fn fresh(&mut self, what: &str) -> PathBuf {
        self.tags += 1;
        self.binary.scratch.join(format!("{what}-{}", self.tags))
    }

    /// Runs a command with random faults.
    pub fn run(&mut self, mut call: Call) -> CommandRun {
        self.choose_faults(&mut call);
        let binary = self.binary.clone();
        self.run_on(&binary, &call)
    }

    /// Chooses the faults of a command.
    fn choose_faults(&mut self, call: &mut Call) {
        if self.faulty {
            call.fault = self.round.fault_tools.choose(&mut self.random, self.usual);
            let jump = self.round.fault_tools.clock_jump(&mut self.random);
            call.clock_ms = jump.filter(|_| self.round.jumps);
        }
    }

    /// Runs commands at the same time, each in its own process, with random faults.
    pub fn volley(&mut self, mut calls: Vec<Call>) -> Vec<CommandRun> {
        for call in &mut calls {
            self.choose_faults(call);
        }
        let round = Arc::clone(&self.round);
        let binaries: Vec<Binary> = (0..calls.len())
            .map(|index| {
                let scratch = self.binary.scratch.join(format!("volley-{index}"));
                std::fs::create_dir_all(&scratch).expect("scratch");
                Binary { scratch, ..self.binary.clone() }
            })
            .collect();
        let ran: Vec<(Span, CommandOutput)> = std::thread::scope(|scope| {
            let threads: Vec<_> = calls
                .iter()
                .zip(&binaries)
                .map(|(call, binary)| {
                    let round = &round;
                    scope.spawn(move || {
                        let start = round.history.tick();
                        let ran = binary.run(call, &round.fault_tools);
                        (Span { start, end: round.history.tick() }, ran)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a volley does not panic")).collect()
        });
        let binary = self.binary.clone();
        calls.iter().zip(ran).map(|(call, (span, ran))| self.note(&binary, call, span, ran)).collect()
    }

    /// Runs a command without faults.
    pub fn run_clean(&mut self, call: &Call) -> CommandRun {
        let binary = self.binary.clone();
        self.run_on(&binary, call)
    }

    /// Runs a command unchanged, on this or another home.
    pub fn run_on(&mut self, binary: &Binary, call: &Call) -> CommandRun {
        let history = &self.round.history;
        let start = history.tick();
        let ran = binary.run(call, &self.round.fault_tools);
        let span = Span { start, end: history.tick() };
        self.note(binary, call, span, ran)
    }

    /// Records a command.
    fn note(&mut self, binary: &Binary, call: &Call, span: Span, ran: CommandOutput) -> CommandRun {
        let history = &self.round.history;
        if call.fault == Fault::None && ran.outcome == Outcome::Done {
            self.usual = (self.usual * 7 + ran.took) / 8;
        }
        self.tally.count(call, &ran);
        self.steps += 1;
        let mut events = history.events();
        let counts = events.verbs.entry(call.verb()).or_default();
        counts[ran.outcome as usize] += 1;
        events.steps.push(Step {
            worker: self.id,
            number: self.steps,
            span,
            text: binary.text(call),
            outcome: ran.outcome,
            answer: summary(&ran),
        });
        let step = events.steps.len() - 1;
        drop(events);
        self.check_command(call, &ran, step);
        CommandRun { step, span, ran }
    }

    /// Checks the rules that apply to every command.
    fn check_command(&self, call: &Call, ran: &CommandOutput, step: usize) {
        let history = &self.round.history;
        let text = || summary(ran);
        if ran.crashed || ran.stderr.contains("panicked at") {
            history.violation("no crash", text(), step, None);
        }
        let kind = ran.error_kind().unwrap_or_default();
        match ran.code {
            Some(4) if call.verb() != "state backup" => {
                history.violation("no damage without a fault", text(), step, None);
            }
            Some(5) if !self.round.directory.is_small() => {
                history.violation("no failure without a fault", text(), step, None);
            }
            Some(5) if !["io", "full", "unknown"].contains(&kind.as_str()) => {
                history.violation("no failure without a fault", text(), step, None);
            }
            _ => {}
        }
        // `sessions inbox` prints what it read: if the acknowledgement fails afterwards, nothing was written.
        if call.verb() != "sessions inbox"
            && let Some((_, message, hint)) = ran.error()
            && (claims_no_change(&message) || claims_no_change(&hint))
            && !ran.answers().is_empty()
        {
            let what = format!("{} lines were acknowledged, then: {}", ran.answers().len(), text());
            history.violation("an error says what was kept", what, step, None);
        }
    }

    /// Records a violation.
    pub fn violation(&self, rule: &'static str, what: String, done: &CommandRun, session: Option<&str>) {
        self.round.history.violation(rule, what, done.step, session);
    }

    /// Returns the id of the session that only this worker writes.
    pub fn own(&self) -> String {
        format!("own-{}", self.id)
    }

    /// Returns a random number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.random.below(n as u64)).unwrap_or(0)
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// Returns a unique line.
    pub fn tagged(&mut self) -> Line {
        self.tags += 1;
        let pad = match self.random.below(if self.round.directory.is_small() { 4 } else { 24 }) {
            0 => "x".repeat(1 + self.below(9_000)),
            _ => String::new(),
        };
        let tag = format!("tag{}w{}n{}", self.round.number, self.id, self.tags);
        let odd = ODD[self.below(ODD.len())];
        Line::from(format!("{MARK}\"{tag}\",\"type\":\"user\",\"odd\":{odd},\"text\":\"{tag} {pad}\"}}"))
    }

    /// Returns a line that several workers write.
    pub fn equal(&mut self) -> Line {
        Line::from(format!("{MARK}\"same\",\"type\":\"user\",\"text\":\"equal{}\"}}", self.random.below(2)))
    }

    /// Returns a unique operation id.
    pub fn operation_id(&mut self) -> String {
        self.tags += 1;
        format!("op-{}-{}-{}", self.round.number, self.id, self.tags)
    }
}

/// Returns the result of a command as one short line.
fn summary(ran: &CommandOutput) -> String {
    let code = ran.code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
    let text = String::from_utf8_lossy(&ran.stdout);
    let last = text.lines().last().unwrap_or_default();
    let short: String = last.chars().take(400).collect();
    let notes: String = ran.stderr.trim().chars().take(300).collect();
    [code, short, notes].iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" · ")
}

/// Returns the position in the answer of an append.
pub fn place(answer: &serde_json::Value) -> Option<Place> {
    let (epoch, end) = cursor(answer["cursor"].as_str()?)?;
    // An append has its session in another field than a recording.
    let session = answer["session"].as_str().or(answer["session_id"].as_str())?;
    Some(Place { session: session.to_owned(), epoch, end })
}

/// Parses `EPOCH:POSITION`.
pub fn cursor(text: &str) -> Option<(u64, u64)> {
    let (epoch, position) = text.trim().split_once(':')?;
    Some((epoch.parse().ok()?, position.parse().ok()?))
}

/// Returns the lines of this tester among all lines of a log.
pub fn own_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Line> {
    lines.filter(|line| line.starts_with(MARK)).map(Line::from).collect()
}
