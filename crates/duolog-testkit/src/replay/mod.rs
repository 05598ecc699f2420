//! The crash harness for the real binary: it runs a script while its system calls are recorded; the directory is
//! rebuilt as a crash at any call would leave it; and the binary must find everything there that it acknowledged.
//!
//! Both stores are on the recorded disk: SQLite's files as well as the logs. Seeds are printed. The same seed gives the
//! same commands and the same points, but not the same timestamps and generated ids.

mod atomic;
mod campaign;
mod check;
mod disk;
mod fault;
mod follower;
mod home;
mod killed;
mod ledger;
mod play;
mod record;
mod script;
mod shim;
mod steps;
mod stopped;
mod targets;
mod template;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub use atomic::{WITHOUT_OWNED_ROWS, transactions};
pub use campaign::{Cases, kills, pauses};
use disk::{Disk, Loss};
pub use fault::Fault;
use home::{Binary, Home};
use ledger::Moment;
use play::Recording;
use record::Change;
use shim::Shim;
use tree::Tree;

use crate::random::{Random, mix};

/// The size of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The real binary.
    pub binary: PathBuf,
    /// The seed of scripts and points.
    pub seed: u64,
    /// The number of scripts.
    pub scripts: u64,
    /// The number of commands per script.
    pub commands: usize,
    /// The number of crashes per script; none: every call, with every loss.
    pub points: Option<usize>,
    /// The faults to inject, one per script in turn; empty: no faults.
    pub faults: Vec<Fault>,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Scripts.
    pub scripts: u64,
    /// Commands.
    pub commands: usize,
    /// Recorded system calls.
    pub calls: usize,
    /// Crashes after which the home was opened and checked.
    pub points: usize,
}

/// Runs scripts and checks crashes inside them. The error describes the violation and how to reproduce it.
pub fn run(options: &Options) -> Result<Summary, String> {
    let binary = Binary { path: options.binary.clone(), shim: Arc::new(Shim::build()) };
    let mut summary = Summary::default();
    for number in 0..options.scripts {
        let seed = options.seed.wrapping_add(number);
        let fault = usize::try_from(number).ok().and_then(|number| options.faults.iter().cycle().nth(number)).copied();
        let recording = play::play(&binary, seed, options.commands, fault)?;
        check_recorded(&recording)?;
        summary.scripts += 1;
        summary.commands += recording.ledger.played.len();
        summary.calls += recording.records.len();
        let crashes = match options.points {
            Some(points) => sample_crashes(&recording, points, seed),
            None => all_crashes(&recording),
        };
        summary.points += crashes.len();
        try_all(&binary, &recording, &crashes).map_err(|why| format!("seed {seed}, faults {fault:?}: {why}"))?;
    }
    Ok(summary)
}

/// Returns an error if the binary makes system calls without the C library, because those cannot be recorded.
fn check_recorded(recording: &Recording) -> Result<(), String> {
    let log =
        |record: &record::Record| record.path.contains("/sessions/") && matches!(record.change, Change::Write { .. });
    if recording.records.iter().any(log) {
        return Ok(());
    }
    Err("the recorder sees no write to a log: the binary does not use the C library".to_owned())
}

/// A crash: the number of records before it, the loss, and whether half of the next write was done.
#[derive(Clone, Copy, Debug)]
struct Crash {
    after: usize,
    loss: Loss,
    torn: bool,
    seed: u64,
}

fn all_crashes(recording: &Recording) -> Vec<Crash> {
    let mut crashes = Vec::new();
    for after in 1..=recording.records.len() {
        for loss in Loss::ALL {
            for torn in [false, true] {
                crashes.push(Crash { after, loss, torn, seed: mix(after as u64) });
            }
        }
    }
    crashes.retain(|crash| !crash.torn || torn(recording, crash.after));
    crashes
}

fn torn(recording: &Recording, after: usize) -> bool {
    matches!(recording.records.get(after).map(|record| &record.change), Some(Change::Write { data, .. }) if data.len() > 1)
}

/// Chooses crashes such that every command is hit equally often, however many calls it makes.
fn sample_crashes(recording: &Recording, points: usize, seed: u64) -> Vec<Crash> {
    let mut random = Random::new(mix(seed ^ 0x5eed));
    let below = |random: &mut Random, n: usize| usize::try_from(random.below(n as u64)).unwrap_or_default();
    let mut crashes: Vec<Crash> = (0..points)
        .map(|_| {
            let played = &recording.ledger.played[below(&mut random, recording.ledger.played.len())];
            let first = recording.records.partition_point(|record| record.end <= played.begun);
            let last = recording.records.partition_point(|record| record.end <= played.ended);
            let after = (first + below(&mut random, last - first + 1)).max(1);
            let loss = Loss::ALL[below(&mut random, Loss::ALL.len())];
            let torn = random.below(4) == 0 && torn(recording, after);
            Crash { after, loss, torn, seed: random.next() }
        })
        .collect();
    crashes.sort_by_key(|crash| crash.after);
    crashes
}

/// Rebuilds the directory for each crash; two threads open and check it.
fn try_all(binary: &Binary, recording: &Recording, crashes: &[Crash]) -> Result<(), String> {
    let disk = Mutex::new((Disk::empty(recording.root), 0_usize));
    let next = AtomicUsize::new(0);
    let broken: Mutex<Option<String>> = Mutex::new(None);
    let work = || {
        loop {
            let mut disk = disk.lock().expect("no thread panicked");
            let Some(crash) = crashes.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            while disk.1 < crash.after {
                let record = &recording.records[disk.1];
                disk.0.apply(record);
                disk.1 += 1;
            }
            let mut random = Random::new(crash.seed);
            let tree = if crash.torn {
                let mut half = disk.0.clone();
                half.apply_half(&recording.records[crash.after]);
                half.after(crash.loss, &mut random)
            } else {
                disk.0.after(crash.loss, &mut random)
            };
            drop(disk);
            if let Err(why) = try_one(binary, recording, *crash, &tree) {
                broken.lock().expect("no thread panicked").get_or_insert(why);
            }
            if broken.lock().expect("no thread panicked").is_some() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    broken.into_inner().expect("no thread panicked").map_or(Ok(()), Err)
}

fn try_one(binary: &Binary, recording: &Recording, crash: Crash, tree: &Tree) -> Result<(), String> {
    let scratch = crate::crash::scratch();
    let home = opened(binary, scratch.path(), crash, tree);
    let at = recording.records[crash.after - 1].end;
    let faulty = recording.fault.is_some_and(Fault::loses_pages);
    let moment = Moment { at, loss: crash.loss, faulty, retried: false };
    let repair = recording.fault.is_some_and(Fault::closes_logs);
    let Err(why) = check::check(&home, &recording.ledger, &recording.records, moment, repair) else { return Ok(()) };
    let kept = tempfile::Builder::new().prefix("duolog-broken-").tempdir().expect("a directory").keep();
    tree.write_to(&kept);
    Err(format!("{}\n{why}\nthe directory is kept in {}", story(recording, crash), kept.display()))
}

/// Writes the rebuilt directory as a home, with a new boot id unless only the processes died.
fn opened(binary: &Binary, at: &Path, crash: Crash, tree: &Tree) -> Home {
    tree.write_to(at);
    let boot = if crash.loss == Loss::None { "first" } else { "second" };
    Home::new(binary, &at.join("home"), boot)
}

/// Describes the commands and calls before the crash.
fn story(recording: &Recording, crash: Crash) -> String {
    use std::fmt::Write as _;
    let at = recording.records[crash.after - 1].end;
    let mut story = format!("crash after call {} of {}, loss {:?}", crash.after, recording.records.len(), crash.loss);
    if crash.torn {
        story.push_str(", half of the next write");
    }
    for played in recording.ledger.played.iter().filter(|played| played.begun < at) {
        let acknowledged = played.acknowledged(&recording.records).is_some_and(|end| end <= at);
        let outcome = match (acknowledged, played.ended <= at) {
            (true, _) => "acknowledged".to_owned(),
            (false, true) => format!("exit code {:?}", played.code),
            (false, false) => "in flight".to_owned(),
        };
        let _ = write!(story, "\n  {outcome}: duolog {}", played.arguments.join(" "));
    }
    let from = crash.after.saturating_sub(6);
    for record in &recording.records[from..(crash.after + 2).min(recording.records.len())] {
        let mark = if record.end == at { " <- the crash" } else { "" };
        let _ = write!(story, "\n  call of {}: {} {}{mark}", record.pid, record.name(), record.path);
    }
    story
}
