//! A worker: one thread that runs random commands, one after the other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::command::{Binary, Call, Outcome, Ran, says_nothing};
use super::domain::Owned;
use super::faults::{Fault, Means};
use super::history::{History, Line, Place, Span, Step};
use super::home::Ground;
use super::{Profile, Tally};
use crate::random::{Random, mix};

/// The flag that names an operation.
pub const OPERATION: &str = "--operation-id";
/// Values that a reader of lines may stumble over.
const ODD: [&str; 8] =
    ["1", "\"\\ud800\"", "1e999", "\"\\u0000\"", "\"é\u{202e}\"", "[[[[{}]]]]", "-0.0", "{\"bb\":\"same\"}"];
/// How every line of this tester begins.
pub const MARK: &str = "{\"bb\":";

/// What all workers of a round share.
#[derive(Debug)]
pub struct Round {
    /// What they did.
    pub history: History,
    /// Where they are.
    pub ground: Ground,
    /// What can be done to them.
    pub means: Arc<Means>,
    /// How many there are.
    pub workers: usize,
    /// What they do.
    pub profile: Profile,
    /// Unique in the run: part of every tag.
    pub number: u32,
    /// Returns true if wall clocks jump in this round.
    pub jumps: bool,
    /// How many runs may run at once; so many that it does not matter, or few.
    pub slots: usize,
}

/// An operation that can be tried again.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its id.
    pub id: String,
    /// The session as it was named.
    pub target: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A worker.
pub struct Worker {
    /// Its number.
    pub id: usize,
    /// Its chance.
    pub random: Random,
    /// What it runs.
    pub binary: Binary,
    /// What it shares.
    pub round: Arc<Round>,
    /// Its appends with an operation id.
    pub operations: Vec<Operation>,
    /// Where it stopped reading, by session.
    pub cursors: BTreeMap<String, (u64, u64)>,
    /// The last known end of its own session.
    pub own_end: Option<u64>,
    /// What happened to its commands.
    pub tally: Tally,
    /// Faults are chosen for commands.
    pub faulty: bool,
    /// Its objects of each noun.
    pub owned: Owned,
    seed: u64,
    steps: usize,
    tags: usize,
    usual: Duration,
}

/// A command that was run.
pub struct Done {
    /// Its number in the history.
    pub step: usize,
    /// When.
    pub span: Span,
    /// What it answered.
    pub ran: Ran,
}

impl Done {
    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        self.ran.outcome
    }
}

impl Worker {
    /// A worker with its own directory for what processes read and print.
    pub fn new(id: usize, seed: u64, mut binary: Binary, round: &Arc<Round>) -> Self {
        binary.scratch = round.ground.scratch().join(format!("worker-{id}"));
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

    /// Begins a step with chance of its own: what one step drew does not change what the next one does.
    pub fn begin_step(&mut self, number: usize) {
        self.random = Random::new(mix(self.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }

    /// A new directory beside the home.
    pub fn fresh(&mut self, what: &str) -> PathBuf {
        self.tags += 1;
        self.binary.scratch.join(format!("{what}-{}", self.tags))
    }

    /// Runs a command with the faults that chance gives it.
    pub fn run(&mut self, mut call: Call) -> Done {
        self.disturb(&mut call);
        let binary = self.binary.clone();
        self.run_on(&binary, &call)
    }

    /// Chooses what happens to a command.
    fn disturb(&mut self, call: &mut Call) {
        if self.faulty {
            call.fault = self.round.means.choose(&mut self.random, self.usual);
            let jump = self.round.means.clock_jump(&mut self.random);
            call.clock_ms = jump.filter(|_| self.round.jumps);
        }
    }

    /// Runs commands at once, each in a process of its own, with the faults that chance gives them.
    pub fn volley(&mut self, mut calls: Vec<Call>) -> Vec<Done> {
        for call in &mut calls {
            self.disturb(call);
        }
        let round = Arc::clone(&self.round);
        let binaries: Vec<Binary> = (0..calls.len())
            .map(|index| {
                let scratch = self.binary.scratch.join(format!("volley-{index}"));
                std::fs::create_dir_all(&scratch).expect("scratch");
                Binary { scratch, ..self.binary.clone() }
            })
            .collect();
        let ran: Vec<(Span, Ran)> = std::thread::scope(|scope| {
            let threads: Vec<_> = calls
                .iter()
                .zip(&binaries)
                .map(|(call, binary)| {
                    let round = &round;
                    scope.spawn(move || {
                        let start = round.history.tick();
                        let ran = binary.run(call, &round.means);
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
    pub fn run_calmly(&mut self, call: &Call) -> Done {
        let binary = self.binary.clone();
        self.run_on(&binary, call)
    }

    /// Runs a command as it is, on this or another home.
    pub fn run_on(&mut self, binary: &Binary, call: &Call) -> Done {
        let history = &self.round.history;
        let start = history.tick();
        let ran = binary.run(call, &self.round.means);
        let span = Span { start, end: history.tick() };
        self.note(binary, call, span, ran)
    }

    /// Notes what a command did.
    fn note(&mut self, binary: &Binary, call: &Call, span: Span, ran: Ran) -> Done {
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
        self.judge(call, &ran, step);
        Done { step, span, ran }
    }

    /// Holds one command against what any command must keep to.
    fn judge(&self, call: &Call, ran: &Ran, step: usize) {
        let history = &self.round.history;
        let told = || summary(ran);
        if ran.crashed || ran.stderr.contains("panicked at") {
            history.violation("no crash", told(), step, None);
        }
        let kind = ran.error_kind().unwrap_or_default();
        match ran.code {
            Some(4) if call.verb() != "state backup" => {
                history.violation("no damage without a fault", told(), step, None);
            }
            Some(5) if !self.round.ground.is_small() => {
                history.violation("no failure without a fault", told(), step, None);
            }
            Some(5) if !["io", "full", "unknown"].contains(&kind.as_str()) => {
                history.violation("no failure without a fault", told(), step, None);
            }
            _ => {}
        }
        // What an inbox shows was read, not written: an acknowledgement that fails after it leaves nothing.
        if call.verb() != "sessions inbox"
            && let Some((_, message, hint)) = ran.error()
            && (says_nothing(&message) || says_nothing(&hint))
            && !ran.answers().is_empty()
        {
            let what = format!("{} lines were acknowledged, then: {}", ran.answers().len(), told());
            history.violation("an error says what was kept", what, step, None);
        }
    }

    /// Notes a broken rule.
    pub fn violation(&self, rule: &'static str, what: String, done: &Done, session: Option<&str>) {
        self.round.history.violation(rule, what, done.step, session);
    }

    /// The session that only this worker writes.
    pub fn own(&self) -> String {
        format!("own-{}", self.id)
    }

    /// Chooses a number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.random.below(n as u64)).unwrap_or(0)
    }

    /// Returns true in so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// A line that is nowhere else.
    pub fn tagged(&mut self) -> Line {
        self.tags += 1;
        let pad = match self.random.below(if self.round.ground.is_small() { 4 } else { 24 }) {
            0 => "x".repeat(1 + self.below(9_000)),
            _ => String::new(),
        };
        let tag = format!("tag{}w{}n{}", self.round.number, self.id, self.tags);
        let odd = ODD[self.below(ODD.len())];
        Line::from(format!("{MARK}\"{tag}\",\"type\":\"user\",\"odd\":{odd},\"text\":\"{tag} {pad}\"}}"))
    }

    /// A line that many write.
    pub fn equal(&mut self) -> Line {
        Line::from(format!("{MARK}\"same\",\"type\":\"user\",\"text\":\"equal{}\"}}", self.random.below(2)))
    }

    /// A unique operation id.
    pub fn operation_id(&mut self) -> String {
        self.tags += 1;
        format!("op-{}-{}-{}", self.round.number, self.id, self.tags)
    }
}

/// What a command answered, in one short line.
fn summary(ran: &Ran) -> String {
    let code = ran.code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
    let text = String::from_utf8_lossy(&ran.stdout);
    let last = text.lines().last().unwrap_or_default();
    let short: String = last.chars().take(400).collect();
    let notes: String = ran.stderr.trim().chars().take(300).collect();
    [code, short, notes].iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" · ")
}

/// The place that an append answered.
pub fn place(answer: &serde_json::Value) -> Option<Place> {
    let (epoch, end) = cursor(answer["cursor"].as_str()?)?;
    // An append names its session by another field than a recording does.
    let session = answer["session"].as_str().or(answer["session_id"].as_str())?;
    Some(Place { session: session.to_owned(), epoch, end })
}

/// Reads `EPOCH:POSITION`.
pub fn cursor(text: &str) -> Option<(u64, u64)> {
    let (epoch, position) = text.trim().split_once(':')?;
    Some((epoch.parse().ok()?, position.parse().ok()?))
}

/// The lines of this tester among all lines of a log.
pub fn own_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Line> {
    lines.filter(|line| line.starts_with(MARK)).map(Line::from).collect()
}
