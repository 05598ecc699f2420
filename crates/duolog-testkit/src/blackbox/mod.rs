//! The black-box test: many processes run random commands of the real binary at the same time.
//!
//! Some processes are killed, paused, slowed down, or get a wrong clock or a full disk. Every answer is checked against
//! a simple model: an acknowledged write is there once; a refused command changed nothing; no other data changed. Each
//! noun besides the log has its own small model (`domain`). The seed decides every step of every worker, but not the
//! scheduling, so a seed makes it likely, not certain, to see a violation again.

mod appends;
mod command;
mod copies;
mod domain;
mod faults;
mod finish;
mod history;
mod home;
mod model;
mod probes;
mod race;
mod reads;
mod report;
mod rules;
mod sessions;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use command::{Binary, Call, CommandOutput, Outcome};
use faults::FaultTools;
use history::Violation;
use home::{Disk, RoundDirectory};
use worker::{Round, Worker};

pub use domain::Group;
pub use report::summary;

use crate::postgres::{Access, Database};
use crate::random::{Random, mix};

/// The commands that the workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Logs and sessions.
    Logs,
    /// Everything.
    All,
    /// Only appends, deletions and creations of the same few names, as fast as possible.
    Race,
    /// Only the nouns of one group.
    Only(Group),
}

impl Profile {
    /// Returns the profile of this name.
    pub fn named(name: &str) -> Option<Self> {
        let group = Group::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, group)| Self::Only(group));
        match name {
            "all" => Some(Self::All),
            "logs" => Some(Self::Logs),
            "race" => Some(Self::Race),
            _ => group,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Logs => "logs",
            Self::Race => "race",
            Self::Only(group) => Group::ALL.into_iter().find(|(_, known)| *known == group).map_or("", |(name, _)| name),
        }
    }
}

/// A limit on running runs that is never reached.
const MANY_SLOTS: usize = 100_000;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of the random commands.
    pub seed: u64,
    /// The maximum number of rounds.
    pub rounds: u32,
    /// No round starts after this time.
    pub time: Option<Duration>,
    /// The number of workers.
    pub processes: usize,
    /// The number of commands per worker and round.
    pub steps: usize,
    /// The commands of the workers.
    pub profile: Profile,
    /// The binary.
    pub binary: PathBuf,
    /// A PostgreSQL server in which every round creates a database; `None` for SQLite in the home.
    pub store: Option<Access>,
    /// The directory for homes.
    pub directory: PathBuf,
    /// A rule to remove in the binary, which must be a test build.
    pub mutant: Option<String>,
    /// Keep the home of a failed round.
    pub keep: bool,
    /// Continue after a failed round.
    pub keep_going: bool,
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Passed rounds.
    pub passed: u32,
    /// Failed rounds.
    pub failed: u32,
    /// Commands by noun and verb: acknowledged, refused, unknown.
    pub verbs: BTreeMap<String, [u64; 3]>,
    /// Acknowledged lines.
    pub lines: u64,
    /// Acknowledged lines that are missing or share their position with others.
    pub lost: u64,
    /// Processes with a planned kill.
    pub kills: u64,
    /// Processes that were paused or slowed down.
    pub pauses: u64,
    /// Processes with a wrong clock.
    pub clock_jumps: u64,
    /// How often a disk was filled.
    pub disks_filled: u64,
    /// Violated rules, and how often.
    pub broken: BTreeMap<&'static str, u64>,
    /// The time of the first violation of each rule.
    pub first: BTreeMap<&'static str, Duration>,
    /// Programs for faults that this machine lacks.
    pub missing: Vec<&'static str>,
}

impl Tally {
    fn count(&mut self, call: &Call, ran: &CommandOutput) {
        self.kills += u64::from(call.fault.kills() && ran.code.is_none());
        self.pauses += u64::from(call.fault.pauses());
        self.clock_jumps += u64::from(call.clock_ms.is_some());
    }

    fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.pauses += other.pauses;
        self.clock_jumps += other.clock_jumps;
    }

    /// Returns the number of commands: acknowledged, refused, unknown.
    pub fn commands(&self) -> [u64; 3] {
        self.verbs.values().fold([0; 3], |sum, counts| [0, 1, 2].map(|index| sum[index] + counts[index]))
    }
}

/// Runs rounds until one fails, or until the time or the rounds are used up. Passes each line of output to `say`.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Tally {
    let tools = tempfile::tempdir().expect("a directory");
    let fault_tools = Arc::new(FaultTools::find(tools.path()));
    let mut tally = Tally { missing: fault_tools.missing(), ..Tally::default() };
    let begun = Instant::now();
    for number in 0..options.rounds {
        if options.time.is_some_and(|time| begun.elapsed() >= time) {
            break;
        }
        let violations = round(options, number, &fault_tools, &mut tally, say);
        if violations.is_empty() {
            tally.passed += 1;
            continue;
        }
        tally.failed += 1;
        for violation in violations {
            *tally.broken.entry(violation.rule).or_default() += 1;
            tally.lost += u64::from(rules::LOSS.contains(&violation.rule));
            tally.first.entry(violation.rule).or_insert_with(|| begun.elapsed());
        }
        if !options.keep_going {
            break;
        }
    }
    tally
}

fn round(
    options: &Options,
    number: u32,
    fault_tools: &Arc<FaultTools>,
    tally: &mut Tally,
    say: &mut dyn FnMut(&str),
) -> Vec<Violation> {
    let seed = mix(options.seed ^ u64::from(number).wrapping_mul(0x9e37_79b9));
    let mut random = Random::new(seed);
    let disk = choose_disk(options, &mut random);
    let (directory, disk) = RoundDirectory::make(&options.directory, disk);
    let database = options.store.as_ref().map(|access| access.create_database().expect("a database"));
    let binary = Binary {
        path: options.binary.clone(),
        home: directory.home(),
        store: database.as_ref().map(Database::url),
        scratch: directory.scratch(),
        mutant: options.mutant.clone(),
    };
    let shared = Arc::new(Round {
        history: history::History::default(),
        directory,
        fault_tools: Arc::clone(fault_tools),
        workers: options.processes,
        profile: options.profile,
        number,
        jumps: random.below(10) < 6,
        slots: choose_slots(options.profile, &mut random),
    });
    let mut lead = Worker::new(options.processes, random.next(), binary.clone(), &shared);
    lead.prepare();
    let workers: Vec<_> = (0..options.processes)
        .map(|id| {
            let mut worker = Worker::new(id, random.next(), binary.clone(), &shared);
            let steps = options.steps;
            thread::spawn(move || {
                worker.work(steps);
                worker.tally
            })
        })
        .collect();
    for worker in workers {
        let done = worker.join().expect("a worker does not panic");
        tally.add(&done);
    }
    lead.finish();
    let events = shared.history.take();
    let violations = rules::check(&events);
    tally.disks_filled += shared.directory.filled();
    for (verb, counts) in &events.verbs {
        let sum = tally.verbs.entry(verb.clone()).or_default();
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let acknowledged = events.appends.iter().filter(|append| append.outcome == Outcome::Done && !append.imported);
    tally.lines += acknowledged.map(|append| append.lines.len() as u64).sum::<u64>();
    if !violations.is_empty() {
        report::print(options, number, disk, &events, &violations, say);
        if options.keep {
            let kept = shared.directory.keep(&options.directory);
            say(&kept.map_or_else(
                |error| format!("cannot keep the home: {error}"),
                |path| format!("kept the home in {}", path.display()),
            ));
        }
    }
    violations
}

fn choose_disk(options: &Options, random: &mut Random) -> Disk {
    match random.below(10) {
        // With a server only the logs are on the disk, and they need little space.
        0..3 if options.profile != Profile::Race && options.store.is_some() => {
            Disk::Small(200_000 + random.below(400_000))
        }
        0..3 if options.profile != Profile::Race => Disk::Small(2_600_000 + random.below(2_000_000)),
        0..6 => Disk::Real,
        _ => Disk::Memory,
    }
}

/// Chooses the limit on running runs: low for the queue profile and for some rounds.
fn choose_slots(profile: Profile, random: &mut Random) -> usize {
    let few = match profile {
        Profile::Only(Group::Queue) => true,
        Profile::All => random.below(3) == 0,
        _ => false,
    };
    if few { 1 + usize::try_from(random.below(3)).unwrap_or(0) } else { MANY_SLOTS }
}

impl Worker {
    /// Creates the home and the sessions that always exist.
    fn prepare(&mut self) {
        self.faulty = false;
        self.run_clean(&Call::new(&["init"]));
        let config = domain::shared::config(self.round.slots, self.round.workers);
        std::fs::write(self.binary.home.join("config/duolog.toml"), config).expect("the configuration");
        self.first_tick();
        for session in ["stable-0", "stable-1"] {
            self.create(&["--id", session], Some(session.to_owned()), None);
        }
    }

    fn work(&mut self, steps: usize) {
        if self.round.profile == Profile::Race {
            self.faulty = false;
            for number in 0..steps {
                self.begin_step(number);
                self.race();
            }
            return;
        }
        self.ensure_own();
        for number in 0..steps {
            self.begin_step(number);
            let group = self.choose_group();
            let domain = match self.round.profile {
                Profile::Only(_) => true,
                Profile::All => self.chance(50),
                Profile::Logs | Profile::Race => false,
            };
            if domain {
                self.domain_step(group);
            } else {
                self.step();
            }
        }
    }

    /// Runs one random step.
    fn step(&mut self) {
        match self.below(100) {
            0..42 => self.append(),
            42..52 => self.retry(),
            52..58 => self.delete_shared(),
            58..64 => self.make_shared(),
            64..67 => self.remake_own(),
            67..70 => self.rename(),
            70..72 => self.move_own(),
            72..77 => self.cat(),
            77..84 => self.follow(),
            84..87 => self.export(),
            87..89 => self.list(),
            89..92 => self.look_around(),
            92..94 => self.maintain(),
            94..96 => self.backup(),
            96..98 => self.probe(),
            _ => self.fill_disk(),
        }
    }

    /// Fills a small disk, and frees the space a few steps later.
    fn fill_disk(&mut self) {
        let round = Arc::clone(&self.round);
        if !round.directory.is_small() {
            return self.append();
        }
        round.directory.fill();
        for _ in 0..=self.below(4) {
            self.append();
        }
        round.directory.free();
    }
}
