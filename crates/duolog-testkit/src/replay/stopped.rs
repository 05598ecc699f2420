//! Stops commands (SIGSTOP) at each of their steps while others run, and then continues them.
//!
//! Every command must take effect at one point in time between its start and its end: some order of all commands must
//! explain every answer and everything that was read meanwhile. A refused command must change nothing.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::check::{
    self, CheckResult, Found, FoundSession, NEXT, check_health, check_next_writes, counted, done, glance, look,
    matching, repeat,
};
use super::disk::Loss;
use super::follower::Follower;
use super::home::{Binary, Home};
use super::ledger::{Attempt, Effect, Ledger, Moment};
use super::targets::{CLOSED, FIRST, FRESH, Order, Prepared, ask, meanwhile, played, targets};

/// A command and the step to stop it at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) target: usize,
    pub(crate) other: usize,
    pub(crate) step: u32,
}

/// Runs one case. Returns false if the command has fewer steps.
pub(crate) fn run(binary: &Binary, prepared: &Prepared, case: Case) -> CheckResult<bool> {
    let copied = prepared.copy(binary)?;
    let places = prepared.places(copied.scratch.path());
    let (name, target) = targets(&places).swap_remove(case.target);
    let (meanwhile_name, others) = meanwhile(&places).swap_remove(case.other);
    let what = format!("{name}, stopped before step {}, while others: {meanwhile_name}", case.step);
    let paused = paused(&copied.home, prepared, &target, &others, case.step, copied.scratch.path());
    paused.map_err(|why| format!("{what}: {why}"))
}

fn paused(
    home: &Home,
    prepared: &Prepared,
    target: &Order,
    others: &[Order],
    step: u32,
    scratch: &Path,
) -> CheckResult<bool> {
    let mut followers: Vec<Follower> = [FIRST, FRESH, CLOSED].map(Follower::new).into();
    for follower in &mut followers {
        follower.resume(home)?;
    }
    let Some(stopped) = StoppedCommand::start(home, target, step) else { return Ok(false) };
    let mut ledger = Ledger::default();
    let mut reads = Vec::new();
    let seen = touched(target, others);
    let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
    for order in others {
        let other = ask(home, order);
        let refused = other.refused();
        ledger.played.push(other);
        if let Some(found) = glance(home, &seen)? {
            reads.push((ledger.played.len(), found));
        }
        for follower in &mut followers {
            follower.resume(home)?;
        }
        // The next commands depend on it.
        if refused {
            break;
        }
    }
    let target_done = played(target, 0, stopped.resume());
    for copy in ["copy", "target-copy"].map(|name| scratch.join(name)) {
        let ordered = |played: &Attempt| played.arguments.iter().any(|word| Path::new(word) == copy);
        let is_written = ledger.played.iter().chain([&target_done]).any(|played| ordered(played) && played.agreed());
        if is_written {
            check_copy(home, &copy, &target_done, prepared)?;
        }
    }
    // A repair opens the log that a failed sync closed.
    done(&home.run(&["log", "repair", CLOSED], None), "repairing")?;
    check_health(home, "after the stopped command ended")?;
    for follower in &mut followers {
        follower.resume(home)?;
    }
    let all: Vec<&Attempt> = ledger.played.iter().chain([&target_done]).collect();
    let removes = |of: &str, played: &&&Attempt| match &played.effect {
        Effect::DeleteLog { session } => session == of && !played.refused(),
        _ => false,
    };
    for (follower, session) in followers.iter().zip([FIRST, FRESH, CLOSED]) {
        let cleared = all.iter().any(|played| removes(session, &played) && played.agreed());
        // An append to a deleted session creates another of that name.
        let deletes = |played: &&Attempt| matches!(&played.effect, Effect::Delete { session: of } if of == session);
        let another = all.iter().any(|played| deletes(played) && !played.refused());
        let changed = session == CLOSED || another || all.iter().any(|played| removes(session, &played));
        follower.compare(home, changed, cleared)?;
    }
    let found = look(home, &BTreeSet::new())?;
    explained(&prepared.ledger, &ledger.played, &target_done, &reads, &found)?;
    next(home, &found)?;
    Ok(true)
}

fn touched(target: &Order, others: &[Order]) -> BTreeSet<String> {
    let of = |order: &Order| match &order.effect {
        Effect::Create { session, .. }
        | Effect::Append { session, .. }
        | Effect::Rename { session, .. }
        | Effect::Delete { session }
        | Effect::DeleteLog { session }
        | Effect::Import { session, .. } => Some(session.clone()),
        Effect::None | Effect::Run { .. } => None,
    };
    others.iter().chain([target]).filter_map(of).collect()
}

/// Checks that some position of the stopped command explains all answers and all reads.
pub(crate) fn explained(
    before: &Ledger,
    others: &[Attempt],
    target: &Attempt,
    reads: &[(usize, Found)],
    last: &Found,
) -> CheckResult {
    let moment = Moment { at: u64::MAX, loss: Loss::None, faulty: false, retried: false };
    let fits = |place: Option<usize>, until: usize, found: &Found| {
        let mut ledger = before.clone();
        for (number, other) in others[..until].iter().enumerate() {
            if place == Some(number) {
                ledger.played.push(target.clone());
            }
            ledger.played.push(other.clone());
        }
        if place == Some(until) {
            ledger.played.push(target.clone());
        }
        matching(found, &ledger.worlds(&[], moment)).map(|_| ())
    };
    let try_place = |place: Option<usize>| {
        for (until, found) in reads {
            fits(place, *until, found).map_err(|why| format!("read after {until} of the others: {why}"))?;
        }
        let place = place.map(|place| place.min(others.len()));
        fits(place, others.len(), last).map_err(|why| format!("at the end: {why}"))
    };
    let mut places: Vec<Option<usize>> = Vec::new();
    if !target.agreed() {
        places.push(None);
    }
    if !target.refused() {
        // The last position is after all reads.
        places.extend((0..=others.len() + 1).map(Some));
    }
    let mut reasons = Vec::new();
    for place in places {
        match try_place(place) {
            Ok(()) => return Ok(()),
            Err(why) => reasons.push(why),
        }
    }
    let answers: Vec<String> = others
        .iter()
        .chain([target])
        .map(|played| format!("  {:?}: duolog {}", played.code, played.arguments.join(" ")))
        .collect();
    reasons.dedup();
    Err(format!("no order explains the answers:\n{}\n{}", answers.join("\n"), reasons.join("\nor: ")))
}

/// The next append to and rename of every session succeed and change only that session.
pub(crate) fn next(home: &Home, before: &Found) -> CheckResult {
    for there in before.sessions.values() {
        check_next_writes(home, &there.id)?;
    }
    let after = look(home, &BTreeSet::new())?;
    counted(&after)?;
    // Compared by id: every session was renamed.
    let same = |found: &Found, id: &str| {
        let there = found.sessions.values().find(|there| there.id == id);
        let lines = there.and_then(|there| there.lines.as_ref());
        lines.into_iter().flatten().filter(|line| *line == NEXT).count()
    };
    for FoundSession { id, .. } in before.sessions.values() {
        let (was, is) = (same(before, id), same(&after, id));
        if is != was + 1 {
            return Err(format!("one line was appended to {id}: it had {was} copies of it and has {is}"));
        }
    }
    check_health(home, "after the next commands")
}

/// A copy is a complete home: it opens, nothing is missing, and a retry of an operation appends nothing twice.
fn check_copy(home: &Home, copy: &Path, target: &Attempt, prepared: &Prepared) -> CheckResult {
    let mut other = home.clone();
    other.at = copy.parent().unwrap_or(copy).join(format!("{}-home", copy.file_name().unwrap_or_default().display()));
    other.watched = None;
    // A backup is the state directory of a home, or a home itself.
    if copy.join("home_id").exists() {
        std::fs::create_dir(&other.at).expect("a directory");
        std::fs::rename(copy, other.at.join("state")).expect("the copy moved");
    } else {
        std::fs::rename(copy, &other.at).expect("the copy moved");
    }
    check_health(&other, "in the copy")?;
    let _ = other.run(&["log", "repair", CLOSED], None);
    let mut asked: Vec<&Attempt> = prepared.ledger.played.iter().collect();
    asked.push(target);
    let once = |played: &&&Attempt| matches!(played.effect, Effect::Append { operation: Some(_), .. });
    let runs = BTreeSet::new();
    let found = look(&other, &runs).map_err(|why| format!("in the copy: {why}"))?;
    for played in asked.iter().filter(once) {
        let _ = repeat(&other, played);
    }
    let after = look(&other, &runs).map_err(|why| format!("in the copy: {why}"))?;
    let count = |found: &Found, id: &str| {
        let lines = found.sessions.get(id).and_then(|there| there.lines.as_ref());
        lines.into_iter().flatten().filter(|line| *line == NEXT).count()
    };
    for session in [FIRST, FRESH] {
        let (was, is) = (count(&found, session), count(&after, session));
        let target_there =
            matches!(&target.effect, Effect::Append { session: of, operation: Some(_), .. } if of == session);
        // The stopped operation may be in the copy or not; after a retry it is there once.
        if is != was && !(target_there && is == was + 1) {
            return Err(format!("in the copy, retried operations turned {was} lines of {session} into {is}"));
        }
    }
    check::counted(&after).map_err(|why| format!("in the copy: {why}"))
}

/// A command that was stopped at a step. Dropping it kills it.
struct StoppedCommand(Option<Child>);

impl StoppedCommand {
    /// Starts the command and waits until it is stopped; `None` if it ended before that step.
    fn start(home: &Home, order: &Order, step: u32) -> Option<Self> {
        let words: Vec<&str> = order.arguments.iter().map(String::as_str).collect();
        let plan = format!("stop step * {step} 0");
        let mut child = home.command(&words, Some(&plan)).spawn().expect("the binary under test");
        child.stdin.take().expect("a pipe").flush().expect("a pipe");
        let pid = pid_of(&child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid), options).expect("a child").expect("a status");
        if status.stopped() {
            return Some(Self(Some(child)));
        }
        let _ = child.wait();
        None
    }

    /// Continues it to its end and returns its exit code.
    fn resume(mut self) -> Option<i32> {
        let child = self.0.take().expect("it is stopped");
        kill_process(pid_of(&child), Signal::CONT).expect("it is stopped");
        child.wait_with_output().expect("a child").status.code()
    }
}

impl Drop for StoppedCommand {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id")
}
