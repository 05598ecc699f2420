//! The black-box random tester: the real binary, driven by random commands from many processes at once.
//!
//! Workers run commands side by side, and some of the processes are killed, paused, slowed down, given a wrong clock or
//! a full disk. What they answered is held against a simple model: acknowledged means there, once; refused means that
//! nothing changed; nobody else's data is touched. What is not the log is held against a small model per noun
//! ([`domain`]). A seed decides what each worker does, step by step; what the scheduler does is its own affair, so a seed
//! makes a finding likely again, not certain.

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

use command::{Binary, Call, Outcome, Ran};
use faults::Means;
use history::Violation;
use home::{Disk, Ground};
use worker::{Round, Worker};

pub use domain::Group;
pub use report::summary;

use crate::postgres::{Access, Database};
use crate::random::{Random, mix};

/// What the workers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Logs and sessions.
    Logs,
    /// Everything.
    All,
    /// Only appends, deletions and creations under the same few names, as fast as they can.
    Race,
    /// Only the nouns of one group.
    Only(Group),
}

impl Profile {
    /// The profile of this name.
    pub fn named(name: &str) -> Option<Self> {
        let group = Group::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, group)| Self::Only(group));
        match name {
            "all" => Some(Self::All),
            "logs" => Some(Self::Logs),
            "race" => Some(Self::Race),
            _ => group,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Logs => "logs",
            Self::Race => "race",
            Self::Only(group) => Group::ALL.into_iter().find(|(_, known)| *known == group).map_or("", |(name, _)| name),
        }
    }
}

/// So many runs may run at once that the limit does not matter.
const MANY_SLOTS: usize = 100_000;

/// How to run it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides what the workers do.
    pub seed: u64,
    /// The most rounds.
    pub rounds: u32,
    /// No round begins after this time.
    pub time: Option<Duration>,
    /// Workers.
    pub processes: usize,
    /// Commands of each worker in a round.
    pub steps: usize,
    /// What they do.
    pub profile: Profile,
    /// The binary.
    pub binary: PathBuf,
    /// A PostgreSQL in which every round makes a database; `None` for SQLite in the home.
    pub store: Option<Access>,
    /// Where homes are made.
    pub directory: PathBuf,
    /// A rule that is removed in the binary, which was built for tests.
    pub mutant: Option<String>,
    /// Keep the home of a round that failed.
    pub keep: bool,
    /// Go on after a round that failed.
    pub keep_going: bool,
}

/// What was done and what came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Rounds that held.
    pub passed: u32,
    /// Rounds that did not.
    pub failed: u32,
    /// Commands by noun and verb: done, refused, unknown.
    pub verbs: BTreeMap<String, [u64; 3]>,
    /// Lines that were acknowledged.
    pub lines: u64,
    /// Lines that were acknowledged and are not there, or not at a place of their own.
    pub lost: u64,
    /// Processes that were to be killed.
    pub kills: u64,
    /// Processes that were paused or slowed down.
    pub pauses: u64,
    /// Processes with a wrong clock.
    pub clock_jumps: u64,
    /// Times that a disk was filled.
    pub disks_filled: u64,
    /// Rules that did not hold, and how often.
    pub broken: BTreeMap<&'static str, u64>,
    /// When each rule was first broken.
    pub first: BTreeMap<&'static str, Duration>,
    /// What this machine cannot do.
    pub missing: Vec<&'static str>,
}

impl Tally {
    fn count(&mut self, call: &Call, ran: &Ran) {
        self.kills += u64::from(call.fault.kills() && ran.code.is_none());
        self.pauses += u64::from(call.fault.pauses());
        self.clock_jumps += u64::from(call.clock_ms.is_some());
    }

    fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.pauses += other.pauses;
        self.clock_jumps += other.clock_jumps;
    }

    /// All commands: done, refused, unknown.
    pub fn commands(&self) -> [u64; 3] {
        self.verbs.values().fold([0; 3], |sum, counts| [0, 1, 2].map(|index| sum[index] + counts[index]))
    }
}

/// Runs rounds until one fails, or time or rounds are over. Each line for people goes to `say`.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Tally {
    let tools = tempfile::tempdir().expect("a directory");
    let means = Arc::new(Means::find(tools.path()));
    let mut tally = Tally { missing: means.missing(), ..Tally::default() };
    let begun = Instant::now();
    for number in 0..options.rounds {
        if options.time.is_some_and(|time| begun.elapsed() >= time) {
            break;
        }
        let violations = round(options, number, &means, &mut tally, say);
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
    means: &Arc<Means>,
    tally: &mut Tally,
    say: &mut dyn FnMut(&str),
) -> Vec<Violation> {
    let seed = mix(options.seed ^ u64::from(number).wrapping_mul(0x9e37_79b9));
    let mut random = Random::new(seed);
    let disk = choose_disk(options, &mut random);
    let (ground, disk) = Ground::make(&options.directory, disk);
    let database = options.store.as_ref().map(|access| access.create_database().expect("a database"));
    let binary = Binary {
        path: options.binary.clone(),
        home: ground.home(),
        store: database.as_ref().map(Database::url),
        scratch: ground.scratch(),
        mutant: options.mutant.clone(),
    };
    let shared = Arc::new(Round {
        history: history::History::default(),
        ground,
        means: Arc::clone(means),
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
    tally.disks_filled += shared.ground.filled();
    for (verb, counts) in &events.verbs {
        let sum = tally.verbs.entry(verb.clone()).or_default();
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let acknowledged = events.appends.iter().filter(|append| append.outcome == Outcome::Done && !append.imported);
    tally.lines += acknowledged.map(|append| append.lines.len() as u64).sum::<u64>();
    if !violations.is_empty() {
        report::tell(options, number, disk, &events, &violations, say);
        if options.keep {
            let kept = shared.ground.keep(&options.directory);
            say(&kept.map_or_else(
                |error| format!("cannot keep the home: {error}"),
                |path| format!("the home is kept in {}", path.display()),
            ));
        }
    }
    violations
}

fn choose_disk(options: &Options, random: &mut Random) -> Disk {
    match random.below(10) {
        // On a server the state is elsewhere; the logs alone take little room.
        0..3 if options.profile != Profile::Race && options.store.is_some() => {
            Disk::Small(200_000 + random.below(400_000))
        }
        0..3 if options.profile != Profile::Race => Disk::Small(2_600_000 + random.below(2_000_000)),
        0..6 => Disk::Real,
        _ => Disk::Memory,
    }
}

/// Runs that may run at once: few where the queue is looked at, and where a round is about it.
fn choose_slots(profile: Profile, random: &mut Random) -> usize {
    let few = match profile {
        Profile::Only(Group::Queue) => true,
        Profile::All => random.below(3) == 0,
        _ => false,
    };
    if few { 1 + usize::try_from(random.below(3)).unwrap_or(0) } else { MANY_SLOTS }
}

impl Worker {
    /// Makes the home and the sessions that are always there.
    fn prepare(&mut self) {
        self.faulty = false;
        self.run_calmly(&Call::new(&["init"]));
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

    /// One random step.
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

    /// Fills a small disk, and gives the room back a few steps later.
    fn fill_disk(&mut self) {
        let ground = Arc::clone(&self.round);
        if !ground.ground.is_small() {
            return self.append();
        }
        ground.ground.fill();
        for _ in 0..=self.below(4) {
            self.append();
        }
        ground.ground.free();
    }
}
