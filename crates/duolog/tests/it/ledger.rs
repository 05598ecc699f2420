use duolog::errors::{Busy, NotFound};
use duolog::runs::{
    Begun, End, Execution, ExecutionOutcome, Finish, NewExecution, Rollup, RollupInterval, RollupQuery, RunFilter,
    RunPage, dollars,
};
use duolog::{Error, ErrorKind, ExecutionId, Money, PageToken, RunStatus, SessionId, Store, TriggerType};
use duolog_testkit::clock::FixedClock;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::Apart;
use super::runs::{BEGIN, Timed, claimed, new, start};

on_both_engines!(
    unknown_values_are_not_zero,
    outcomes_are_derived,
    a_long_output_keeps_its_tail_and_a_blob,
    errors_are_found,
    days_and_hours_are_complete_in_any_zone,
    lists_show_the_active_first_page_by_page,
    filters_are_combined
);

/// The seconds of a day.
const DAY: i64 = 86_400;

fn begun(store: &Store, trigger: &str, phase: &str) -> Execution {
    let id = start(store, "build", trigger).run.id;
    match store.runs().open(&id).begin(phase, None).expect("begun") {
        Begun::Started(execution) => *execution,
        other => panic!("{other:?}"),
    }
}

fn unknown_values_are_not_zero(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let (id, fence) = claimed(&store, "t", "w");
    let run = store.runs().open(&id).under(fence);
    let ledger = store.runs().executions();
    let begin = |phase: &str| match run.begin(phase, None).expect("begun") {
        Begun::Started(execution) => execution.id,
        other => panic!("{other:?}"),
    };
    let (one, two) = (begin("one"), begin("two"));
    let session = SessionId::new();
    run.set_session(&one, &session).expect("noted");
    run.end(&one, &Finish { success: true, ..Finish::default() }).expect("ended");
    let summary = store.runs().summary(&id).expect("there");
    assert_eq!((summary.cost, summary.tokens), (None, None));
    let known =
        Finish { success: true, cost: Some(Money::ZERO), output_tokens: Some(0), turns: Some(3), ..Finish::default() };
    let ended = run.end(&two, &known).expect("ended");
    assert_eq!(ended.end.expect("ended").finish, known);
    let summary = store.runs().summary(&id).expect("there");
    assert_eq!((summary.cost, summary.tokens), (Some(Money::ZERO), Some(0)));
    assert_eq!(ledger.get(&one).expect("there").session_id, Some(session));
    // A claim is for one run, and changes only the executions of that run.
    let (other, other_fence) = claimed(&store, "another", "w");
    let other = store.runs().open(&other).under(other_fence);
    assert!(matches!(other.set_output(&two, "text"), Err(Error::NotFound(NotFound::Execution(_)))));
    let three = begin("three");
    assert!(matches!(other.end(&three, &Finish::default()), Err(Error::NotFound(NotFound::Execution(_)))));
    let wrong = [
        Finish { cost: Some(Money::from_dollars(10_001)), ..Finish::default() },
        Finish { input_tokens: Some(u64::MAX), ..Finish::default() },
        Finish { turns: Some(1 << 60), ..Finish::default() },
        Finish { error: Some("x".repeat((16 << 10) + 1)), ..Finish::default() },
        Finish { stop_reason: Some(String::new()), ..Finish::default() },
    ];
    for finish in wrong {
        assert_eq!(run.end(&three, &finish).expect_err("wrong").kind(), ErrorKind::Invalid, "{finish:?}");
    }
    assert!(dollars(-1.0).is_err() && dollars(f64::NAN).is_err());
    let unfenced = ledger.finish(&three, &Finish::default(), None).expect_err("claimed");
    assert!(matches!(unfenced, Error::Busy(Busy::Claimed { .. })), "{unfenced}");
    let costly =
        Finish { success: true, cost: Some(dollars(0.1).expect("a cost")), input_tokens: Some(7), ..Finish::default() };
    run.end(&three, &costly).expect("ended");
    let summary = store.runs().summary(&id).expect("there");
    assert_eq!((summary.cost.map(|cost| cost.to_string()), summary.tokens), (Some("0.1".to_owned()), Some(7)));
    assert_eq!(ledger.get(&ExecutionId::new()).expect_err("none").kind(), ErrorKind::NotFound);
    let page = run.executions(2, None).expect("listed");
    let rest = run.executions(2, page.next.as_ref()).expect("listed");
    let skills: Vec<_> = page.executions.iter().chain(&rest.executions).map(|one| one.skill.as_str()).collect();
    assert_eq!((skills, rest.next), (vec!["build:one", "build:three", "build:two"], None));
}

fn outcomes_are_derived(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let id = start(&store, "build", "t").run.id;
    let run = store.runs().open(&id);
    let ended = |phase: &str, success: bool, stop: Option<&str>| {
        let Begun::Started(execution) = run.begin(phase, None).expect("begun") else { panic!("not begun") };
        let finish = Finish { success, stop_reason: stop.map(str::to_owned), ..Finish::default() };
        run.end(&execution.id, &finish).expect("ended").outcome()
    };
    assert_eq!(ended("a", true, None), ExecutionOutcome::Succeeded);
    assert_eq!(ended("b", false, Some("error_tool")), ExecutionOutcome::Failed);
    assert_eq!(ended("c", false, Some("error_quota")), ExecutionOutcome::Deferred);
    assert_eq!(ended("d", false, None), ExecutionOutcome::Failed);
    assert_eq!(run.skip("e", Some("nothing to do")).expect("skipped").outcome(), ExecutionOutcome::Skipped);
    let long = run.skip("e", Some(&"x".repeat(4097))).expect_err("it is too long for a log line");
    assert!(long.kind() == ErrorKind::Invalid && long.to_string().contains("4096"), "{long}");
    let Begun::Started(open) = run.begin("f", None).expect("begun") else { panic!("not begun") };
    assert_eq!(open.outcome(), ExecutionOutcome::InFlight);
    // A phase that was skipped or deferred can begin again.
    assert_eq!(run.should_run_phase("e").expect("asked"), duolog::runs::PhaseState::Run);
    let chat = NewExecution {
        id: None,
        trigger_type: TriggerType::Chat,
        trigger_id: "thread".to_owned(),
        skill: "chat".to_owned(),
        session_id: None,
        owner: None,
        repo: Some("o/r".to_owned()),
        issue_number: None,
        triggered_by: None,
    };
    let ledger = store.runs().executions();
    let first = ledger.start(&chat).expect("started");
    let second = ledger.start(&chat).expect("another turn");
    ledger.finish(&first.id, &Finish { success: true, ..Finish::default() }, None).expect("ended");
    let turns = ledger.of_trigger(TriggerType::Chat, "thread", 9, None).expect("listed").executions;
    assert_eq!(turns.iter().map(|one| &one.id).collect::<Vec<_>>(), [&first.id, &second.id]);
    let last = ledger.of_trigger(TriggerType::Chat, "thread", 1, None).expect("listed");
    assert_eq!(last.executions.iter().map(|one| &one.id).collect::<Vec<_>>(), [&second.id]);
    let before = ledger.of_trigger(TriggerType::Chat, "thread", 1, last.next.as_ref()).expect("listed");
    assert_eq!(before.executions.iter().map(|one| &one.id).collect::<Vec<_>>(), [&first.id]);
    assert!(before.next.is_none() && last.next.is_some());
    for skill in ["", "other", "a:b c", ":x"] {
        let bad = NewExecution { skill: skill.to_owned(), ..chat.clone() };
        assert_eq!(ledger.start(&bad).expect_err("bad").kind(), ErrorKind::Invalid, "{skill}");
    }
}

fn a_long_output_keeps_its_tail_and_a_blob(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open();
    let execution = begun(&store, "t", "plan").id;
    let ledger = store.runs().executions();
    assert_eq!(ledger.output(&execution).expect("read"), None);
    let short = ledger.set_output(&execution, "the plan", None).expect("kept");
    assert_eq!((short.text.as_str(), short.blob), ("the plan", None));
    // Two bytes a character: the cut is between characters.
    let long = format!("x{}", "ü".repeat(1 << 20));
    let kept = ledger.set_output(&execution, &long, None).expect("kept");
    assert_eq!(kept.bytes, long.len() as u64);
    assert!(kept.text.len() <= 1 << 20 && long.ends_with(&kept.text) && kept.blob.is_some());
    assert_eq!(ledger.full_output(&execution).expect("read").as_deref(), Some(long.as_str()));
    let blobs = store.state().count_blobs(|_| {}).expect("counted");
    let named: Vec<u64> = blobs.blobs().map(|blob| blob.named).collect();
    assert_eq!(named, [1], "its row keeps it from being pruned");
    assert_eq!(ledger.set_output(&execution, "a\0b", None).expect_err("NUL").kind(), ErrorKind::Invalid);
}

fn errors_are_found(place: &Place) {
    let timed = Timed::of(place);
    let store = timed.open_with(duolog::limits::RunLimits { max_running: 99, ..Default::default() });
    for (trigger, error) in [("1", "Deadlock in 100% of cases"), ("2", "timeout"), ("3", "DEADLOCK_again")] {
        let execution = begun(&store, trigger, "plan").id;
        let finish = Finish { error: Some(error.to_owned()), ..Finish::default() };
        store.runs().executions().finish(&execution, &finish, None).expect("ended");
    }
    let find = |text: &str, limit, after: Option<&PageToken>| {
        let list = store.runs().executions().search_errors(text, limit, after).expect("searched");
        let triggers: Vec<_> = list.executions.iter().map(|one| one.trigger_id.clone()).collect();
        (triggers.join(" "), list.next)
    };
    assert_eq!(find("deadlock", 9, None).0, "3 1", "newest first");
    assert_eq!(find("100%", 9, None).0, "1", "a percent sign is not a wildcard");
    assert_eq!(find("deadlock_", 9, None).0, "3", "and neither is an underscore");
    assert_eq!(find("build:plan", 9, None).0, "3 2 1", "in its skill");
    let (first, next) = find("deadlock", 1, None);
    assert_eq!((first.as_str(), find("deadlock", 1, next.as_ref()).0.as_str()), ("3", "1"));
    assert_eq!(find("nothing", 9, None), (String::new(), None));
}

fn days_and_hours_are_complete_in_any_zone(place: &Place) {
    let mut timed = Timed::of(place);
    // Noon in UTC.
    let noon = DAY / 2;
    timed.clock = FixedClock::ticking_from((BEGIN / DAY * DAY + noon) * 1_000_000);
    let store = timed.open_with(duolog::limits::RunLimits { max_running: 99, ..Default::default() });
    let run = |trigger: &str, cost: f64| {
        let execution = begun(&store, trigger, "plan").id;
        let finish = Finish {
            success: true,
            cost: Some(dollars(cost).expect("a cost")),
            output_tokens: Some(5),
            ..Finish::default()
        };
        store.runs().executions().finish(&execution, &finish, None).expect("ended");
    };
    run("1", 0.1);
    // A minute past midnight in Kathmandu, which is 5:45 ahead of UTC; in Kolkata, 5:30 ahead, it is a quarter of an
    // hour earlier.
    timed.pass(18 * 3600 + 15 * 60 + 60 - noon);
    run("2", 0.2);
    let query = |every, last, zone: Option<&str>| {
        let query = RollupQuery { every, last, zone: zone.map(str::to_owned), workflow: None };
        store.runs().rollups(&query).expect("rolled up")
    };
    let seen = |rollups: &[Rollup]| rollups.iter().map(|one| (one.label.clone(), one.started)).collect::<Vec<_>>();
    let utc = query(RollupInterval::Day, 3, None);
    assert_eq!(utc.len(), 3);
    assert_eq!(utc.iter().map(|one| one.started).sum::<u64>(), 2);
    let today = utc.last().expect("three");
    assert_eq!((today.succeeded, today.in_flight, today.output_tokens), (today.started, 0, 5 * today.started));
    let kathmandu = query(RollupInterval::Day, 2, Some("Asia/Kathmandu"));
    let kolkata = query(RollupInterval::Day, 2, Some("Asia/Kolkata"));
    assert_eq!(kathmandu.iter().map(|one| one.started).collect::<Vec<_>>(), [1, 1], "{:?}", seen(&kathmandu));
    assert_eq!(kolkata.iter().map(|one| one.started).collect::<Vec<_>>(), [0, 2], "{:?}", seen(&kolkata));
    assert_eq!(kathmandu[1].cost.to_string(), "0.2");
    let hours = query(RollupInterval::Hour, 4, Some("Asia/Kathmandu"));
    assert_eq!((hours.len(), hours[3].started, hours[3].label.ends_with("T00:00")), (4, 1, true), "{:?}", seen(&hours));
    assert!(hours.windows(2).all(|pair| pair[0].label < pair[1].label));
    assert_eq!(query(RollupInterval::Day, 0, None).len(), 1);
    assert_eq!(query(RollupInterval::Hour, 10_000, None).len(), 744);
    let other = RollupQuery { every: RollupInterval::Day, last: 1, zone: None, workflow: Some("other".to_owned()) };
    assert_eq!(store.runs().rollups(&other).expect("rolled up")[0].started, 0);
    let unknown = RollupQuery { zone: Some("Mars/Base".to_owned()), ..other };
    assert_eq!(store.runs().rollups(&unknown).expect_err("unknown").kind(), ErrorKind::Invalid);
    begun(&store, "3", "plan");
    assert_eq!(query(RollupInterval::Day, 1, None)[0].in_flight, 1);
}

fn walk(store: &Store, filter: &RunFilter, limit: u32) -> String {
    let (mut seen, mut after): (Vec<String>, Option<PageToken>) = (Vec::new(), None);
    loop {
        let page = store.runs().list(filter, &RunPage::new(limit, after)).expect("listed");
        seen.extend(page.runs.into_iter().map(|run| run.trigger_id));
        match page.next {
            Some(next) => after = Some(next.to_string().parse().expect("reads back")),
            None => return seen.join(" "),
        }
    }
}

/// Nine runs: two are running, two are queued, and the others are paused or have ended.
fn filled(store: &Store) {
    for (number, end) in
        ["succeed", "run", "pause", "fail", "run", "cancel", "succeed", "queue", "queue"].into_iter().enumerate()
    {
        let (workflow, repo) = if number % 2 == 0 { ("even", "o/p") } else { ("odd", "p") };
        let mut new = new(workflow, &number.to_string());
        new.repo = Some(repo.to_owned());
        if end == "queue" {
            new.admission = duolog::runs::Admission::Queue;
        }
        let id = store.runs().start(&new).expect("starts").run.id;
        let (run, none) = (store.runs().open(&id), duolog::runs::Attribution::default());
        match end {
            "succeed" => drop(run.finish(&End::Succeeded, None).expect("finished")),
            "fail" => drop(run.finish(&End::Failed("why".to_owned()), None).expect("finished")),
            "pause" => drop(run.pause(&none).expect("paused")),
            "cancel" => drop(run.cancel(&none).expect("cancelled")),
            _ => {}
        }
    }
}

fn lists_show_the_active_first_page_by_page(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    filled(&store);
    let all = RunFilter::default();
    let order = walk(&store, &all, 200);
    for limit in [1, 2, 3, 4, 8, 9] {
        assert_eq!(walk(&store, &all, limit), order, "in pages of {limit}");
    }
    let runs = store.runs().list(&all, &RunPage::default()).expect("listed").runs;
    let ranks: Vec<_> = runs.iter().map(|run| run.status.active_rank()).collect();
    assert!(ranks.is_sorted() && ranks.len() == 9, "{ranks:?}");
    for pair in runs.windows(2).filter(|pair| pair[0].status.active_rank() == pair[1].status.active_rank()) {
        assert!(pair[0].started_at > pair[1].started_at, "{order}");
    }
    for statuses in [
        vec![RunStatus::Running],
        vec![RunStatus::Failed, RunStatus::Succeeded],
        vec![RunStatus::Queued, RunStatus::Cancelled, RunStatus::Paused],
        RunStatus::ALL.to_vec(),
    ] {
        let filter = RunFilter { statuses: statuses.clone(), ..RunFilter::default() };
        let expected: Vec<_> =
            runs.iter().filter(|run| statuses.contains(&run.status)).map(|run| run.trigger_id.as_str()).collect();
        for limit in [1, 2, 200] {
            assert_eq!(walk(&store, &filter, limit), expected.join(" "), "{statuses:?} in pages of {limit}");
        }
        assert_eq!(store.runs().count(&filter).expect("counted"), expected.len() as u64);
    }
    let since = RunFilter { since: Some(runs[0].started_at), ..RunFilter::default() };
    assert!(store.runs().count(&since).expect("counted") >= 1);
}

fn filters_are_combined(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    filled(&store);
    let odd = RunFilter { workflow_name: Some("odd".to_owned()), ..RunFilter::default() };
    assert_eq!(walk(&store, &odd, 2), "7 5 3 1", "newest first");
    let bare = RunFilter { repo: Some("p".to_owned()), ..RunFilter::default() };
    assert_eq!(walk(&store, &bare, 3), "8 7 6 5 4 3 2 1 0", "of any owner");
    let owned = RunFilter { repo: Some("o/p".to_owned()), ..RunFilter::default() };
    assert_eq!(walk(&store, &owned, 3), "8 6 4 2 0");
    let both = RunFilter { owner: Some("o".to_owned()), repo: Some("p".to_owned()), ..owned };
    assert_eq!(walk(&store, &both, 3), "8 6 4 2 0");
    let ended = RunFilter { statuses: vec![RunStatus::Failed, RunStatus::Cancelled], ..bare };
    assert_eq!((walk(&store, &ended, 1), store.runs().count(&ended).expect("counted")), ("5 3".to_owned(), 2));
    let bare_of_one =
        RunFilter { workflow_name: Some("even".to_owned()), repo: Some("p".to_owned()), ..RunFilter::default() };
    assert_eq!(walk(&store, &bare_of_one, 2), "8 6 4 2 0");
    assert_eq!(store.runs().count(&bare_of_one).expect("counted"), 5);
    let none = RunFilter { workflow_name: Some("odd".to_owned()), ..both };
    assert_eq!(walk(&store, &none, 3), "");
    let trigger =
        RunFilter { trigger_id: Some("4".to_owned()), workflow_name: Some("even".to_owned()), ..RunFilter::default() };
    assert_eq!(walk(&store, &trigger, 3), "4");
    let half = RunFilter { owner: Some("o".to_owned()), ..RunFilter::default() };
    assert_eq!(store.runs().list(&half, &RunPage::default()).expect_err("half a name").kind(), ErrorKind::Invalid);
    assert!("2.0.zz.a".parse::<PageToken>().is_err());
}
