use duolog::approvals::Answer;
use duolog::errors::{Conflict, Invalid, Stale};
use duolog::limits::{PAGE_MAX, RunLimits};
use duolog::runs::{
    Begun, End, Ending, Execution, Expiry, Finish, LoopPoint, NewExecution, NewGate, NewRun, RunHandle,
};
use duolog::{
    ApprovalId, ApprovalKind, ApprovalStatus, Error, ErrorKind, ExecutionId, OperationId, RunId, RunStatus, Store,
    Timestamp, TriggerType,
};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::lines;
use super::runs::{BEGIN, Timed, by, claimed, new, start};

on_both_engines!(
    a_claim_of_a_live_run_leaves_what_is_in_flight,
    a_claim_closes_what_an_earlier_one_left,
    a_recovery_under_an_operation_id_gives_the_same_claims,
    a_pause_ends_the_claim,
    every_end_is_told,
    a_recovery_returns_what_was_done_with_the_error,
    an_error_of_the_whole_state_ends_a_recovery,
    a_recovery_goes_on_until_nothing_is_left,
    a_run_that_ends_closes_everything_in_flight,
    an_answer_carries_the_hash_of_what_was_shown,
    an_id_is_never_an_update,
    a_loop_keeps_what_its_key_holds,
    an_end_is_written_whole_or_not_at_all
);

fn begun(run: &RunHandle, phase: &str) -> Execution {
    match run.begin(phase, None).expect("begun") {
        Begun::Started(execution) => *execution,
        other => panic!("{other:?}"),
    }
}

fn done() -> Finish {
    Finish { success: true, ..Finish::default() }
}

fn told(store: &Store, run: &RunId) -> Vec<String> {
    lines(store, &store.runs().summary(run).expect("there").session_id.expect("a session"))
}

fn a_claim_of_a_live_run_leaves_what_is_in_flight(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let id = start(&store, "build", "t").run.id;
    let execution = begun(&store.runs().open(&id), "plan");
    let claim = store.runs().open(&id).claim("w", None).expect("claimed");
    assert!(claim.closed.is_empty() && !claim.taken_over, "its owner is alive");
    store.runs().open(&id).under(claim.fence).end(&execution.id, &done()).expect("ended under the claim");
    // After the lease has expired, the claim is a takeover and is counted.
    let other = start(&store, "build", "u").run.id;
    let left = begun(&store.runs().open(&other), "plan");
    timed.pass(61);
    let claim = store.runs().open(&other).claim("w", None).expect("claimed");
    assert!(claim.taken_over && claim.closed == [left.id]);
}

fn a_claim_closes_what_an_earlier_one_left(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (id, fence) = claimed(&store, "t", "w1");
    let run = store.runs().open(&id).under(fence);
    let left = begun(&run, "plan");
    run.release().expect("released");
    let claim = store.runs().open(&id).claim("w2", None).expect("claimed");
    assert_eq!((claim.taken_over, claim.closed), (false, vec![left.id]));
    begun(&store.runs().open(&id).under(claim.fence), "plan");
    assert!(told(&store, &id).iter().any(|line| line.contains("\"event\":\"release\"")));
}

fn a_pause_ends_the_claim(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (id, fence) = claimed(&store, "t", "w1");
    let run = store.runs().open(&id).under(fence);
    let execution = begun(&run, "plan");
    store.runs().open(&id).pause(&by("ada")).expect("paused");
    let before = (store.runs().get(&id).expect("there"), told(&store, &id));
    let refused = [
        run.end(&execution.id, &done()).err(),
        run.set_output(&execution.id, "late").err(),
        run.finish(&End::Succeeded, None).err(),
        run.finish(&End::Failed("why".to_owned()), None).err(),
        run.enter_phase("x").err(),
        run.merge_scratch("{\"a\":1}").err(),
        run.requeue(&by("w1")).err(),
    ];
    for (number, error) in refused.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("call {number} was accepted"));
        assert!(
            matches!(error, Error::Stale(Stale::ClaimEnded { .. })) && error.kind() == ErrorKind::Stale,
            "{number}: {error}"
        );
    }
    let unclaimed = store.runs().open(&id);
    assert!(matches!(
        unclaimed.finish(&End::Failed("why".to_owned()), None),
        Err(Error::Conflict(Conflict::RunStands { .. }))
    ));
    assert!(matches!(unclaimed.end(&execution.id, &done()), Err(Error::Conflict(Conflict::RunStands { .. }))));
    assert_eq!((store.runs().get(&id).expect("there"), told(&store, &id)), before, "nothing changed");
    assert!(store.runs().executions().output(&execution.id).expect("read").is_none());
}

fn every_end_is_told(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let closing = |id: &RunId, execution: &ExecutionId| {
        let all = told(&store, id);
        let line = all.iter().rev().find(|line| line.contains(execution.as_str())).expect("told").clone();
        assert!(line.contains("\"outcome\":\"failed\""), "{line}");
    };
    let cancelled = start(&store, "build", "cancelled").run.id;
    let execution = begun(&store.runs().open(&cancelled), "plan");
    store.runs().open(&cancelled).cancel(&by("ada")).expect("cancelled");
    closing(&cancelled, &execution.id);
    let (taken, fence) = claimed(&store, "taken", "w1");
    let execution = begun(&store.runs().open(&taken).under(fence), "plan");
    timed.pass(61);
    let recovered = store.runs().recover("w2").expect("recovers");
    assert_eq!(recovered.resumed[0].closed, std::slice::from_ref(&execution.id));
    closing(&taken, &execution.id);
    let asking = start(&store, "build", "asking").run.id;
    let gate = NewGate::new(ApprovalKind::Approve, "ship", "look");
    let gate = store.runs().open(&asking).pause_at(&gate).expect("paused").approval.id;
    store.runs().open(&asking).cancel(&by("ada")).expect("cancelled");
    let all = told(&store, &asking);
    let expired: Vec<_> = all.iter().filter(|line| line.contains(gate.as_str()) && line.contains("expired")).collect();
    assert_eq!(expired.len(), 1, "{all:?}");
    // An overdue run is reported once, too.
    let late = start(&store, "build", "late").run.id;
    let until = Some(Timestamp::from_micros((BEGIN + 1_000) * 1_000_000));
    let gate = NewGate { expires: until.map(Expiry::At), ..NewGate::new(ApprovalKind::Approve, "ship", "look") };
    let gate = store.runs().open(&late).pause_at(&gate).expect("paused").approval.id;
    timed.pass(2_000);
    store.runs().expire().expect("expires");
    let all = told(&store, &late);
    assert_eq!(
        all.iter().filter(|line| line.contains(gate.as_str()) && line.contains("expired")).count(),
        1,
        "{all:?}"
    );
}

/// Makes every change of one run fail in the database, with an error that concerns nothing else.
fn spoil(place: &Place, run: &RunId) {
    spoil_as(place, run, "raise_exception");
}

/// The same, with an error that a server says in a word.
fn spoil_as(place: &Place, run: &RunId, error: &str) {
    let when = format!("OLD.id = '{run}'");
    if let Some(database) = place.database() {
        let sql = format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'spoilt' USING ERRCODE = '{error}'; END $$; \
             CREATE TRIGGER spoilt BEFORE UPDATE ON workflow_runs FOR EACH ROW WHEN ({when}) \
             EXECUTE FUNCTION refuse();"
        );
        database.run_sql(&sql).expect("spoilt");
    } else {
        let path = place.home().join("state.db");
        let sql = format!(
            "CREATE TRIGGER spoilt BEFORE UPDATE ON workflow_runs WHEN {when} \
             BEGIN INSERT INTO workflow_queue (id, next_ord) VALUES (2, 0); END;"
        );
        rusqlite::Connection::open(path).and_then(|state| state.execute_batch(&sql)).expect("spoilt");
    }
}

fn a_recovery_returns_what_was_done_with_the_error(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let ids: Vec<RunId> = (0..3).map(|number| claimed(&store, &number.to_string(), "dead").0).collect();
    spoil(place, &ids[1]);
    timed.pass(61);
    let recovered = store.runs().recover("w").expect("recovers");
    let resumed: Vec<_> = recovered.resumed.iter().map(|claim| &claim.run.id).collect();
    assert_eq!(resumed, [&ids[2], &ids[0]], "a run that cannot be claimed does not block the others");
    assert_eq!(recovered.failed.iter().map(|(run, _)| run).collect::<Vec<_>>(), [&ids[1]]);
    assert!(recovered.complete, "every run was tried");
    for claim in &recovered.resumed {
        store.runs().open(&claim.run.id).under(claim.fence).enter_phase("on").expect("the fences are valid");
    }
    assert_eq!(store.runs().summary(&ids[1]).expect("there").restart_count, 0, "it is not counted");
}

/// A server whose disk is full; a file that another program keeps locked.
fn an_error_of_the_whole_state_ends_a_recovery(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let mut ids: Vec<RunId> = (0..3).map(|number| claimed(&store, &number.to_string(), "dead").0).collect();
    timed.pass(61);
    let lock = if place.database().is_some() {
        spoil_as(place, &ids[1], "disk_full");
        None
    } else {
        let state = rusqlite::Connection::open(place.home().join("state.db")).expect("opened");
        state.execute_batch("BEGIN IMMEDIATE").expect("locked");
        Some(state)
    };
    let recovered = store.runs().recover("w").expect("what was done is returned");
    let failed: Vec<_> = recovered.failed.iter().map(|(run, error)| (run.clone(), error.kind())).collect();
    let resumed: Vec<_> = recovered.resumed.iter().map(|claim| claim.run.id.clone()).collect();
    assert!(!recovered.complete && recovered.stopped.is_none());
    ids.reverse();
    if lock.is_some() {
        assert_eq!((failed, resumed), (vec![(ids[0].clone(), ErrorKind::Busy)], vec![]));
        assert_eq!(recovered.untried, ids[1..]);
    } else {
        assert_eq!((failed, resumed), (vec![(ids[1].clone(), ErrorKind::Full)], vec![ids[0].clone()]));
        assert_eq!(recovered.untried, ids[2..]);
    }
}

/// More runs than a page, and the newest of them, which come first, can never be claimed.
fn a_recovery_goes_on_until_nothing_is_left(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open_with(RunLimits { max_running: 1000, ..RunLimits::default() });
    let count = PAGE_MAX as usize + 2;
    let ids: Vec<RunId> = (0..count).map(|number| claimed(&store, &number.to_string(), "dead").0).collect();
    spoil(place, &ids[count - 1]);
    timed.pass(61);
    let recover = || {
        let once = store.once("recover", &OperationId::parse("one").expect("an id"), &"w").expect("a handle");
        once.runs().recover("w").expect("recovers")
    };
    let recovered = recover();
    assert_eq!((recovered.resumed.len(), recovered.failed.len(), recovered.complete), (count - 1, 1, true));
    assert_eq!(recover().resumed, recovered.resumed, "a retry gives the same claims");
}

/// For any number of executions.
fn a_run_that_ends_closes_everything_in_flight(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (id, fence) = claimed(&store, "t", "w");
    let run = store.runs().open(&id).under(fence);
    let all: Vec<ExecutionId> = (0..1030).map(|number| begun(&run, &format!("p{number}")).id).collect();
    run.finish(&End::Succeeded, None).expect("finished");
    let ledger = store.runs().executions();
    let open: Vec<_> = all.iter().filter(|id| ledger.get(id).expect("there").end.is_none()).collect();
    assert_eq!(open, Vec::<&ExecutionId>::new());
}

fn a_recovery_under_an_operation_id_gives_the_same_claims(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let dead: Vec<RunId> = ["1", "2"].map(|trigger| claimed(&store, trigger, "dead").0).into();
    timed.pass(100_000);
    let recover = |name: &str| {
        let once = store.once("recover", &OperationId::parse(name).expect("an id"), &"w").expect("a handle");
        let mut resumed = once.runs().recover("w").expect("recovered").resumed;
        resumed.sort_by(|a, b| a.run.id.cmp(&b.run.id));
        resumed
    };
    let first = recover("one");
    let mut ids: Vec<RunId> = first.iter().map(|claim| claim.run.id.clone()).collect();
    ids.sort();
    assert_eq!(ids, dead.iter().cloned().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>());
    claimed(&store, "3", "dead");
    timed.pass(100_000);
    assert_eq!(recover("one"), first, "nothing is taken over again");
    assert_eq!(recover("two").len(), 3);
    for id in dead {
        assert_eq!(store.runs().summary(&id).expect("there").restart_count, 2);
    }
}

fn an_answer_carries_the_hash_of_what_was_shown(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let id = start(&store, "build", "t").run.id;
    let past = Some(Timestamp::from_micros((BEGIN - 1) * 1_000_000));
    let expired = NewGate { expires: past.map(Expiry::At), ..NewGate::new(ApprovalKind::Approve, "ship", "look") };
    let refused = store.runs().open(&id).pause_at(&expired).expect_err("it has expired");
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("expires_at"), "{refused}");
    let gate = NewGate { content_hash: Some("abc".to_owned()), ..NewGate::new(ApprovalKind::Approve, "ship", "look") };
    let gate = store.runs().open(&id).pause_at(&gate).expect("paused").approval.id;
    let approvals = store.approvals();
    for refused in [approvals.approve(&gate, &Answer::default()), approvals.reject(&gate, &Answer::default())] {
        let error = refused.expect_err("no hash");
        assert!(matches!(error, Error::Invalid(Invalid::GateHashMissing { .. })), "{error}");
    }
    assert_eq!(approvals.get(&gate).expect("there").status, ApprovalStatus::Pending);
    let seen = Answer { content_hash: Some("abc".to_owned()), ..Answer::default() };
    assert_eq!(approvals.approve(&gate, &seen).expect("approved").run.status, RunStatus::Running);
}

fn an_id_is_never_an_update(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let id = RunId::parse("the-run").expect("an id");
    let asked = NewRun { id: Some(id.clone()), context: Some("{\"a\":1}".to_owned()), ..new("build", "t") };
    let first = store.runs().start(&asked).expect("starts");
    let again = store.runs().start(&asked).expect("the same");
    assert!(!first.existed && again.existed && again.run == first.run);
    store.runs().open(&id).cancel(&by("ada")).expect("cancelled");
    assert!(store.runs().start(&asked).expect("the same").existed, "however it ended");
    for (other, field) in [
        (NewRun { workflow_name: "other".to_owned(), ..asked.clone() }, "workflow"),
        (NewRun { trigger_id: "u".to_owned(), ..asked.clone() }, "trigger"),
        (NewRun { context: None, ..asked.clone() }, "context"),
        (NewRun { repo: Some("acme/web".to_owned()), ..asked.clone() }, "repository"),
    ] {
        let error = store.runs().start(&other).expect_err("taken");
        assert_eq!(
            error.to_string(),
            format!("cannot start run the-run: a run with this id exists and has another {field}")
        );
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    let (run, fence) = claimed(&store, "gated", "w");
    let gate_id = ApprovalId::parse("the-gate").expect("an id");
    let gate = NewGate { id: Some(gate_id.clone()), ..NewGate::new(ApprovalKind::Approve, "ship", "look") };
    let open = store.runs().open(&run).under(fence);
    let (first, again) = (open.pause_at(&gate).expect("paused"), open.pause_at(&gate).expect("the same"));
    assert!(!first.existed && again.existed && again.approval == first.approval);
    let other = NewGate { summary: "look again".to_owned(), ..gate.clone() };
    let error = open.pause_at(&other).expect_err("taken");
    assert!(
        matches!(error, Error::Conflict(Conflict::GateTaken { field: "summary", .. }))
            && error.kind() == ErrorKind::Conflict,
        "{error}"
    );
    assert_eq!(store.approvals().get(&gate_id).expect("there").summary, "look");
    assert_eq!(store.runs().get(&run).expect("there").phase_history.len(), 1, "it was asked once");
    let chat = NewExecution {
        id: Some(ExecutionId::parse("the-turn").expect("an id")),
        trigger_type: TriggerType::Chat,
        trigger_id: "thread".to_owned(),
        skill: "chat".to_owned(),
        session_id: None,
        owner: None,
        repo: None,
        issue_number: None,
        triggered_by: None,
    };
    let ledger = store.runs().executions();
    assert_eq!(ledger.start(&chat).expect("begun"), ledger.start(&chat).expect("the same"));
    let other = NewExecution { trigger_id: "elsewhere".to_owned(), ..chat };
    assert!(matches!(ledger.start(&other), Err(Error::Conflict(Conflict::ExecutionTaken { field: "trigger", .. }))));
}

fn a_loop_keeps_what_its_key_holds(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    for (number, value) in [r#"{"note":"\ud800","big":1e999}"#, "[1,2]", "\"text\"", "{\"a\":[1]}"].iter().enumerate() {
        let id = start(&store, "build", &number.to_string()).run.id;
        let run = store.runs().open(&id);
        run.merge_scratch(&format!("{{\"loop\":{value}}}")).expect("merged");
        let execution = begun(&run, "ask");
        let at = LoopPoint { key: "loop".to_owned(), iteration: 2, output: execution.id.clone() };
        let gate = NewGate { at: Some(at), ..NewGate::new(ApprovalKind::Reply, "ask", "which?") };
        let asked = run.pause_at(&gate);
        let scratch = store.runs().get(&id).expect("there").scratch;
        if value.starts_with('{') {
            asked.expect("paused");
            let open = value.strip_suffix('}').expect("an object");
            let expected = format!("{open},\"iteration\":2,\"lastOutputExecutionId\":\"{}\"}}", execution.id);
            assert_eq!(scratch[0].1, expected, "existing members keep their text");
        } else {
            let error = asked.expect_err("not an object");
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("loop"), "{error}");
            assert_eq!(scratch[0].1, *value, "nothing changed");
            assert_eq!(store.runs().summary(&id).expect("there").status, RunStatus::Running);
        }
    }
}

fn an_end_is_written_whole_or_not_at_all(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let id = start(&store, "build", "t").run.id;
    let run = store.runs().open(&id);
    let execution = begun(&run, "plan").id;
    let ending = |output: &str, cost: u128| Ending {
        finish: Finish { cost: Some(duolog::Money::from_dollars(cost)), ..done() },
        output: Some(output.to_owned()),
        summary: Some("planned".to_owned()),
        session_id: None,
    };
    let refused = run.end(&execution, ending("too much", 10_001)).expect_err("it is over the limit");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let kept = || store.runs().executions().output(&execution).expect("read").map(|output| output.text);
    assert_eq!((kept(), store.runs().get(&id).expect("there").phase_history.len()), (None, 0));
    run.end(&execution, ending("the plan", 1)).expect("ended");
    let late = run.end(&execution, ending("another", 2)).expect_err("it has ended");
    assert!(matches!(late, Error::Conflict(Conflict::ExecutionClosed { .. })), "{late}");
    assert!(matches!(run.set_output(&execution, "another"), Err(Error::Conflict(Conflict::ExecutionClosed { .. }))));
    let whole = store.runs().get(&id).expect("there");
    assert_eq!((kept().as_deref(), whole.phase_history.len()), (Some("the plan"), 1));
    assert_eq!(whole.summary.cost, Some(duolog::Money::from_dollars(1)));
}
