//! Commands that are stopped (SIGSTOP) at each of their steps while others work, and then go on.
//!
//! What was acknowledged must be there as if every command had happened at one moment between its start and its end: some
//! order of all commands explains every answer and all that was read on the way. What was refused changed nothing.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::check::{self, Found, Held, NEXT, There, again, counted, done, glance, go_on, look, matching, sound};
use super::disk::Loss;
use super::follower::Follower;
use super::home::{Binary, Home};
use super::ledger::{Effect, Ledger, Moment, Played};
use super::targets::{CLOSED, FIRST, FRESH, Order, Prepared, ask, meanwhile, played, targets};

/// Which step of which command is hit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) target: usize,
    pub(crate) other: usize,
    pub(crate) step: u32,
}

/// Runs one case. False if the command has fewer steps.
pub(crate) fn run(binary: &Binary, prepared: &Prepared, case: Case) -> Held<bool> {
    let copied = prepared.copy(binary)?;
    let places = prepared.places(copied.scratch.path());
    let (name, target) = targets(&places).swap_remove(case.target);
    let (meanwhile_name, others) = meanwhile(&places).swap_remove(case.other);
    let what = format!("{name}, stopped before step {}, while others: {meanwhile_name}", case.step);
    let paused = paused(&copied.home, prepared, &target, &others, case.step, copied.scratch.path());
    paused.map_err(|why| format!("{what}: {why}"))
}

fn paused(home: &Home, prepared: &Prepared, target: &Order, others: &[Order], step: u32, scratch: &Path) -> Held<bool> {
    let mut followers: Vec<Follower> = [FIRST, FRESH, CLOSED].map(Follower::new).into();
    for follower in &mut followers {
        follower.resume(home)?;
    }
    let Some(stopped) = Stopped::start(home, target, step) else { return Ok(false) };
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
        // What follows builds on it.
        if refused {
            break;
        }
    }
    let target_done = played(target, 0, stopped.go_on());
    for copy in ["copy", "target-copy"].map(|name| scratch.join(name)) {
        let ordered = |played: &Played| played.arguments.iter().any(|word| Path::new(word) == copy);
        let whole = ledger.played.iter().chain([&target_done]).any(|played| ordered(played) && played.agreed());
        if whole {
            check_copy(home, &copy, &target_done, prepared)?;
        }
    }
    // A log that a failed sync closed is opened by a repair, before or after.
    done(&home.run(&["log", "repair", CLOSED], None), "repairing")?;
    sound(home, "after all went on")?;
    for follower in &mut followers {
        follower.resume(home)?;
    }
    let all: Vec<&Played> = ledger.played.iter().chain([&target_done]).collect();
    let removes = |of: &str, played: &&&Played| match &played.effect {
        Effect::DeleteLog { session } => session == of && !played.refused(),
        _ => false,
    };
    for (follower, session) in followers.iter().zip([FIRST, FRESH, CLOSED]) {
        let cleared = all.iter().any(|played| removes(session, &played) && played.agreed());
        // An append to a session that was deleted makes another of that name.
        let deletes = |played: &&Played| matches!(&played.effect, Effect::Delete { session: of } if of == session);
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

/// Some moment of the stopped command explains all answers and all that was read.
pub(crate) fn explained(
    before: &Ledger,
    others: &[Played],
    target: &Played,
    reads: &[(usize, Found)],
    last: &Found,
) -> Held {
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
        // The last place is behind all that was read.
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
    Err(format!("no order explains what was found:\n{}\n{}", answers.join("\n"), reasons.join("\nor else: ")))
}

/// The next append and transition of every session succeed and change that session alone.
pub(crate) fn next(home: &Home, before: &Found) -> Held {
    for there in before.sessions.values() {
        go_on(home, &there.id)?;
    }
    let after = look(home, &BTreeSet::new())?;
    counted(&after)?;
    // By their ids: all have another name now.
    let same = |found: &Found, id: &str| {
        let there = found.sessions.values().find(|there| there.id == id);
        let lines = there.and_then(|there| there.lines.as_ref());
        lines.into_iter().flatten().filter(|line| *line == NEXT).count()
    };
    for There { id, .. } in before.sessions.values() {
        let (was, is) = (same(before, id), same(&after, id));
        if is != was + 1 {
            return Err(format!("one more line was appended to {id}: it had {was} of them and has {is}"));
        }
    }
    sound(home, "after the next commands")
}

/// A copy is a home of its own: it opens, nothing is missing in it, and an operation asked again there is not doubled.
fn check_copy(home: &Home, copy: &Path, target: &Played, prepared: &Prepared) -> Held {
    let mut other = home.clone();
    other.at = copy.parent().unwrap_or(copy).join(format!("{}-home", copy.file_name().unwrap_or_default().display()));
    other.watched = None;
    // What backup writes is the state directory of a home, or a home itself.
    if copy.join("home_id").exists() {
        std::fs::create_dir(&other.at).expect("a directory");
        std::fs::rename(copy, other.at.join("state")).expect("the copy moved");
    } else {
        std::fs::rename(copy, &other.at).expect("the copy moved");
    }
    sound(&other, "in the copy")?;
    let _ = other.run(&["log", "repair", CLOSED], None);
    let mut asked: Vec<&Played> = prepared.ledger.played.iter().collect();
    asked.push(target);
    let once = |played: &&&Played| matches!(played.effect, Effect::Append { operation: Some(_), .. });
    let runs = BTreeSet::new();
    let found = look(&other, &runs).map_err(|why| format!("in the copy: {why}"))?;
    for played in asked.iter().filter(once) {
        let _ = again(&other, played);
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
        // The stopped operation may be in the copy or not; asked again there, it is there once.
        if is != was && !(target_there && is == was + 1) {
            return Err(format!("in the copy, operations asked again made {is} lines of {was} in {session}"));
        }
    }
    check::counted(&after).map_err(|why| format!("in the copy: {why}"))
}

/// A command that was stopped at a step. It is killed if it is not continued.
struct Stopped(Option<Child>);

impl Stopped {
    /// Starts the command and waits until it is stopped; none if it ended before that step.
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

    /// Lets it go on to its end, and returns its exit code.
    fn go_on(mut self) -> Option<i32> {
        let child = self.0.take().expect("it is stopped");
        kill_process(pid_of(&child), Signal::CONT).expect("it is stopped");
        child.wait_with_output().expect("a child").status.code()
    }
}

impl Drop for Stopped {
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
