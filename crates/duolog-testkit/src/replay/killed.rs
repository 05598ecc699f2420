//! Kills commands (SIGKILL) before each of their steps, and repeats them.

use std::collections::BTreeSet;

use super::check::{CheckResult, check_health, done, look};
use super::follower::Follower;
use super::home::Binary;
use super::ledger::Ledger;
use super::stopped::{explained, next};
use super::targets::{CLOSED, FIRST, FRESH, Prepared, ask, ask_with, targets};

/// Kills one command before a step, repeats it and checks the home. Returns false if the command has fewer steps.
pub(crate) fn run(binary: &Binary, prepared: &Prepared, target: usize, step: u32) -> CheckResult<bool> {
    let copied = prepared.copy(binary)?;
    let (scratch, home) = (&copied.scratch, &copied.home);
    let (name, order) = targets(&prepared.places(scratch.path())).swap_remove(target);
    let killed = || {
        let mut followers: Vec<Follower> = [FIRST, FRESH, CLOSED].map(Follower::new).into();
        for follower in &mut followers {
            follower.resume(home)?;
        }
        let first = ask_with(home, &order, Some(&format!("kill step * {step} 0")));
        if first.code.is_some() {
            return Ok(false);
        }
        copied.wait_for_server()?;
        for follower in &mut followers {
            follower.resume(home)?;
        }
        // A killed backup leaves an incomplete copy.
        let _ = std::fs::remove_dir_all(scratch.path().join("target-copy"));
        let second = ask(home, &order);
        if !(second.agreed() || second.code == Some(1)) {
            return Err(format!("{:?}, repeated, exited with {:?}", order.arguments, second.code));
        }
        done(&home.run(&["log", "repair", CLOSED], None), "repairing")?;
        check_health(home, "after the kill")?;
        for (follower, session) in followers.iter_mut().zip([FIRST, FRESH, CLOSED]) {
            follower.resume(home)?;
            let cleared = name == "delete --log" && session == FIRST;
            follower.compare(home, session == CLOSED || cleared, cleared)?;
        }
        let found = look(home, &BTreeSet::new())?;
        let before = Ledger { played: prepared.ledger.played.iter().cloned().chain([first]).collect() };
        explained(&before, &[], &second, &[], &found)?;
        next(home, &found)?;
        Ok(true)
    };
    killed().map_err(|why: String| format!("{name}, killed before step {step}: {why}"))
}
