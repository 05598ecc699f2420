use std::process::Command;
use std::sync::Arc;

use duolog::approvals::{Answer, ApprovalFilter};
use duolog::runs::{Begun, End, Fence, Finish, NewGate, NewRun, RunPage};
use duolog::{ApprovalKind, ApprovalStatus, RunId, RunStatus, SessionId, Store};
use duolog_testkit::clock::FixedClock;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::run_races::{child, role};
use super::runs::{BEGIN, new};
use super::{Apart, lines};

on_both_engines!(a_kill_at_any_step_repeats_no_finished_phase, a_run_that_kills_its_owner_is_given_up);

/// The id of the only run of each home.
fn id() -> RunId {
    RunId::parse("the-run").expect("an id")
}

/// The step after which a runner dies.
struct Steps {
    left: Option<usize>,
    taken: usize,
}

impl Steps {
    /// Counts a step, or ends the process without any cleanup.
    fn pass(&mut self) {
        if self.left == Some(self.taken) {
            let pid = std::process::id().to_string();
            Command::new("kill").args(["-KILL", &pid]).status().expect("kills");
            loop {
                std::thread::park();
            }
        }
        self.taken += 1;
    }
}

/// Runs a workflow of two phases with a gate between them to its end, from its current state.
fn drive(store: &Store, owner: &str, mut fence: Option<Fence>, steps: &mut Steps) {
    loop {
        steps.pass();
        let Ok(run) = store.runs().summary(&id()) else {
            let new = NewRun { id: Some(id()), claimed_by: Some(owner.to_owned()), ..new("build", "t") };
            fence = store.runs().start(&new).expect("starts").fence;
            continue;
        };
        match run.status {
            RunStatus::Queued => drop(store.runs().admit(None, 1).expect("admits")),
            RunStatus::Paused => {
                let gate = store.approvals().pending_of(&id()).expect("asked").expect("it waits at one");
                store.approvals().approve(&gate.id, &Answer::default()).expect("approved");
                fence = None;
            }
            RunStatus::Running => {
                let held = match fence {
                    Some(fence) => fence,
                    None => store.runs().open(&id()).claim(owner, None).expect("claimed").fence,
                };
                fence = Some(held);
                work(store, held, steps);
            }
            RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled => return,
        }
    }
}

/// The work of the owner: each phase that is not done, the gate once, and the end.
fn work(store: &Store, fence: Fence, steps: &mut Steps) {
    let run = store.runs().open(&id()).under(fence);
    for gate in store.runs().get(&id()).expect("there").unconsumed {
        steps.pass();
        run.acknowledge(&gate).expect("noted");
    }
    for phase in ["plan", "code"] {
        steps.pass();
        run.enter_phase(phase).expect("entered");
        steps.pass();
        match run.begin(phase, None).expect("asked") {
            Begun::Done(_) => {}
            Begun::Running(_) => panic!("recovery closed the executions in flight"),
            Begun::Started(execution) => {
                steps.pass();
                run.set_session(&execution.id, &SessionId::new()).expect("noted");
                steps.pass();
                run.set_output(&execution.id, &format!("said in {phase}")).expect("kept");
                steps.pass();
                run.end(&execution.id, &Finish { success: true, ..Finish::default() }).expect("ended");
            }
        }
        steps.pass();
        let history = store.runs().get(&id()).expect("there").phase_history;
        if !history.iter().any(|entry| entry.contains(&format!("\"phase\":\"{phase}\""))) {
            run.complete_phase(phase, true, None).expect("noted");
        }
        steps.pass();
        run.merge_scratch(&format!("{{\"{phase}\":true}}")).expect("merged");
        if phase == "plan" && run.gate("post_plan").expect("asked").is_none() {
            steps.pass();
            run.pause_at(&NewGate::new(ApprovalKind::Approve, "post_plan", "look")).expect("paused");
            return;
        }
    }
    steps.pass();
    run.finish(&End::Succeeded, Some("complete")).expect("finished");
}

/// Opens a home at this number of seconds after the start.
fn open_at(options: duolog::StoreOptions, seconds: i64) -> Store {
    let clock = Arc::new(FixedClock::ticking_from((BEGIN + seconds) * 1_000_000));
    Store::open(duolog::StoreOptions { clock, ..options }).expect("opens")
}

/// Runs the workflow and dies after this number of steps, if there are so many.
#[test]
fn drives_and_dies() {
    let Some((options, with)) = role() else { return };
    let (steps, seconds) = with.split_once(' ').expect("steps and seconds");
    let store = open_at(options, seconds.parse().expect("a number"));
    let mut steps = Steps { left: steps.parse().ok(), taken: 0 };
    // The successor of a dead owner recovers first.
    let claim = store.runs().recover("child").expect("recovers").resumed.pop();
    drive(&store, "child", claim.map(|claim| claim.fence), &mut steps);
    println!("\nended");
}

/// Runs the role in a child process. Returns true if it ended by itself.
fn play(apart: &Apart, place: &Place, steps: usize, seconds: i64) -> bool {
    let child = child(apart, place, "run_kills::drives_and_dies", &format!("{steps} {seconds}"));
    let output = child.wait_with_output().expect("ends");
    let ended = String::from_utf8_lossy(&output.stdout).contains("ended");
    assert!(ended == output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    ended
}

fn a_kill_at_any_step_repeats_no_finished_phase(place: &Place) {
    let mut steps = 0;
    loop {
        // Each step has its own home and state.
        let fresh = if place.database().is_some() { Place::postgres() } else { Place::sqlite() };
        let apart = Apart::of(&fresh);
        let ended = play(&apart, &fresh, steps, 0);
        let store = open_at(apart.options(), 61);
        let recovered = store.runs().recover("parent").expect("recovers");
        assert!(recovered.given_up.is_empty(), "step {steps}");
        let done_before = successes(&store);
        drive(
            &store,
            "parent",
            recovered.resumed.first().map(|claim| claim.fence),
            &mut Steps { left: None, taken: 0 },
        );
        let run = store.runs().get(&id()).expect("there");
        assert_eq!(run.summary.status, RunStatus::Succeeded, "step {steps}");
        let done = successes(&store);
        assert_eq!(done.len(), 2, "step {steps}: each phase succeeded once: {done:?}");
        assert!(done_before.iter().all(|one| done.contains(one)), "step {steps}: finished phases stay finished");
        let all = store.runs().open(&id()).executions(99, None).expect("listed").executions;
        assert!(all.iter().all(|one| one.end.is_some()), "step {steps}: nothing is in flight");
        assert!(all.len() <= 3, "step {steps}: only the execution in flight is repeated: {all:?}");
        let filter = ApprovalFilter { run: Some(id()), status: None };
        let gates = store.approvals().list(&filter, &RunPage::default()).expect("listed").approvals;
        assert_eq!(gates.len(), 1, "step {steps}: the gate was opened once");
        assert!(gates[0].status == ApprovalStatus::Approved && gates[0].consumed_at.is_some(), "step {steps}");
        assert_eq!(run.scratch.len(), 2, "step {steps}");
        assert_eq!(run.phase_history.len(), 4, "step {steps}: {:?}", run.phase_history);
        let told = lines(&store, run.summary.session_id.as_ref().expect("a session"));
        for once in
            ["\"event\":\"start\"", "\"event\":\"succeed\"", "\"status\":\"approved\"", "\"status\":\"consumed\""]
        {
            let times = told.iter().filter(|line| line.contains(once)).count();
            assert_eq!(times, 1, "step {steps}: {once} is logged once");
        }
        if ended {
            assert!(steps > 20, "it took {steps} steps");
            return;
        }
        steps += 1;
    }
}

/// Returns the executions that succeeded.
fn successes(store: &Store) -> Vec<String> {
    let list = store.runs().open(&id()).executions(99, None).expect("listed");
    let won = list.executions.into_iter().filter(|one| one.end.as_ref().is_some_and(|end| end.finish.success));
    won.map(|one| format!("{} {}", one.skill, one.id)).collect()
}

fn a_run_that_kills_its_owner_is_given_up(place: &Place) {
    let apart = Apart::of(place);
    // It dies during its first phase, after every takeover.
    for life in 0..4 {
        assert!(!play(&apart, place, 4, life * 61));
    }
    let store = open_at(apart.options(), 4 * 61);
    let recovered = store.runs().recover("parent").expect("recovers");
    assert!(recovered.resumed.is_empty());
    assert_eq!(recovered.given_up.iter().map(|run| &run.id).collect::<Vec<_>>(), [&id()]);
    let run = store.runs().get(&id()).expect("there");
    assert_eq!((run.summary.status, run.summary.restart_count), (RunStatus::Failed, 3));
    assert!(run.error.as_deref().is_some_and(|why| why.contains("3 times")), "{:?}", run.error);
    let all = store.runs().open(&id()).executions(99, None).expect("listed").executions;
    assert!(all.iter().all(|one| one.end.is_some()), "nothing is in flight");
}
