use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duolog::errors::{Busy, Conflict, NotFound, Stale};
use duolog::runs::{
    Admission, Attribution, Begun, End, Fence, Finish, NewRun, PhaseState, RunFilter, RunPage, RunSummary, Started,
    Until,
};
use duolog::{
    Durability, Error, ErrorKind, RunId, RunStatus, SessionId, Store, Timestamp, TriggerType, limits::RunLimits,
};
use duolog_testkit::clock::FixedClock;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, lines};

on_both_engines!(
    a_run_goes_from_its_start_to_its_end,
    a_trigger_starts_one_run_at_a_time,
    a_disabled_workflow_starts_no_run,
    the_queue_is_first_come_first_served,
    a_run_that_waits_too_long_is_cancelled,
    an_owner_that_was_overtaken_writes_nothing,
    a_dead_owner_s_run_is_taken_over_and_given_up_at_the_cap,
    a_run_that_nobody_took_up_is_handed_over,
    a_retry_keeps_finished_phases,
    scratch_and_nodes_are_merged_by_key,
    invalid_values_are_refused_by_name,
    every_observer_is_called_at_the_end,
    a_waiter_is_woken,
    a_run_continues_when_its_session_is_deleted
);

/// The start time of the clocks, in seconds.
pub const BEGIN: i64 = 1_794_000_000;

/// A store whose clock moves only when the test advances it.
pub struct Timed {
    pub apart: Apart,
    pub clock: FixedClock,
}

impl Timed {
    pub fn of(place: &Place) -> Self {
        Self { apart: Apart::of(place), clock: FixedClock::ticking_from(BEGIN * 1_000_000) }
    }

    pub fn open(&self) -> Store {
        self.open_with(RunLimits::default())
    }

    pub fn open_with(&self, runs: RunLimits) -> Store {
        let mut options = self.apart.options();
        options.clock = Arc::new(self.clock.clone());
        options.limits.runs = runs;
        Store::open(options).unwrap_or_else(|error| panic!("{error}: {error:?}"))
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.advance(seconds * 1_000_000);
    }
}

pub fn new(workflow: &str, trigger: &str) -> NewRun {
    NewRun::new(workflow, TriggerType::Cli, trigger)
}

pub fn start(store: &Store, workflow: &str, trigger: &str) -> Started {
    store.runs().start(&new(workflow, trigger)).expect("starts")
}

/// Returns a running run and its claim.
pub fn claimed(store: &Store, trigger: &str, owner: &str) -> (RunId, Fence) {
    let new = NewRun { claimed_by: Some(owner.to_owned()), ..new("build", trigger) };
    let started = store.runs().start(&new).expect("starts");
    (started.run.id, started.fence.expect("claimed"))
}

pub fn by(actor: &str) -> Attribution {
    Attribution { actor: Some(actor.to_owned()), reason: None }
}

fn done() -> Finish {
    Finish { success: true, ..Finish::default() }
}

/// Returns the lines of a run's log, as `subtype event-or-state status`.
fn told(store: &Store, run: &RunSummary) -> Vec<String> {
    let session = run.session_id.as_ref().expect("a session");
    let parsed = |line: &String| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap_or("-").to_owned();
    let tell = |line: serde_json::Value| {
        let what = text(&line, "subtype").replace("duolog.", "");
        let event = ["event", "state", "outcome", "gate"].map(|name| text(&line, name));
        let event = event.into_iter().find(|word| word != "-").unwrap_or_default();
        format!("{what} {event} {}", text(&line, "status"))
    };
    lines(store, session).iter().map(parsed).map(tell).collect()
}

fn a_run_goes_from_its_start_to_its_end(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let context = "{\"issue\":\"o/r#7\",\"n\":1.50}".to_owned();
    let new = NewRun {
        repo: Some("o/r".to_owned()),
        issue_number: Some(7),
        triggered_by: Some("ada".to_owned()),
        context: Some(context.clone()),
        claimed_by: Some("w1".to_owned()),
        ..new("build", "o/r#7")
    };
    let started = store.runs().start(&new).expect("starts");
    assert!(!started.existed && started.run.status == RunStatus::Running);
    let (id, fence) = (started.run.id.clone(), started.fence.expect("claimed"));
    let session = started.run.session_id.clone().expect("its own session");
    assert_eq!(session.as_str(), id.as_str(), "named like the run");
    let run = store.runs().open(&id).under(fence);
    run.enter_phase("plan").expect("entered");
    assert_eq!(run.should_run_phase("plan").expect("asked"), PhaseState::Run);
    let Begun::Started(execution) = run.begin("plan", None).expect("begun") else { panic!("not begun") };
    assert_eq!(run.should_run_phase("plan").expect("asked"), PhaseState::Running(execution.id.clone()));
    assert_eq!(run.begin("plan", None).expect("asked"), Begun::Running(execution.id.clone()));
    let finish = Finish {
        cost: Some(duolog::runs::dollars(0.13).expect("a cost")),
        input_tokens: Some(100),
        output_tokens: Some(20),
        ..done()
    };
    run.end(&execution.id, &finish).expect("ended");
    run.complete_phase("plan", true, Some("it is planned")).expect("noted");
    assert_eq!(run.should_run_phase("plan").expect("asked"), PhaseState::Done(execution.id.clone()));
    assert_eq!(run.begin("plan", None).expect("asked"), Begun::Done(execution.id));
    let ended = run.finish(&End::Succeeded, Some("complete")).expect("finished");
    assert!(ended.changed && ended.previous == RunStatus::Running);
    assert!(!run.finish(&End::Succeeded, None).expect("asked again").changed);
    let whole = store.runs().get(&id).expect("there");
    assert_eq!(whole.context, Some(context));
    assert_eq!((whole.summary.owner.as_deref(), whole.summary.repo.as_deref()), (Some("o"), Some("r")));
    assert_eq!((whole.summary.current_phase.as_str(), whole.phase_history.len()), ("complete", 2));
    assert!(whole.phase_history[0].contains("\"summary\":\"it is planned\""), "{:?}", whole.phase_history);
    assert_eq!(
        (whole.summary.cost.map(|cost| cost.to_string()), whole.summary.tokens),
        (Some("0.13".to_owned()), Some(120))
    );
    assert!(whole.summary.finished_at.is_some() && whole.summary.lease_expires_at.is_none() && whole.error.is_none());
    assert_eq!(
        told(&store, &whole.summary),
        [
            "run start running",
            "phase entered -",
            "execution in_flight -",
            "execution succeeded -",
            "phase completed -",
            "run succeed succeeded"
        ]
    );
    assert_eq!(store.runs().resolve(&id.as_str()[..30]).expect("by a prefix"), id);
    assert_eq!(store.runs().resolve("none").expect_err("nothing").kind(), ErrorKind::NotFound);
}

fn a_trigger_starts_one_run_at_a_time(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let first = start(&store, "build", "t");
    let again = start(&store, "build", "t");
    assert!(again.existed && again.run.id == first.run.id && again.fence.is_none());
    assert!(!start(&store, "other", "t").existed, "per workflow");
    store.runs().open(&first.run.id).cancel(&by("ada")).expect("cancelled");
    let next = start(&store, "build", "t");
    assert!(!next.existed && next.run.id != first.run.id);
    assert_eq!(store.runs().find_active("build", "t").expect("asked").map(|run| run.id), Some(next.run.id.clone()));
    // The first run cannot be retried while the second is active.
    let refused = store.runs().open(&first.run.id).retry(Admission::IfFree, &by("ada")).expect_err("active");
    assert!(
        matches!(&refused, Error::Conflict(Conflict::TriggerActive { other, .. }) if *other == next.run.id),
        "{refused}"
    );
    let session = store.sessions().open_thread("mine").expect("made").id;
    let given = NewRun { session_id: Some(session.clone()), ..new("build", "u") };
    assert_eq!(store.runs().start(&given).expect("starts").run.session_id, Some(session));
    let missing = NewRun { session_id: Some(SessionId::new()), ..new("build", "v") };
    assert_eq!(store.runs().start(&missing).expect_err("no session").kind(), ErrorKind::NotFound);
}

fn a_disabled_workflow_starts_no_run(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open_with(RunLimits { max_running: 1, ..RunLimits::default() });
    let running = start(&store, "build", "1");
    let waiting = start(&store, "build", "2");
    let other = start(&store, "other", "3");
    assert_eq!((waiting.run.status, other.run.status), (RunStatus::Queued, RunStatus::Queued));
    assert!(store.workflows().disable("build", Some("ada")).expect("off"));
    assert!(!store.workflows().disable("build", Some("bob")).expect("off already"));
    let refused = store.runs().start(&new("build", "4")).expect_err("off");
    assert_eq!(refused.to_string(), "workflow \"build\" is disabled by ada");
    assert!(refused.hint().is_some_and(|hint| hint.contains("Workflows::enable")));
    store.runs().open(&running.run.id).enter_phase("plan").expect("a running run continues");
    store.runs().open(&running.run.id).finish(&End::Succeeded, None).expect("finished");
    let admitted = store.runs().admit(None, 9).expect("admits").admitted;
    assert_eq!(
        admitted.iter().map(|(run, _)| &run.id).collect::<Vec<_>>(),
        [&other.run.id],
        "runs of disabled workflows are passed over"
    );
    let names = |store: &Store| {
        let all = store.workflows().list(None, 9).expect("listed");
        all.into_iter().map(|one| (one.name, one.enabled, one.has_runs)).collect::<Vec<_>>()
    };
    store.workflows().disable("later", None).expect("off");
    let one = |name: &str, enabled, has_runs| (name.to_owned(), enabled, has_runs);
    assert_eq!(names(&store), [one("build", false, true), one("later", false, false), one("other", true, true)]);
    assert!(store.workflows().clear("build").expect("cleared"));
    assert!(store.workflows().is_enabled("build").expect("asked"));
    store.runs().open(&other.run.id).finish(&End::Succeeded, None).expect("finished");
    assert_eq!(store.runs().admit(None, 9).expect("admits").admitted[0].0.id, waiting.run.id);
}

fn the_queue_is_first_come_first_served(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open_with(RunLimits { max_running: 2, ..RunLimits::default() });
    let started: Vec<Started> = (0..6).map(|n| start(&store, "build", &n.to_string())).collect();
    let statuses: Vec<_> = started.iter().map(|one| one.run.status).collect();
    assert_eq!(statuses[..2], [RunStatus::Running; 2]);
    assert_eq!(statuses[2..], [RunStatus::Queued; 4]);
    assert!(store.runs().admit(None, 9).expect("no place").admitted.is_empty());
    store.runs().open(&started[0].run.id).finish(&End::Succeeded, None).expect("finished");
    // A new run waits behind the queued ones.
    assert_eq!(start(&store, "build", "late").run.status, RunStatus::Queued);
    let admitted = store.runs().admit(Some("w"), 9).expect("admits").admitted;
    assert_eq!(admitted.len(), 1);
    assert_eq!((&admitted[0].0.id, admitted[0].1.is_some()), (&started[2].run.id, true));
    assert_eq!(admitted[0].0.lease_owner.as_deref(), Some("w"));
    // A requeued run goes to the end.
    let fence = admitted[0].1.expect("claimed");
    let run = store.runs().open(&started[2].run.id).under(fence);
    assert!(run.requeue(&by("w")).expect("waits").changed);
    store.runs().open(&started[1].run.id).finish(&End::Failed("why".to_owned()), None).expect("finished");
    let next: Vec<_> =
        store.runs().admit(None, 9).expect("admits").admitted.into_iter().map(|(run, _)| run.id).collect();
    assert_eq!(next, [started[3].run.id.clone(), started[4].run.id.clone()]);
    let mut queued = Vec::new();
    for _ in 0..3 {
        let running = store
            .runs()
            .list(&RunFilter { statuses: vec![RunStatus::Running], ..RunFilter::default() }, &RunPage::default());
        for run in running.expect("listed").runs {
            store.runs().open(&run.id).cancel(&Attribution::default()).expect("cancelled");
        }
        queued.extend(store.runs().admit(None, 1).expect("admits").admitted.into_iter().map(|(run, _)| run.trigger_id));
    }
    assert_eq!(queued, ["5", "late", "2"]);
}

fn a_run_that_waits_too_long_is_cancelled(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open_with(RunLimits { max_running: 1, ..RunLimits::default() });
    let first = start(&store, "build", "1");
    let second = start(&store, "build", "2");
    timed.pass(1800);
    let third = start(&store, "build", "3");
    assert!(store.runs().expire().expect("looks").queued.is_empty());
    timed.pass(1801);
    let expired = store.runs().expire().expect("expires").queued;
    assert_eq!(expired.iter().map(|run| &run.id).collect::<Vec<_>>(), [&second.run.id]);
    let run = store.runs().get(&second.run.id).expect("there");
    assert_eq!(run.summary.status, RunStatus::Cancelled);
    assert_eq!(run.error.as_deref(), Some("it waited for a slot for more than 3600 s"));
    timed.pass(1800);
    store.runs().open(&first.run.id).finish(&End::Succeeded, None).expect("finished");
    let admitted = store.runs().admit(None, 9).expect("admits");
    assert!(admitted.admitted.is_empty());
    assert_eq!(admitted.expired[0].id, third.run.id, "an admission expires it too");
    assert_eq!(store.runs().count_by_status().expect("counted").len(), 2);
}

fn an_owner_that_was_overtaken_writes_nothing(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (id, first) = claimed(&store, "t", "w1");
    let one = store.runs().open(&id).under(first);
    let Begun::Started(execution) = one.begin("plan", None).expect("begun") else { panic!("not begun") };
    let unclaimed = store.runs().open(&id);
    let error = unclaimed.enter_phase("x").expect_err("claimed");
    assert!(
        matches!(&error, Error::Busy(Busy::Claimed { by, .. }) if by == "w1") && error.kind() == ErrorKind::Busy,
        "{error}"
    );
    assert!(matches!(unclaimed.claim("w2", None), Err(Error::Busy(Busy::Claimed { .. }))));
    timed.pass(50);
    one.renew(None).expect("renewed");
    timed.pass(50);
    assert!(matches!(unclaimed.claim("w2", None), Err(Error::Busy(Busy::Claimed { .. }))), "it was renewed");
    one.enter_phase("still").expect("it holds");
    timed.pass(11);
    one.enter_phase("late").expect("no claim has overtaken it");
    let claim = unclaimed.claim("w2", None).expect("claimed");
    assert!(claim.taken_over && claim.fence > first && claim.closed == [execution.id.clone()]);
    let two = store.runs().open(&id).under(claim.fence);
    let refused = [
        one.enter_phase("x").err(),
        one.complete_phase("x", true, None).err(),
        one.merge_scratch("{\"a\":1}").err(),
        one.set_nodes("{\"a\":1}").err(),
        one.renew(None).err(),
        one.release().err(),
        one.begin("y", None).err(),
        one.end(&execution.id, &done()).err(),
        one.set_output(&execution.id, "x").err(),
        one.pause(&by("w1")).err(),
        one.finish(&End::Succeeded, None).err(),
        one.requeue(&by("w1")).err(),
    ];
    for (number, error) in refused.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("call {number} was accepted"));
        assert!(
            matches!(&error, Error::Stale(Stale::Overtaken { by: Some(by), .. }) if by == "w2"),
            "{number}: {error}"
        );
        assert_eq!(error.kind(), ErrorKind::Stale);
    }
    two.enter_phase("mine").expect("it holds");
    two.release().expect("given up");
    assert!(matches!(two.enter_phase("x"), Err(Error::Stale(Stale::Overtaken { by: None, .. }))));
    let claim = store.runs().open(&id).claim("w3", Some(Duration::from_secs(5))).expect("at once");
    assert!(!claim.taken_over, "it was released");
    assert_eq!(claim.lease_expires_at.as_micros() / 1_000_000, BEGIN + 116);
    assert_eq!(claim.run.restart_count, 1);
}

fn a_dead_owner_s_run_is_taken_over_and_given_up_at_the_cap(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (id, _) = claimed(&store, "t", "w0");
    let (sibling, sibling_fence) = claimed(&store, "u", "alive");
    let at = store.runs().open(&sibling).under(sibling_fence);
    let Begun::Started(other) = at.begin("plan", None).expect("begun") else { panic!("not begun") };
    let paused = start(&store, "build", "paused").run.id;
    store.runs().open(&paused).pause(&by("ada")).expect("paused");
    let queued =
        store.runs().start(&NewRun { admission: Admission::Queue, ..new("build", "q") }).expect("starts").run.id;
    for restart in 1..=3 {
        timed.pass(61);
        at.renew(None).expect("renewed");
        let recovered = store.runs().recover(&format!("w{restart}")).expect("recovers");
        assert!(recovered.given_up.is_empty());
        assert_eq!(recovered.resumed.iter().map(|claim| &claim.run.id).collect::<Vec<_>>(), [&id]);
        assert_eq!(recovered.resumed[0].run.restart_count, restart);
        assert!(store.runs().recover("too-late").expect("looks").resumed.is_empty());
    }
    timed.pass(61);
    at.renew(None).expect("renewed");
    let recovered = store.runs().recover("w4").expect("recovers");
    assert!(recovered.resumed.is_empty() && recovered.given_up[0].id == id);
    let run = store.runs().get(&id).expect("there");
    assert_eq!((run.summary.status, run.summary.restart_count), (RunStatus::Failed, 3));
    assert!(run.error.as_deref().is_some_and(|why| why.contains("taken over 3 times")), "{:?}", run.error);
    assert!(
        store.runs().executions().get(&other.id).expect("there").end.is_none(),
        "an execution of another run is not closed"
    );
    assert_eq!(store.runs().summary(&paused).expect("there").status, RunStatus::Paused);
    assert_eq!(store.runs().summary(&queued).expect("there").status, RunStatus::Queued);
    // A retry by a user does not count as a takeover, and the count starts again.
    let retried = store.runs().open(&id).retry(Admission::IfFree, &by("ada")).expect("again");
    assert_eq!((retried.run.retry_count, retried.run.restart_count), (1, 0));
}

fn a_run_that_nobody_took_up_is_handed_over(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let id = start(&store, "build", "t").run.id;
    timed.pass(59);
    store.runs().open(&id).enter_phase("by-hand").expect("entered");
    timed.pass(59);
    assert!(store.runs().recover("w").expect("looks").resumed.is_empty(), "an owner that writes is alive");
    timed.pass(2);
    let recovered = store.runs().recover("w").expect("recovers");
    assert_eq!((recovered.resumed.len(), recovered.resumed[0].taken_over), (1, false));
    assert_eq!(recovered.resumed[0].run.restart_count, 0, "nobody died");
}

fn a_retry_keeps_finished_phases(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (id, fence) = claimed(&store, "t", "w");
    let run = store.runs().open(&id).under(fence);
    let Begun::Started(plan) = run.begin("plan", None).expect("begun") else { panic!("not begun") };
    run.end(&plan.id, &done()).expect("ended");
    run.complete_phase("plan", true, None).expect("noted");
    run.merge_scratch("{\"plan\":\"blue\"}").expect("merged");
    let Begun::Started(code) = run.begin("code", None).expect("begun") else { panic!("not begun") };
    run.finish(&End::Failed("it broke".to_owned()), None).expect("finished");
    let closed = store.runs().executions().get(&code.id).expect("there");
    assert_eq!(closed.error(), Some("its run was failed while it was in flight"));
    let late = run.end(&code.id, &done()).expect_err("closed");
    assert!(
        matches!(late, Error::Conflict(Conflict::ExecutionClosed { .. })) && late.kind() == ErrorKind::Conflict,
        "{late}"
    );
    let open = store.runs().open(&id);
    let retried = open.retry(Admission::IfFree, &by("ada")).expect("again");
    assert!(retried.changed && retried.run.status == RunStatus::Running && retried.run.retry_count == 1);
    assert!(!open.retry(Admission::IfFree, &by("bob")).expect("it runs").changed);
    let whole = store.runs().get(&id).expect("there");
    assert!(whole.error.is_none() && whole.summary.finished_at.is_none());
    assert_eq!(whole.scratch, [("plan".to_owned(), "\"blue\"".to_owned())]);
    assert_eq!(whole.phase_history.len(), 1);
    assert!(matches!(open.should_run_phase("plan").expect("asked"), PhaseState::Done(_)));
    assert_eq!(open.should_run_phase("code").expect("asked"), PhaseState::Run);
    let stale = run.enter_phase("x").expect_err("its claim ended with the run");
    assert!(matches!(stale, Error::Stale(Stale::Overtaken { by: None, .. })), "{stale}");
    open.cancel(&by("ada")).expect("cancelled");
    let queued = open.retry(Admission::Queue, &by("ada")).expect("waits");
    assert_eq!((queued.run.status, queued.run.retry_count), (RunStatus::Queued, 2));
}

fn scratch_and_nodes_are_merged_by_key(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let id = start(&store, "build", "t").run.id;
    let run = store.runs().open(&id);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let run = run.clone();
            scope.spawn(move || {
                for number in 0..5 {
                    let patch = format!("{{\"{worker}-{number}\":{number},\"last\":{worker}}}");
                    run.merge_scratch(&patch).expect("merged");
                    run.complete_phase(&format!("p{worker}_iter_{number}"), true, None).expect("noted");
                }
            });
        }
    });
    let whole = store.runs().get(&id).expect("there");
    assert_eq!((whole.scratch.len(), whole.phase_history.len()), (21, 20), "none is lost");
    run.merge_scratch("{\"last\":{\"a\":[1, 2]}}").expect("merged");
    run.set_nodes("{\"n1\":\"running\",\"n2\":\"pending\"}").expect("set");
    run.set_nodes("{\"n1\":\"succeeded\"}").expect("set");
    let whole = store.runs().get(&id).expect("there");
    assert!(whole.scratch.contains(&("last".to_owned(), "{\"a\":[1, 2]}".to_owned())));
    let pair = |node: &str, status: &str| (node.to_owned(), status.to_owned());
    assert_eq!(whole.node_statuses, [pair("n1", "\"succeeded\""), pair("n2", "\"pending\"")]);
    // A single value and the total are limited.
    let value = format!("\"{}\"", "x".repeat(60 << 10));
    for number in 0..17 {
        run.merge_scratch(&format!("{{\"big{number}\":{value}}}")).expect("merged");
    }
    let full = run.merge_scratch(&format!("{{\"big17\":{value}}}")).expect_err("full");
    assert!(full.kind() == ErrorKind::Invalid && full.to_string().contains("scratch"), "{full}");
    assert!(!store.runs().get(&id).expect("there").scratch.iter().any(|(key, _)| key == "big17"));
    run.merge_scratch("{\"big0\":1}").expect("a smaller value makes room");
    run.merge_scratch(&format!("{{\"big17\":{value}}}")).expect("merged");
}

fn invalid_values_are_refused_by_name(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let bad = [
        NewRun { workflow_name: String::new(), ..new("x", "t") },
        new("a:b", "t"),
        new(&"x".repeat(257), "t"),
        new("w", ""),
        new("w", &"x".repeat(1025)),
        new("w", "a\0b"),
        NewRun { context: Some("{".to_owned()), ..new("w", "t") },
        NewRun { context: Some(format!("\"{}\"", "x".repeat(1 << 20))), ..new("w", "t") },
        NewRun { phase: Some("a b".to_owned()), ..new("w", "t") },
        NewRun { repo: Some(String::new()), ..new("w", "t") },
        NewRun { issue_number: Some(u64::MAX), ..new("w", "t") },
    ];
    for new in bad {
        let error = store.runs().start(&new).expect_err("bad");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert!(store.runs().list(&RunFilter::default(), &RunPage::default()).expect("listed").runs.is_empty());
    assert!(
        store
            .sessions()
            .list(&duolog::sessions::SessionFilter::default(), &duolog::Page::default())
            .expect("listed")
            .sessions
            .is_empty()
    );
    let id = start(&store, "w", "t").run.id;
    let run = store.runs().open(&id);
    let nodes = |name: &str, bytes: usize| format!("{{\"{name}\":\"{}\"}}", "x".repeat(bytes));
    let invalid = [
        run.enter_phase("a:b").err(),
        run.complete_phase("p", true, Some(&"x".repeat((16 << 10) + 1))).err(),
        run.merge_scratch("[]").err(),
        run.merge_scratch(&format!("{{\"k\":\"{}\"}}", "x".repeat(64 << 10))).err(),
        run.set_nodes(&nodes("n", 60_000)).and_then(|_| run.set_nodes(&nodes("m", 6_000))).err(),
        run.cancel(&Attribution { actor: Some(String::new()), reason: None }).err(),
        run.claim("", None).err(),
        run.claim("w", Some(Duration::ZERO)).err(),
        run.renew(None).err(),
    ];
    for (number, error) in invalid.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("call {number} was accepted"));
        assert_eq!(error.kind(), ErrorKind::Invalid, "{number}: {error}");
    }
    assert!(matches!(run.resume(&Attribution::default()).map(|turned| turned.changed), Ok(false)), "it runs");
    run.finish(&End::Succeeded, None).expect("finished");
    let refused = run.pause(&Attribution::default()).expect_err("ended");
    assert!(
        matches!(refused, Error::Conflict(Conflict::RunCannot { .. })) && refused.kind() == ErrorKind::Conflict,
        "{refused}"
    );
    assert!(matches!(
        run.retry(Admission::IfFree, &Attribution::default()),
        Err(Error::Conflict(Conflict::RunCannot { .. }))
    ));
    assert!(matches!(
        run.claim("w", None),
        Err(Error::Conflict(Conflict::RunStands { status: RunStatus::Succeeded, .. }))
    ));
    assert!(matches!(run.enter_phase("x"), Err(Error::Conflict(Conflict::RunStands { .. }))));
    let nobody = store.runs().open(&RunId::new());
    assert!(matches!(nobody.enter_phase("x"), Err(Error::NotFound(NotFound::Run(_)))));
    assert!(matches!(store.runs().get(&RunId::new()), Err(Error::NotFound(NotFound::Run(_)))));
}

fn every_observer_is_called_at_the_end(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (seen, count) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    store.runs().on_end(Arc::new(|_: &RunSummary| panic!("on purpose")));
    let inside = seen.clone();
    store.runs().on_end(Arc::new(move |run: &RunSummary| inside.lock().expect("whole").push(run.status)));
    let inside = count.clone();
    store.runs().on_end(Arc::new(move |_: &RunSummary| {
        inside.fetch_add(1, Ordering::SeqCst);
    }));
    for (trigger, end) in [("1", End::Succeeded), ("2", End::Failed("why".to_owned()))] {
        let id = start(&store, "build", trigger).run.id;
        store.runs().open(&id).pause(&by("ada")).expect("paused");
        store.runs().open(&id).resume(&by("ada")).expect("resumed");
        store.runs().open(&id).finish(&end, None).expect("finished");
        assert!(!store.runs().open(&id).finish(&end, None).expect("asked again").changed);
    }
    assert_eq!(*seen.lock().expect("whole"), [RunStatus::Succeeded, RunStatus::Failed]);
    assert_eq!(count.load(Ordering::SeqCst), 2, "each once, despite panics of others");
}

fn a_waiter_is_woken(place: &Place) {
    let apart = Apart::of(place);
    let (waiting, acting) = (apart.open(), apart.open());
    let id = start(&waiting, "build", "t").run.id;
    let long = Duration::from_mins(1);
    let met = waiting.runs().open(&id).wait(&Until::Status(vec![RunStatus::Running]), long).expect("so already");
    assert_eq!(met.status, RunStatus::Running);
    let over = waiting.runs().open(&id).wait(&Until::Ended, Duration::from_millis(1)).expect("as it is");
    assert_eq!(over.status, RunStatus::Running, "the wait timed out");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| waiting.runs().open(&id).wait(&Until::Settled, long));
        acting.runs().open(&id).pause(&by("ada")).expect("paused");
        assert_eq!(waiter.join().expect("no panic").expect("met").status, RunStatus::Paused);
        let waiter = scope.spawn(|| waiting.runs().open(&id).wait(&Until::Ended, long));
        acting.runs().open(&id).cancel(&by("ada")).expect("cancelled");
        assert_eq!(waiter.join().expect("no panic").expect("met").status, RunStatus::Cancelled);
    });
}

fn a_run_continues_when_its_session_is_deleted(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open().close().map(|()| timed.open()).expect("opens again");
    let started = start(&store, "build", "t");
    let session = started.run.session_id.clone().expect("a session");
    store.sessions().delete(&session).expect("deleted");
    let run = store.runs().durable(Durability::Process).open(&started.run.id);
    run.enter_phase("plan").expect("entered, untold");
    assert!(run.finish(&End::Succeeded, None).expect("finished").changed);
    let since = Timestamp::from_micros(BEGIN * 1_000_000);
    let listed = store.runs().list(&RunFilter { since: Some(since), ..RunFilter::default() }, &RunPage::default());
    assert_eq!(listed.expect("listed").runs.len(), 1);
}

/// A status change writes the row of the run, one or two indexes and the log line, however much data the run has.
#[test]
fn a_change_of_status_writes_little() {
    let directory = tempfile::tempdir().expect("a directory");
    let home = duolog::Home::beneath(directory.path());
    let mut options = duolog::StoreOptions::at(home.clone());
    options.limits.runs.max_running = 100;
    let store = Store::open(options).expect("opens");
    let runs = store.runs().durable(Durability::Process);
    let context = serde_json::json!({"text": "x".repeat(60 << 10)}).to_string();
    let started: Vec<RunId> = (0..40)
        .map(|number| {
            let new = NewRun { context: Some(context.clone()), ..new("build", &format!("t-{number}")) };
            runs.start(&new).expect("starts").run.id
        })
        .collect();
    let log = home.state.join("state.db-wal");
    let beside = rusqlite::Connection::open(home.state.join("state.db")).expect("opens");
    for what in ["pause", "resume", "finish"] {
        let written = started.iter().map(|id| {
            // Lines of the previous change are copied first, so that only the next change is measured.
            let waiting = "SELECT EXISTS (SELECT 1 FROM outbox_lines)";
            let waits = || beside.query_row(waiting, [], |row| row.get::<_, bool>(0)).expect("reads");
            let began = std::time::Instant::now();
            while waits() {
                assert!(began.elapsed().as_secs() < 60, "lines have been waiting for a minute");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            store.state().checkpoint().expect("moved");
            let run = runs.open(id);
            let turned = match what {
                "pause" => run.pause(&by("ada")),
                "resume" => run.resume(&by("ada")),
                _ => run.finish(&End::Succeeded, None),
            };
            assert!(turned.expect("turned").changed);
            duolog_testkit::written_ahead(&log)
        });
        let bytes = written.min().expect("some");
        // A resume takes a slot, so it also writes the row of the queue.
        let most = if what == "resume" { 5 * 4120 } else { 20_000 };
        assert!((3 * 4120..=most).contains(&bytes), "{what}: {bytes} bytes of write-ahead log");
    }
}
