use std::collections::BTreeSet;

use duolog::approvals::{Answer, ApprovalFilter};
use duolog::chats::{ChatFilter, ChatKey, NewChatMessage};
use duolog::errors::Invalid;
use duolog::limits::RunLimits;
use duolog::runs::{Attribution, NewGate, RunFilter, RunOrder, RunPage};
use duolog::sessions::SessionFilter;
use duolog::usage::{UsageFilter, UsageToken};
use duolog::{
    ApprovalKind, ApprovalStatus, ChatRole, Durability, Error, Page, PageOrder, PageToken, RunStatus, SessionId, Store,
};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::line;
use super::runs::{Timed, start};

on_both_engines!(
    a_pending_gate_is_found_behind_many_answered_ones,
    all_gates_of_a_run_are_listed_once_and_the_pending_one_first,
    runs_that_change_are_listed_once_in_the_order_of_starts,
    sessions_that_change_are_listed_once_in_the_order_they_were_made,
    chats_that_change_are_listed_once_in_the_order_they_were_created,
    usage_of_sessions_that_change_is_listed_once_in_the_order_they_were_created,
    a_token_is_of_one_list_with_its_filters
);

fn many(timed: &Timed) -> Store {
    timed.open_with(RunLimits { max_running: 1000, ..RunLimits::default() })
}

fn a_pending_gate_is_found_behind_many_answered_ones(place: &Place) {
    let timed = Timed::of(place);
    let store = many(&timed);
    let id = start(&store, "build", "t").run.id;
    let gate = |name: &str| {
        let gate = NewGate::new(ApprovalKind::Approve, name, "look");
        store.runs().open(&id).pause_at(&gate).expect("paused").approval.id
    };
    for number in 0..5 {
        store.approvals().approve(&gate(&number.to_string()), &Answer::default()).expect("approved");
    }
    let pending = gate("last");
    let filter = ApprovalFilter { run: Some(id.clone()), status: Some(ApprovalStatus::Pending) };
    let list = store.approvals().list(&filter, &RunPage::new(2, None)).expect("listed");
    assert_eq!(list.approvals.iter().map(|gate| &gate.id).collect::<Vec<_>>(), [&pending], "on the first page");
    assert!(list.next.is_none());
    let answered = ApprovalFilter { status: Some(ApprovalStatus::Approved), ..filter };
    let first = store.approvals().list(&answered, &RunPage::new(3, None)).expect("listed");
    let rest = store.approvals().list(&answered, &RunPage::new(3, first.next)).expect("listed");
    assert_eq!((first.approvals.len(), rest.approvals.len(), rest.next), (3, 2, None), "the first page is full");
}

fn all_gates_of_a_run_are_listed_once_and_the_pending_one_first(place: &Place) {
    let timed = Timed::of(place);
    let store = many(&timed);
    let id = start(&store, "build", "t").run.id;
    let gate = |name: &str| {
        timed.pass(1);
        let gate = NewGate::new(ApprovalKind::Approve, name, "look");
        store.runs().open(&id).pause_at(&gate).expect("paused").approval.id
    };
    let mut gates = Vec::new();
    for number in 0..4 {
        gates.push(gate(&number.to_string()));
        store.approvals().approve(&gates[number], &Answer::default()).expect("approved");
    }
    gates.push(gate("last"));
    gates.reverse();
    let filter = ApprovalFilter { run: Some(id.clone()), status: None };
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let list = store.approvals().list(&filter, &RunPage::new(1, after)).expect("listed");
        seen.extend(list.approvals.into_iter().map(|gate| gate.id));
        if seen.len() == 1 {
            // Answered between two pages, it keeps its place, and a newer one is before it.
            store.approvals().approve(&gates[0], &Answer::default()).expect("approved");
            gate("newer");
        }
        after = list.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, gates);
    let first = store.approvals().list(&filter, &RunPage::new(1, None)).expect("listed").approvals;
    assert_eq!(first[0].status, ApprovalStatus::Pending);
}

/// Reads a list in pages of two, and calls `each` between two pages.
fn walk(store: &Store, order: RunOrder, mut each: impl FnMut(usize)) -> Vec<String> {
    let (mut seen, mut after, mut page): (Vec<String>, Option<PageToken>, usize) = (Vec::new(), None, 0);
    let filter = RunFilter { order, ..RunFilter::default() };
    loop {
        let list = store.runs().list(&filter, &RunPage::new(2, after)).expect("listed");
        seen.extend(list.runs.into_iter().map(|run| run.trigger_id));
        match list.next {
            Some(next) => after = Some(next.to_string().parse().expect("reads back")),
            None => return seen,
        }
        each(page);
        page += 1;
    }
}

fn runs_that_change_are_listed_once_in_the_order_of_starts(place: &Place) {
    let timed = Timed::of(place);
    let store = many(&timed);
    let runs: Vec<_> = (0..12).map(|number| start(&store, "build", &number.to_string()).run.id).collect();
    for id in &runs[..6] {
        store.runs().open(id).pause(&Attribution::default()).expect("paused");
    }
    let all: BTreeSet<String> = (0..12).map(|number: u32| number.to_string()).collect();
    // Between two pages, one run that was not listed yet starts, and one that was listed ends.
    let change = |page: usize| {
        if let Some(id) = runs.get(page) {
            store.runs().open(id).resume(&Attribution::default()).expect("resumed");
        }
        if page == 0 {
            store.runs().open(&runs[11]).cancel(&Attribution::default()).expect("cancelled");
        }
    };
    let seen = walk(&store, RunOrder::Started, change);
    assert_eq!(seen.len(), 12, "once: {seen:?}");
    assert_eq!(seen.iter().cloned().collect::<BTreeSet<_>>(), all);
    // In the other order, every run whose status does not change is listed once.
    let paused = |id| store.runs().open(id).pause(&Attribution::default()).expect("paused");
    paused(&runs[0]);
    let seen = walk(&store, RunOrder::Active, |page| {
        if page == 0 {
            store.runs().open(&runs[0]).resume(&Attribution::default()).expect("resumed");
        }
    });
    let stayed: Vec<_> = seen.iter().filter(|trigger| *trigger != "0").collect();
    let once: BTreeSet<_> = stayed.iter().collect();
    assert_eq!((stayed.len(), once.len()), (11, 11), "{seen:?}");
    let token = store.runs().list(&RunFilter::default(), &RunPage::new(2, None)).expect("listed").next;
    let other = RunFilter { order: RunOrder::Started, ..RunFilter::default() };
    let mixed = store.runs().list(&other, &RunPage::new(2, token)).expect_err("of another list");
    assert!(matches!(mixed, Error::Invalid(Invalid::OtherPage(_))), "{mixed}");
    assert!(store.runs().count_by_status().expect("counted").iter().any(|(status, _)| *status == RunStatus::Running));
}

fn sessions_that_change_are_listed_once_in_the_order_they_were_made(place: &Place) {
    let timed = Timed::of(place);
    let store = many(&timed);
    let sessions: Vec<_> =
        (0..9).map(|number| store.sessions().open_thread(&format!("s{number}")).expect("made").id).collect();
    let filter = SessionFilter::default();
    let mut page = Page::first(2, PageOrder::Created);
    let (mut seen, mut number) = (Vec::new(), 0);
    loop {
        let list = store.sessions().list(&filter, &page).expect("listed");
        seen.extend(list.sessions.into_iter().map(|session| session.id));
        // The oldest session, which is listed last, is renamed between two pages, and so is one that was listed.
        store.sessions().rename(&sessions[0], &format!("first-{number}")).expect("renamed");
        store.sessions().rename(&sessions[8], &format!("last-{number}")).expect("renamed");
        number += 1;
        let Some(next) = list.next else { break };
        page = Page::new(2, Some(next.to_string().parse().expect("reads back")));
    }
    let newest_first: Vec<_> = sessions.iter().rev().cloned().collect();
    assert_eq!(seen, newest_first, "each once, despite the changes");
}

fn chats_that_change_are_listed_once_in_the_order_they_were_created(place: &Place) {
    let timed = Timed::of(place);
    let store = many(&timed);
    let chats = store.chats();
    let message = NewChatMessage {
        role: ChatRole::User,
        content: "hello".to_owned(),
        platform_message_id: None,
        agent_session_id: None,
    };
    let say = |channel: usize| {
        let key = ChatKey { platform: "slack".into(), channel: channel.to_string(), thread: None, user: "U".into() };
        timed.pass(1);
        chats.add(&key, &message, Durability::Process).expect("kept").chat
    };
    (0..9).for_each(|channel| drop(say(channel)));
    let newest_first: Vec<String> = (0..9).rev().map(|channel: usize| channel.to_string()).collect();
    for platform in [None, Some("slack".to_owned())] {
        let filter = ChatFilter { platform, order: Some(PageOrder::Created), ..ChatFilter::default() };
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let list = chats.list(&filter, after.as_ref(), 2).expect("listed");
            seen.extend(list.chats.into_iter().map(|chat| chat.key.channel));
            // Between two pages, messages are added to the chat that is listed last and to one that was listed.
            say(0);
            say(8);
            let Some(next) = list.next else { break };
            let other = ChatFilter { order: Some(PageOrder::Updated), ..filter.clone() };
            let mixed = chats.list(&other, Some(&next), 2).expect_err("of another list");
            assert!(matches!(mixed, Error::Invalid(Invalid::OtherPage(_))), "{mixed}");
            after = Some(next.to_string().parse().expect("reads back"));
        }
        assert_eq!(seen, newest_first, "each once, despite the changes");
    }
}

fn usage_of_sessions_that_change_is_listed_once_in_the_order_they_were_created(place: &Place) {
    let timed = Timed::of(place);
    let store = many(&timed);
    let text =
        r#"{"type":"assistant","timestamp":"2026-01-31T00:00:00Z","message":{"model":"m","usage":{"input_tokens":7}}}"#;
    let spend = |session: &SessionId| {
        timed.pass(1);
        store.log(session).append(&line(text), Durability::Process).expect("appended");
    };
    let sessions: Vec<_> =
        (0..9).map(|number| store.sessions().open_thread(&format!("s{number}")).expect("made").id).collect();
    sessions.iter().for_each(spend);
    let (mut seen, mut filter) = (Vec::new(), UsageFilter { limit: 2, ..UsageFilter::default() });
    filter.order = Some(PageOrder::Created);
    loop {
        let report = store.usage().session(&filter).expect("listed");
        seen.extend(report.lines.into_iter().filter_map(|line| line.key));
        spend(&sessions[0]);
        spend(&sessions[8]);
        let Some(next) = report.next else { break };
        let token: UsageToken = next.to_string().parse().expect("reads back");
        let other = UsageFilter { order: Some(PageOrder::Updated), after: Some(token.clone()), ..filter.clone() };
        let mixed = store.usage().session(&other).expect_err("of another list");
        assert!(matches!(mixed, Error::Invalid(Invalid::OtherPage(_))), "{mixed}");
        // The token determines the order.
        filter = UsageFilter { order: None, after: Some(token), ..filter };
    }
    let newest_first: Vec<_> = sessions.iter().rev().map(ToString::to_string).collect();
    assert_eq!(seen, newest_first, "each once, despite the changes");
}

/// A token of another list, or of the same list with another filter, is refused: its place does not exist in that
/// order.
fn a_token_is_of_one_list_with_its_filters(place: &Place) {
    let timed = Timed::of(place);
    let store = many(&timed);
    let gate = NewGate::new(ApprovalKind::Approve, "ship", "look");
    for (workflow, trigger) in [("w0", "1"), ("w0", "2"), ("w1", "3"), ("w1", "4")] {
        let run = start(&store, workflow, trigger).run.id;
        store.runs().open(&run).begin("plan", None).expect("begun");
        store.runs().open(&run).pause_at(&gate).expect("paused");
    }
    let of = |name: &str| RunFilter { workflow_name: Some(name.to_owned()), ..RunFilter::default() };
    let runs = |filter: &RunFilter, after| store.runs().list(filter, &RunPage::new(1, after));
    let gates = |status, after| {
        store.approvals().list(&ApprovalFilter { status, run: None }, &RunPage::new(1, after)).map(|list| list.next)
    };
    let of_w0 = runs(&of("w0"), None).expect("listed").next.expect("more");
    let of_all = runs(&RunFilter::default(), None).expect("listed").next.expect("more");
    let of_gates = gates(None, None).expect("listed").expect("more");
    let of_errors = store.runs().executions().search_errors("", 1, None).expect("listed").next;
    runs(&of("w0"), Some(of_w0.clone())).expect("of this list");
    let since = RunFilter { since: Some(duolog::Timestamp::from_micros(0)), ..of("w0") };
    runs(&since, Some(of_w0.clone())).expect("the start time is not part of the list");
    gates(None, Some(of_gates.clone())).expect("of this list");
    let mut refused = vec![
        runs(&of("w1"), Some(of_w0.clone())).map(drop),
        runs(&RunFilter::default(), Some(of_w0.clone())).map(drop),
        runs(&RunFilter { statuses: vec![RunStatus::Paused], ..of("w0") }, Some(of_w0.clone())).map(drop),
        runs(&of("w0"), Some(of_all.clone())).map(drop),
        runs(&RunFilter::default(), Some(of_gates.clone())).map(drop),
        gates(None, Some(of_all.clone())).map(drop),
        gates(Some(ApprovalStatus::Pending), Some(of_gates)).map(drop),
        store.runs().executions().search_errors("", 1, Some(&of_all)).map(drop),
    ];
    refused.extend(of_errors.map(|token| runs(&RunFilter::default(), Some(token)).map(drop)));
    let sessions = |filter: &SessionFilter, page| store.sessions().list(filter, &page).map(|list| list.next);
    let next = sessions(&SessionFilter::default(), Page::new(1, None)).expect("listed").expect("more");
    sessions(&SessionFilter::default(), Page::new(1, Some(next.clone()))).expect("of this list");
    let other = SessionFilter { user_id: Some("ada".to_owned()), ..SessionFilter::default() };
    refused.push(sessions(&other, Page::new(1, Some(next))).map(drop));
    let session = store.sessions().open_thread("demo").expect("made").id;
    let branch = duolog::BranchId::parse("zzzz").expect("an id");
    refused.push(store.sessions().branches(&session).list(Some(&branch), 9).map(drop));
    for (number, refused) in refused.into_iter().enumerate() {
        let error = refused.expect_err(&number.to_string());
        assert!(matches!(error, Error::Invalid(Invalid::OtherPage(_))), "{number}: {error}");
        assert_eq!(error.kind(), duolog::ErrorKind::Invalid);
    }
    if let Ok(token) = of_all.to_string().parse() {
        let mixed = sessions(&SessionFilter::default(), Page::new(1, Some(token))).expect_err("a run's token");
        assert!(matches!(mixed, Error::Invalid(Invalid::OtherPage(_))), "{mixed}");
    }
    assert!(of_all.to_string().parse::<UsageToken>().is_err());
}
