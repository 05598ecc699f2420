use duolog::approvals::{Answer, Approval, ApprovalFilter};
use duolog::errors::{Busy, Conflict, Invalid, Stale};
use duolog::runs::{Attribution, Begun, End, Expiry, Finish, LoopPoint, NewGate, RunPage};
use duolog::{
    ApprovalId, ApprovalKind, ApprovalStatus, Error, ErrorKind, ExecutionId, RunId, RunStatus, Store, Timestamp,
};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::runs::{BEGIN, Timed, by, claimed, start};

on_both_engines!(
    an_approved_run_goes_on_and_the_answer_waits_for_it,
    a_rejected_run_fails_with_the_reason,
    a_reply_loop_keeps_questions_and_answers_by_pointer,
    an_answer_that_cannot_be_one_is_refused,
    an_overdue_gate_fails_its_run,
    a_gate_goes_with_its_run,
    gates_are_listed
);

fn ask(store: &Store, run: &RunId, gate: &NewGate) -> Approval {
    store.runs().open(run).pause_at(gate).expect("paused").approval
}

fn yes_or_no(name: &str) -> NewGate {
    NewGate::new(ApprovalKind::Approve, name, "look at the plan")
}

fn from(who: &str, said: Option<&str>) -> Answer {
    Answer { by: Some(who.to_owned()), response: said.map(str::to_owned), ..Answer::default() }
}

fn status(store: &Store, run: &RunId) -> RunStatus {
    store.runs().summary(run).expect("there").status
}

fn an_approved_run_goes_on_and_the_answer_waits_for_it(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (id, fence) = claimed(&store, "t", "w1");
    let gate = NewGate {
        requested_by: Some("agent".to_owned()),
        content_hash: Some("abc".to_owned()),
        scratch: Some("{\"plan\":1}".to_owned()),
        ..yes_or_no("post_plan")
    };
    let unclaimed = store.runs().open(&id).pause_at(&gate).expect_err("claimed");
    assert!(matches!(unclaimed, Error::Busy(Busy::Claimed { .. })), "{unclaimed}");
    let asked = store.runs().open(&id).under(fence).pause_at(&gate).expect("paused").approval;
    let run = store.runs().get(&id).expect("there");
    assert_eq!((run.summary.status, run.pending.as_ref()), (RunStatus::Paused, Some(&asked.id)));
    assert_eq!((run.summary.current_phase.as_str(), run.scratch.len()), ("waiting_approval", 1));
    assert!(run.phase_history[0].contains("\"gate\":\"post_plan\""), "{:?}", run.phase_history);
    assert!(run.summary.lease_owner.is_none() && run.summary.lease_expires_at.is_none());
    let resumed = store.runs().open(&id).resume(&by("ada")).expect_err("it waits for an answer");
    assert!(matches!(&resumed, Error::Conflict(Conflict::GatePending { gate, .. }) if *gate == asked.id), "{resumed}");
    assert!(store.runs().recover("w2").expect("looks").resumed.is_empty());
    let seen = Answer { content_hash: Some("abc".to_owned()), ..from("ada", Some("fine")) };
    let answered = store.approvals().approve(&asked.id, &seen).expect("approved");
    assert_eq!((answered.run.status, answered.approval.status), (RunStatus::Running, ApprovalStatus::Approved));
    let again = store.approvals().reject(&asked.id, &from("bob", None)).expect_err("once");
    assert_eq!(again.to_string(), format!("gate {} is already approved, by ada", asked.id));
    // Every claim gets the answer until one acknowledges it.
    let claim = store.runs().open(&id).claim("w2", None).expect("claimed");
    assert_eq!(claim.unconsumed, std::slice::from_ref(&asked.id));
    timed.pass(61);
    let recovered = store.runs().recover("w3").expect("recovers").resumed;
    assert_eq!(recovered[0].unconsumed, std::slice::from_ref(&asked.id), "w2 died before it acknowledged it");
    let stale = store.runs().open(&id).under(claim.fence).acknowledge(&asked.id).expect_err("overtaken");
    assert_eq!(stale.kind(), ErrorKind::Stale);
    let mine = store.runs().open(&id).under(recovered[0].fence);
    assert!(mine.acknowledge(&asked.id).expect("noted"));
    assert!(!mine.acknowledge(&asked.id).expect("noted already"));
    assert!(store.runs().get(&id).expect("there").unconsumed.is_empty());
    let last = mine.gate("post_plan").expect("asked").expect("there");
    assert_eq!((last.response.as_deref(), last.consumed_at.is_some()), (Some("fine"), true));
    assert!(mine.gate("other").expect("asked").is_none());
    mine.finish(&End::Succeeded, None).expect("finished");
}

fn a_rejected_run_fails_with_the_reason(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    for (trigger, said, reason) in
        [("1", Some("too risky"), "Rejected: too risky"), ("2", None, "Rejected: no reason given")]
    {
        let id = start(&store, "build", trigger).run.id;
        let asked = ask(&store, &id, &yes_or_no("g"));
        let answered = store.approvals().reject(&asked.id, &from("ada", said)).expect("rejected");
        assert_eq!((answered.run.status, answered.approval.status), (RunStatus::Failed, ApprovalStatus::Rejected));
        let run = store.runs().get(&id).expect("there");
        assert_eq!((run.error.as_deref(), run.actor.as_deref()), (Some(reason), Some("ada")));
        let none = store.runs().open(&id).acknowledge(&asked.id).expect_err("ended");
        assert_eq!(none.kind(), ErrorKind::Conflict);
    }
}

fn a_reply_loop_keeps_questions_and_answers_by_pointer(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (id, mut fence) = claimed(&store, "t", "w");
    let mut asked = Vec::new();
    for iteration in 1..=3_u64 {
        let run = store.runs().open(&id).under(fence);
        let label = format!("ask_iter_{iteration}");
        let Begun::Started(execution) = run.begin(&label, None).expect("begun") else { panic!("not begun") };
        run.set_output(&execution.id, &format!("question {iteration}?")).expect("kept");
        run.end(&execution.id, &Finish { success: true, ..Finish::default() }).expect("ended");
        let point = LoopPoint { key: "socratic".to_owned(), iteration, output: execution.id.clone() };
        let gate = NewGate { at: Some(point), ..NewGate::new(ApprovalKind::Reply, &label, "a question") };
        let approval = run.pause_at(&gate).expect("paused").approval;
        let reply = from("ada", Some(&format!("answer {iteration}")));
        store.approvals().reply(&approval.id, &reply).expect("replied");
        fence = store.runs().open(&id).claim("w", None).expect("claimed").fence;
        assert!(store.runs().open(&id).under(fence).acknowledge(&approval.id).expect("noted"));
        asked.push((approval.id, execution.id));
    }
    let run = store.runs().get(&id).expect("there");
    let state: serde_json::Value = serde_json::from_str(&run.scratch[0].1).expect("JSON");
    assert_eq!((&state["iteration"], state["lastOutputExecutionId"].as_str()), (&3.into(), Some(asked[2].1.as_str())));
    let filter = ApprovalFilter { run: Some(id.clone()), status: None };
    let history = store.approvals().list(&filter, &RunPage::default()).expect("listed").approvals;
    for (number, (gate, (approval, execution))) in history.iter().rev().zip(&asked).enumerate() {
        assert_eq!((&gate.id, gate.output_execution_id.as_ref()), (approval, Some(execution)));
        let question = store.runs().executions().output(execution).expect("read").expect("kept").text;
        assert_eq!(question, format!("question {}?", number + 1));
        assert_eq!(gate.response.as_deref(), Some(format!("answer {}", number + 1).as_str()));
        assert_eq!((gate.iteration, gate.loop_key.as_deref()), (Some(number as u64 + 1), Some("socratic")));
    }
    assert_eq!(history.len(), 3);
    let bad = NewGate {
        at: Some(LoopPoint { key: "k".to_owned(), iteration: 1, output: ExecutionId::new() }),
        ..NewGate::new(ApprovalKind::Reply, "g", "s")
    };
    let refused = store.runs().open(&id).under(fence).pause_at(&bad).expect_err("no such execution");
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert_eq!(status(&store, &id), RunStatus::Running, "nothing was changed");
    assert_eq!(store.runs().get(&id).expect("there").phase_history.len(), 3);
}

fn an_answer_that_cannot_be_one_is_refused(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (one, two) = (start(&store, "build", "1").run.id, start(&store, "build", "2").run.id);
    let yes = ask(&store, &one, &NewGate { content_hash: Some("abc".to_owned()), ..yes_or_no("g") });
    let reply = ask(&store, &two, &NewGate::new(ApprovalKind::Reply, "g", "which color?"));
    let approvals = store.approvals();
    let kind = approvals.reply(&yes.id, &from("ada", Some("blue"))).expect_err("it takes an approval or a rejection");
    assert!(matches!(kind, Error::Invalid(Invalid::GateKind { .. })) && kind.kind() == ErrorKind::Invalid, "{kind}");
    assert!(matches!(approvals.approve(&reply.id, &from("ada", None)), Err(Error::Invalid(Invalid::GateKind { .. }))));
    assert!(matches!(approvals.reject(&reply.id, &from("ada", None)), Err(Error::Invalid(Invalid::GateKind { .. }))));
    let other = Answer { run: Some(two.clone()), ..from("ada", None) };
    let refused = approvals.approve(&yes.id, &other).expect_err("of another run");
    assert!(matches!(&refused, Error::Invalid(Invalid::GateOfOtherRun { run, .. }) if *run == one), "{refused}");
    let changed = Answer { content_hash: Some("abd".to_owned()), ..from("ada", None) };
    assert!(matches!(approvals.approve(&yes.id, &changed), Err(Error::Stale(Stale::GateChanged { .. }))));
    assert_eq!(
        approvals.reply(&reply.id, &from("ada", Some("  "))).expect_err("nothing said").kind(),
        ErrorKind::Invalid
    );
    let long = "x".repeat((64 << 10) + 1);
    assert_eq!(approvals.reply(&reply.id, &from("ada", Some(&long))).expect_err("too long").kind(), ErrorKind::Invalid);
    assert_eq!(
        approvals.approve(&ApprovalId::new(), &from("ada", None)).expect_err("none").kind(),
        ErrorKind::NotFound
    );
    assert_eq!((status(&store, &one), status(&store, &two)), (RunStatus::Paused, RunStatus::Paused));
    let other = store.runs().open(&two).acknowledge(&yes.id).expect_err("it does not run");
    assert_eq!(other.kind(), ErrorKind::Conflict);
    approvals.reply(&reply.id, &from("ada", Some("blue"))).expect("replied");
    let other = store.runs().open(&two).acknowledge(&yes.id).expect_err("of another run");
    assert!(matches!(other, Error::Invalid(Invalid::GateOfOtherRun { .. })), "{other}");
    let third = start(&store, "build", "3").run.id;
    for gate in [
        NewGate { summary: "x".repeat(1 << 20), ..yes_or_no("g") },
        yes_or_no(""),
        yes_or_no(&"x".repeat(129)),
        NewGate { scratch: Some("[]".to_owned()), ..yes_or_no("g") },
        NewGate { content_hash: Some(String::new()), ..yes_or_no("g") },
    ] {
        let error = store.runs().open(&third).pause_at(&gate).expect_err("bad");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(status(&store, &third), RunStatus::Running);
}

fn an_overdue_gate_fails_its_run(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let until = |seconds: i64| Some(Timestamp::from_micros((BEGIN + seconds) * 1_000_000));
    let (one, two) = (start(&store, "build", "1").run.id, start(&store, "build", "2").run.id);
    let first = ask(&store, &one, &NewGate { expires: until(100).map(Expiry::At), ..yes_or_no("g") });
    let second = ask(&store, &two, &NewGate { expires: until(100).map(Expiry::At), ..yes_or_no("g") });
    assert!(store.runs().expire().expect("looks").gates.is_empty());
    timed.pass(101);
    // A late answer is refused, and the run does not wait any longer.
    let late = store.approvals().approve(&first.id, &from("ada", None)).expect_err("too late");
    assert!(matches!(late, Error::Stale(Stale::GateExpired { .. })) && late.kind() == ErrorKind::Stale, "{late}");
    assert_eq!(status(&store, &one), RunStatus::Failed);
    assert_eq!(store.approvals().get(&first.id).expect("there").status, ApprovalStatus::Expired);
    let expired = store.runs().expire().expect("expires").gates;
    assert_eq!(expired.iter().map(|run| &run.id).collect::<Vec<_>>(), [&two]);
    let run = store.runs().get(&two).expect("there");
    assert_eq!(run.error.as_deref(), Some("gate g was not answered in time"));
    let again = store.approvals().approve(&second.id, &from("ada", None)).expect_err("expired");
    assert!(
        matches!(again, Error::Conflict(Conflict::GateResolved { status: ApprovalStatus::Expired, .. })),
        "{again}"
    );
}

fn a_gate_goes_with_its_run(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let id = start(&store, "build", "t").run.id;
    let asked = ask(&store, &id, &yes_or_no("g"));
    store.runs().open(&id).cancel(&by("ada")).expect("cancelled");
    let late = store.approvals().approve(&asked.id, &from("bob", None)).expect_err("it is over");
    assert!(matches!(late, Error::Conflict(Conflict::GateResolved { status: ApprovalStatus::Expired, .. })), "{late}");
    store.runs().open(&id).retry(duolog::runs::Admission::IfFree, &by("ada")).expect("again");
    // A run that was paused by hand, without a gate, is resumed by hand.
    store.runs().open(&id).pause(&Attribution::default()).expect("paused");
    assert!(store.runs().open(&id).resume(&Attribution::default()).expect("resumed").changed);
    ask(&store, &id, &yes_or_no("g"));
    assert_eq!(status(&store, &id), RunStatus::Paused);
}

fn gates_are_listed(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open_with(duolog::limits::RunLimits { max_running: 99, ..Default::default() });
    let gates: Vec<Approval> = (0..5)
        .map(|number| {
            let id = start(&store, "build", &number.to_string()).run.id;
            ask(&store, &id, &yes_or_no("g"))
        })
        .collect();
    store.approvals().approve(&gates[2].id, &from("ada", None)).expect("approved");
    let pending = ApprovalFilter { status: Some(ApprovalStatus::Pending), run: None };
    let first = store.approvals().list(&pending, &RunPage::new(3, None)).expect("listed");
    let ids: Vec<_> = first.approvals.iter().map(|gate| &gate.id).collect();
    assert_eq!(ids, [&gates[4].id, &gates[3].id, &gates[1].id]);
    let token = first.next.expect("more").to_string().parse().expect("reads back");
    let rest = store.approvals().list(&pending, &RunPage::new(3, Some(token))).expect("listed");
    assert_eq!((rest.approvals.len(), rest.next), (1, None));
    assert_eq!(store.approvals().resolve(gates[0].id.as_str()).expect("found"), gates[0].id);
    assert_eq!(store.approvals().resolve("none").expect_err("nothing").kind(), ErrorKind::NotFound);
    assert_eq!(store.approvals().pending_of(&gates[0].workflow_run_id).expect("asked"), Some(gates[0].clone()));
    assert_eq!(store.approvals().unconsumed_of(&gates[2].workflow_run_id).expect("asked").len(), 1);
}
