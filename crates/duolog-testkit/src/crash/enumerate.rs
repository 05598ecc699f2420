//! Turns every point in time of a workload into a crash.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use duolog_types::{Durability, HomeId};

use super::check::{Broken, Crashed, Memory, check};
use super::ledger::Ledger;
use super::script::{Player, Script, watch};
use super::world::{Commits, StateCopy, World, scratch};
use crate::disk::{Call, CallKind, Crash, Fault, Loss, SimDisk};

/// The result of an enumeration.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Disk calls of the workload.
    pub calls: usize,
    /// Commits of the workload.
    pub commits: usize,
    /// Crashes that were recovered from and checked.
    pub points: usize,
    /// The first violation, and the number of points until it was found.
    pub broken: Option<(usize, String, Broken)>,
}

/// The state of the recorded run just before a disk call.
struct Moment {
    call: Call,
    commits: usize,
    ledger: Ledger,
    process: SimDisk,
    losses: Vec<(Loss, SimDisk)>,
}

/// A crash to check.
struct Point {
    what: String,
    disk: SimDisk,
    state: StateCopy,
    survived: Durability,
    ledger: Arc<Ledger>,
}

/// Runs a workload once, then crashes it at every disk call and every byte, with every state that could survive.
pub fn enumerate(script: Script, seeds: u64) -> Summary {
    let scratch = scratch();
    let copies = scratch.path().join("copies");
    std::fs::create_dir(&copies).expect("a directory");
    let home = HomeId::new();
    let (moments, commits) = record(script, &scratch.path().join("state"), &copies, home, seeds);
    let points = points(&moments, &commits);
    let mut summary = check_points(&points, scratch.path(), home);
    summary.calls = moments.len();
    summary.commits = commits.len();
    summary
}

fn record(script: Script, dir: &Path, copies: &Path, home: HomeId, seeds: u64) -> (Vec<Moment>, Commits) {
    let disk = SimDisk::new();
    let commits = Commits::default();
    let mut world = World::at(dir, home);
    world.on_commit = Some(commits.hook(copies));
    let mut player = Player::new(world, &disk);
    let moments: Arc<Mutex<Vec<Moment>>> = Arc::default();
    let (ledger, watchers, recorded) = (player.ledger.clone(), player.watchers.clone(), moments.clone());
    let (view, taken) = (disk.clone(), commits.clone());
    disk.on_call(Arc::new(move |call| {
        // Readers look before every disk call, also in the middle of an append.
        watch(&watchers, &ledger);
        if !call.kind.is_mutation() {
            return;
        }
        let losses = Loss::all(seeds).into_iter().map(|loss| (loss, view.crash(Crash::Power(loss)))).collect();
        recorded.lock().expect("one thread").push(Moment {
            call: call.clone(),
            commits: taken.len(),
            ledger: ledger.lock().expect("one thread").clone(),
            process: view.crash(Crash::Process),
            losses,
        });
    }));
    player.play(script);
    // And after the last call.
    let losses = Loss::all(seeds).into_iter().map(|loss| (loss, disk.crash(Crash::Power(loss)))).collect();
    let end = Call { index: disk.call_count(), kind: CallKind::Sync, path: PathBuf::new(), len: 0, process: 0 };
    let mut moments = std::mem::take(&mut *moments.lock().expect("one thread"));
    moments.push(Moment {
        call: end,
        commits: commits.len(),
        ledger: player.ledger.lock().expect("one thread").clone(),
        process: disk.crash(Crash::Process),
        losses,
    });
    (moments, commits)
}

fn points(moments: &[Moment], commits: &Commits) -> Vec<Point> {
    let mut points = Vec::new();
    for (number, moment) in moments.iter().enumerate() {
        let Some(latest) = commits.latest(moment.commits) else { continue };
        let ledger = Arc::new(moment.ledger.clone());
        let at = format!("call {} {:?} {}", moment.call.index, moment.call.kind, moment.call.path.display());
        let mut add = |what: String, disk: SimDisk, state: StateCopy, survived| {
            points.push(Point { what, disk, state, survived, ledger: ledger.clone() });
        };
        add(
            format!("process dies before {at}"),
            moment.process.crash(Crash::Process),
            latest.clone(),
            Durability::Process,
        );
        for (cut, disk) in cuts(moment, moments.get(number + 1)) {
            add(format!("process dies in {at} after {cut} bytes"), disk, latest.clone(), Durability::Process);
        }
        for (loss, disk) in &moment.losses {
            for state in commits.survivors(moment.commits) {
                let what = format!("power goes before {at}, {loss:?}, state {}", state.path.display());
                add(what, disk.crash(Crash::Process), state, Durability::Power);
            }
        }
    }
    points
}

/// Returns the disks that a process leaves if it dies inside an append, one for each number of written bytes.
fn cuts(moment: &Moment, after: Option<&Moment>) -> Vec<(usize, SimDisk)> {
    let path = &moment.call.path;
    let (Some(after), CallKind::Append) = (after, moment.call.kind) else { return Vec::new() };
    let before = moment.process.read(path).unwrap_or_default();
    let Some(written) = after.process.read(path).filter(|bytes| bytes.starts_with(&before)) else { return Vec::new() };
    (1..written.len() - before.len())
        .map(|cut| {
            let disk = moment.process.crash(Crash::Process);
            disk.write(path, &written[..before.len() + cut]);
            (cut, disk)
        })
        .collect()
}

/// Checks every point on several threads until one fails.
fn check_points(points: &[Point], scratch: &Path, home: HomeId) -> Summary {
    let (next, first) = (AtomicUsize::new(0), Mutex::new(None::<(usize, String, Broken)>));
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (next, first) = (&next, &first);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let Some(point) = points.get(number) else { return };
                    let dir = scratch.join(format!("worker-{worker}-{number}"));
                    std::fs::create_dir(&dir).expect("a directory");
                    std::fs::copy(&point.state.path, dir.join("state.db")).expect("a copy of the state");
                    let crashed = Crashed {
                        disk: point.disk.crash(Crash::Process),
                        before: point.disk.clone(),
                        memory: if point.survived == Durability::Process { Memory::Complete } else { Memory::Partial },
                        dir: &dir,
                        home,
                        survived: point.survived,
                        ledger: &point.ledger,
                    };
                    let held = check(&crashed);
                    std::fs::remove_dir_all(&dir).expect("removed");
                    if let Err(broken) = held {
                        let mut first = first.lock().expect("no panic");
                        if first.as_ref().is_none_or(|(found, _, _)| number < *found) {
                            *first = Some((number, point.what.clone(), broken));
                        }
                        next.store(points.len(), Ordering::SeqCst);
                        return;
                    }
                }
            });
        }
    });
    let broken = first.into_inner().expect("no panic").map(|(number, what, broken)| (number + 1, what, broken));
    Summary { points: broken.as_ref().map_or(points.len(), |(number, _, _)| *number), broken, ..Summary::default() }
}

/// The disk calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// All calls, reads and locks included.
    All,
    /// Calls that change or sync a file.
    Mutations,
}

/// Runs a workload once for every disk call and every way it can fail, and continues after the failure.
pub fn faults(script: Script, which: Calls) -> Summary {
    let calls: Vec<Call> =
        dry_run(script).into_iter().filter(|call| which == Calls::All || call.kind.is_mutation()).collect();
    let mut summary = Summary { calls: calls.len(), ..Summary::default() };
    for call in &calls {
        let short = Fault::Short(usize::try_from(call.len / 2).unwrap_or(0));
        let mut faults = vec![Fault::Error(EIO), Fault::Error(ENOSPC), Fault::Stop { after_bytes: None }];
        if call.kind == CallKind::Append {
            faults.push(short);
        }
        for fault in faults {
            summary.points += 1;
            if let Err(broken) = run_with(script, call.index, fault) {
                let what = format!("{fault:?} at call {} {:?} {}", call.index, call.kind, call.path.display());
                summary.broken = Some((summary.points, what, broken));
                return summary;
            }
        }
    }
    summary
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn dry_run(script: Script) -> Vec<Call> {
    let scratch = scratch();
    let disk = SimDisk::new();
    Player::new(World::at(&scratch.path().join("state"), HomeId::new()), &disk).play(script);
    disk.calls()
}

fn run_with(script: Script, index: usize, fault: Fault) -> Result<(), Broken> {
    let scratch = scratch();
    let disk = SimDisk::new();
    let home = HomeId::new();
    let dir = scratch.path().join("state");
    disk.fail_at(index, fault);
    let mut player = Player::new(World::at(&dir, home), &disk);
    player.play(script);
    disk.heal();
    let ledger = player.ledger.lock().expect("one thread").clone();
    let disk = disk.crash(Crash::Process);
    let before = disk.crash(Crash::Process);
    // A writer that died before its lines were folded took its knowledge with it.
    let memory = if matches!(fault, Fault::Stop { .. }) { Memory::Partial } else { Memory::Complete };
    check(&Crashed { disk, before, memory, dir: &dir, home, survived: Durability::Process, ledger: &ledger })
}
