use duolog::approvals::Answer;
use duolog::limits::RunLimits;
use duolog::runs::{Admission, Attribution, Begun, End, ExecutionOutcome, NewGate, NewRun};
use duolog::{ApprovalKind, RunId, RunStatus, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::runs::{Timed, by, claimed, new, start};

on_both_engines!(
    an_answered_run_without_a_slot_is_queued_first,
    a_run_that_was_resumed_earlier_is_not_overtaken,
    an_expiry_goes_on_until_nothing_is_left,
    a_resumed_run_waits_for_as_long_as_it_takes,
    a_queued_run_keeps_one_slot_and_no_more,
    an_owner_that_admits_can_begin_every_phase,
    a_disabled_workflow_keeps_its_queue
);

fn with_cap(timed: &Timed, max_running: u32) -> Store {
    timed.open_with(RunLimits { max_running, ..RunLimits::default() })
}

fn status(store: &Store, run: &RunId) -> RunStatus {
    store.runs().summary(run).expect("there").status
}

fn running(store: &Store) -> u64 {
    let counts = store.runs().count_by_status().expect("counted");
    counts.into_iter().find(|(status, _)| *status == RunStatus::Running).map_or(0, |(_, count)| count)
}

fn admit(store: &Store) -> Vec<RunId> {
    store.runs().admit(None, 9).expect("admits").admitted.into_iter().map(|(run, _)| run.id).collect()
}

fn an_answered_run_without_a_slot_is_queued_first(place: &Place) {
    let timed = Timed::of(place);
    let store = with_cap(&timed, 1);
    let asking = start(&store, "build", "asking").run.id;
    let gate = NewGate::new(ApprovalKind::Approve, "ship", "look");
    let gate = store.runs().open(&asking).pause_at(&gate).expect("paused").approval.id;
    // The paused run gave up its slot, and another run takes it.
    let second = start(&store, "build", "second").run.id;
    assert_eq!(status(&store, &second), RunStatus::Running);
    let third = start(&store, "build", "third").run.id;
    assert_eq!(status(&store, &third), RunStatus::Queued);
    let answered = store.approvals().approve(&gate, &Answer::default()).expect("approved");
    assert_eq!(answered.run.status, RunStatus::Queued);
    assert_eq!(running(&store), 1, "the limit holds");
    let whole = store.runs().get(&asking).expect("there");
    assert!(whole.is_resumed && whole.unconsumed == [gate], "its answer is not acknowledged");
    assert_eq!(
        store.runs().waiting_before(&asking).expect("asked"),
        Some(0),
        "ahead of the run that was queued earlier"
    );
    assert_eq!(store.runs().waiting_before(&third).expect("asked"), Some(1));
    // A resume by hand does the same, behind the run that was resumed earlier.
    store.runs().open(&second).pause(&by("ada")).expect("paused");
    assert_eq!(admit(&store), std::slice::from_ref(&asking));
    let resumed = store.runs().open(&second).resume(&by("ada")).expect("resumed");
    assert!(resumed.changed && resumed.run.status == RunStatus::Queued);
    assert!(!store.runs().open(&second).resume(&by("ada")).expect("asked again").changed);
    assert_eq!((running(&store), store.runs().waiting_before(&second).expect("asked")), (1, Some(0)));
    store.runs().open(&asking).finish(&End::Succeeded, None).expect("finished");
    assert_eq!(admit(&store), std::slice::from_ref(&second));
    store.runs().open(&second).finish(&End::Succeeded, None).expect("finished");
    // A free slot is taken at once.
    let fourth = start(&store, "build", "third").run.id;
    assert_eq!(fourth, third);
    assert_eq!(admit(&store), std::slice::from_ref(&third));
    store.runs().open(&third).pause(&Attribution::default()).expect("paused");
    assert_eq!(
        store.runs().open(&third).resume(&Attribution::default()).expect("resumed").run.status,
        RunStatus::Running
    );
}

fn a_run_that_was_resumed_earlier_is_not_overtaken(place: &Place) {
    let timed = Timed::of(place);
    let store = with_cap(&timed, 1);
    let gate = NewGate::new(ApprovalKind::Approve, "ship", "look");
    let [first, second] = ["b", "c"].map(|trigger| {
        let run = start(&store, "build", trigger).run.id;
        let gate = store.runs().open(&run).pause_at(&gate).expect("paused").approval.id;
        (run, gate)
    });
    let running = start(&store, "build", "a").run.id;
    assert_eq!(start(&store, "build", "d").run.status, RunStatus::Queued, "it has not started");
    let approve = |gate| store.approvals().approve(gate, &Answer::default()).expect("approved").run.status;
    assert_eq!(approve(&first.1), RunStatus::Queued);
    store.runs().open(&running).finish(&End::Succeeded, None).expect("finished");
    assert_eq!(approve(&second.1), RunStatus::Queued, "the slot is for the run that was resumed earlier");
    assert_eq!(admit(&store), [first.0]);
}

fn an_expiry_goes_on_until_nothing_is_left(place: &Place) {
    let timed = Timed::of(place);
    let store = with_cap(&timed, 1);
    start(&store, "build", "running");
    for number in 0..=duolog::limits::PAGE_MAX {
        start(&store, "build", &number.to_string());
    }
    timed.pass(100_000);
    assert_eq!(store.runs().expire().expect("expires").queued.len(), duolog::limits::PAGE_MAX as usize + 1);
    assert!(store.runs().expire().expect("looks").queued.is_empty());
}

fn a_resumed_run_waits_for_as_long_as_it_takes(place: &Place) {
    let timed = Timed::of(place);
    let store = with_cap(&timed, 1);
    let first = start(&store, "build", "1").run.id;
    store.runs().open(&first).pause(&by("ada")).expect("paused");
    let (second, fence) = claimed(&store, "2", "w");
    let third = start(&store, "build", "3").run.id;
    store.runs().open(&first).resume(&by("ada")).expect("resumed");
    timed.pass(100_000);
    let expired = store.runs().expire().expect("expires").queued;
    assert_eq!(expired.iter().map(|run| &run.id).collect::<Vec<_>>(), [&third]);
    assert_eq!(status(&store, &first), RunStatus::Queued, "a resumed run does not expire");
    store.runs().open(&second).under(fence).finish(&End::Succeeded, None).expect("finished");
    assert_eq!(admit(&store), [first]);
}

fn a_queued_run_keeps_one_slot_and_no_more(place: &Place) {
    let timed = Timed::of(place);
    let store = with_cap(&timed, 3);
    let queued = NewRun { admission: Admission::Queue, ..new("build", "queued") };
    let queued = store.runs().start(&queued).expect("starts").run;
    assert_eq!(queued.status, RunStatus::Queued);
    assert_eq!(start(&store, "build", "1").run.status, RunStatus::Running, "two more slots are free");
    assert_eq!(start(&store, "build", "2").run.status, RunStatus::Running);
    assert_eq!(start(&store, "build", "3").run.status, RunStatus::Queued, "the last slot is for the queued run");
    assert_eq!(admit(&store), [queued.id]);
}

fn an_owner_that_admits_can_begin_every_phase(place: &Place) {
    let timed = Timed::of(place);
    let store = with_cap(&timed, 1);
    let (id, fence) = claimed(&store, "t", "w1");
    let run = store.runs().open(&id).under(fence);
    let Begun::Started(left) = run.begin("plan", None).expect("begun") else { panic!("not begun") };
    run.requeue(&by("w1")).expect("requeued");
    assert!(!run.requeue(&by("w1")).expect("asked again").changed);
    let admitted = store.runs().admit(Some("w2"), 9).expect("admits").admitted;
    let fence = admitted[0].1.expect("claimed");
    let run = store.runs().open(&id).under(fence);
    let Begun::Started(again) = run.begin("plan", None).expect("begun") else { panic!("the phase is stuck") };
    let left = store.runs().executions().get(&left.id).expect("there");
    assert_eq!((left.outcome(), left.id == again.id), (ExecutionOutcome::Failed, false));
    let session = store.runs().summary(&id).expect("there").session_id.expect("a session");
    let told = super::lines(&store, &session);
    let closed = |line: &&String| line.contains(left.id.as_str()) && line.contains("\"outcome\":\"failed\"");
    assert_eq!(told.iter().filter(closed).count(), 1, "{told:?}");
    assert!(told.iter().any(|line| line.contains("\"event\":\"claim\"") && line.contains("\"leaseOwner\":\"w2\"")));
}

fn a_disabled_workflow_keeps_its_queue(place: &Place) {
    let timed = Timed::of(place);
    let store = with_cap(&timed, 1);
    let (first, fence) = claimed(&store, "1", "w");
    let off = start(&store, "off", "2").run.id;
    store.workflows().disable("off", Some("ada")).expect("off");
    timed.pass(10_000);
    assert!(store.runs().expire().expect("looks").queued.is_empty());
    let admitted = store.runs().admit(None, 9).expect("admits");
    assert!(admitted.admitted.is_empty() && admitted.expired.is_empty());
    assert_eq!(status(&store, &off), RunStatus::Queued, "it stays");
    store.workflows().enable("off", Some("ada")).expect("on");
    assert!(store.runs().expire().expect("looks").queued.is_empty(), "it could not start before");
    store.runs().open(&first).under(fence).finish(&End::Succeeded, None).expect("finished");
    assert_eq!(admit(&store), [off]);
}
