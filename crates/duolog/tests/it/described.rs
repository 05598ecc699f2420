use std::path::PathBuf;

use duolog::errors::NotFound;
use duolog::sessions::{
    AddOptions, BranchChange, BranchRef, HistoryView, NewBranch, NewFork, NewSession, SessionChange, SessionFilter,
    StatusUpdate,
};
use duolog::{
    Durability, Error, ErrorKind, InvocationKind, Page, SessionId, SessionStatus, SourceKind, Store, Timestamp,
};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, line, lines};

on_both_engines!(
    lists_filter_by_what_is_displayed,
    a_session_is_described_after_it_was_made,
    branches_are_created_and_described,
    the_pool_has_every_message_in_order,
    all_sessions_of_a_user_are_deleted
);

const PROCESS: Durability = Durability::Process;

#[allow(clippy::unnecessary_wraps, reason = "all fields that use it are optional")]
fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Returns the ids that a filter matches, page by page; every page except for the last is full.
fn listed(store: &Store, filter: &SessionFilter) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let list = store.sessions().list(filter, &Page::new(2, after)).expect("lists");
        ids.extend(list.sessions.iter().map(|session| session.id.to_string()));
        let Some(next) = list.next else { break };
        assert_eq!(list.sessions.len(), 2, "a page before the last is full: {filter:?}");
        after = Some(next);
    }
    ids.sort();
    ids
}

fn lists_filter_by_what_is_displayed(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    for number in 0..12 {
        let odd = number % 2 == 1;
        let new = NewSession {
            id: Some(SessionId::parse(&format!("s{number:02}")).expect("an id")),
            agent_name: odd.then(|| "coder".to_owned()),
            playbook_name: (number % 3 == 0).then(|| "review".to_owned()),
            invocation_kind: (number % 4 == 0).then_some(InvocationKind::Play),
            source_kind: (number % 5 == 0).then_some(SourceKind::ImportedFs),
            cwd: (number % 6 == 0).then(|| PathBuf::from("/srv/web")),
            ..NewSession::default()
        };
        store.sessions().create(&new).expect("made");
    }
    let ids = |of: &dyn Fn(u32) -> bool| (0..12).filter(|n| of(*n)).map(|n| format!("s{n:02}")).collect::<Vec<_>>();
    let filter = SessionFilter::default;
    assert_eq!(listed(&store, &filter()), ids(&|_| true));
    assert_eq!(listed(&store, &SessionFilter { agent_name: text("coder"), ..filter() }), ids(&|n| n % 2 == 1));
    assert_eq!(listed(&store, &SessionFilter { playbook_name: text("review"), ..filter() }), ids(&|n| n % 3 == 0));
    let play = SessionFilter { invocation_kind: Some(InvocationKind::Play), ..filter() };
    assert_eq!(listed(&store, &play), ids(&|n| n % 4 == 0));
    let imported = SessionFilter { source_kind: Some(SourceKind::ImportedFs), ..filter() };
    assert_eq!(listed(&store, &imported), ids(&|n| n % 5 == 0));
    let live = SessionFilter { source_kind: Some(SourceKind::Live), ..filter() };
    assert_eq!(listed(&store, &live), ids(&|n| n % 5 != 0));
    assert_eq!(listed(&store, &SessionFilter { cwd: text("/srv/web"), ..filter() }), ids(&|n| n % 6 == 0));
    let both = SessionFilter { agent_name: text("coder"), playbook_name: text("review"), ..filter() };
    assert_eq!(listed(&store, &both), ids(&|n| n % 2 == 1 && n % 3 == 0));
    assert_eq!(listed(&store, &SessionFilter { agent_name: text("nobody"), ..filter() }), Vec::<String>::new());
    let changed = store.sessions().get(&SessionId::parse("s07").expect("an id")).expect("there").updated_at;
    let since = SessionFilter { since: Some(changed), ..filter() };
    let found = listed(&store, &since);
    assert!(found.contains(&"s07".to_owned()) && found.contains(&"s11".to_owned()), "{found:?}");
    let later = SessionFilter { since: Some(Timestamp::from_micros(32_503_680_000_000_000)), ..filter() };
    assert_eq!(listed(&store, &later), Vec::<String>::new());
}

fn a_session_is_described_after_it_was_made(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("demo").expect("made").id;
    let (started, ended) = (Timestamp::from_micros(1_000_000), Timestamp::from_micros(2_000_000));
    let change = SessionChange {
        agent_name: text("coder"),
        invocation_kind: Some(InvocationKind::ShowPlay),
        playbook_name: text("review"),
        show_topic: text("the topic"),
        show_play_name: text("the play"),
        artifacts_path: text("/srv/artifacts"),
        source_kind: Some(SourceKind::ImportedCodex),
        started_at: Some(started),
        ended_at: Some(ended),
        node_metadata: text("{\"team\":\"blue\"}"),
    };
    let set = store.sessions().set(&session, &change, PROCESS).expect("set");
    // The answer is the session as it was then; the line about the change is appended after it.
    let mut there = store.sessions().get(&session).expect("there");
    there.updated_at = set.updated_at;
    assert_eq!(there, set);
    assert_eq!(
        (set.agent_name, set.playbook_name, set.show_topic, set.show_play_name, set.artifacts_path),
        (text("coder"), text("review"), text("the topic"), text("the play"), text("/srv/artifacts"))
    );
    assert_eq!(
        (set.invocation_kind, set.source_kind, set.started_at, set.ended_at),
        (Some(InvocationKind::ShowPlay), SourceKind::ImportedCodex, Some(started), Some(ended))
    );
    assert_eq!(set.node_metadata, text("{\"team\":\"blue\"}"));
    let told = lines(&store, &session);
    assert!(told.len() == 1 && told[0].contains("\"duolog.described\"") && told[0].contains("review"), "{told:?}");
    store.sessions().set(&session, &change, PROCESS).expect("the same");
    assert_eq!(lines(&store, &session).len(), 1, "nothing changed, so there is no line");
    let cleared = SessionChange { playbook_name: text(""), ..SessionChange::default() };
    let cleared = store.sessions().set(&session, &cleared, PROCESS).expect("cleared");
    assert_eq!((cleared.playbook_name, cleared.agent_name), (None, text("coder")));
    let before = store.sessions().get(&session).expect("there");
    let wrong = [
        SessionChange { ended_at: Some(Timestamp::from_micros(1)), ..SessionChange::default() },
        SessionChange { agent_name: Some("x".repeat(1025)), ..SessionChange::default() },
        SessionChange { agent_name: text("other"), node_metadata: text("{"), ..SessionChange::default() },
    ];
    for change in wrong {
        assert_eq!(store.sessions().set(&session, &change, PROCESS).expect_err("refused").kind(), ErrorKind::Invalid);
        assert_eq!(store.sessions().get(&session).expect("there"), before);
    }
    store.sessions().status(&session).set(SessionStatus::Running, &StatusUpdate::default(), PROCESS).expect("runs");
    let end = SessionChange { ended_at: Some(ended), ..SessionChange::default() };
    assert_eq!(store.sessions().set(&session, &end, PROCESS).expect_err("it runs").kind(), ErrorKind::Invalid);
}

fn branches_are_created_and_described(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("demo").expect("made").id;
    let branches = store.sessions().branches(&session);
    assert_eq!(branches.list(None, 9).expect("lists"), [], "a session may have none");
    let change = |name: &str| BranchChange { name: text(name), ..BranchChange::default() };
    let none = branches.set(&BranchRef::Default, &change("x"), PROCESS).expect_err("none");
    assert!(matches!(none, Error::NotFound(NotFound::Branch { .. })), "{none}");
    let new = NewBranch { name: text("first"), user_id: text("ada"), node_metadata: text("{\"a\":1}") };
    let first = branches.create(new, PROCESS).expect("made");
    assert!(first.is_default && first.items == 0);
    assert_eq!((first.name.as_deref(), first.user_id.as_deref()), (Some("first"), Some("ada")));
    let second = branches.create(NewBranch::default(), PROCESS).expect("made");
    assert!(!second.is_default);
    let add = |branch: &BranchRef, item: &str| {
        store.sessions().items(&session).on(branch.clone()).add(&[item], &AddOptions::default()).expect("added").branch
    };
    assert_eq!(add(&BranchRef::Default, "1"), first.id);
    assert_eq!(add(&BranchRef::from(&second.id), "2"), second.id);
    let renamed = branches.set(&BranchRef::from(&second.id), &change("renamed"), PROCESS).expect("renamed");
    assert_eq!((renamed.name.as_deref(), renamed.items), (Some("renamed"), 1));
    let metadata = BranchChange { node_metadata: text("{\"b\":2}"), ..BranchChange::default() };
    let described = branches.set(&BranchRef::named(Some("first")), &metadata, PROCESS).expect("set");
    assert_eq!((described.name.as_deref(), described.node_metadata.as_deref()), (Some("first"), Some("{\"b\":2}")));
    let bad = BranchChange { name: text("other"), node_metadata: text("{"), ..BranchChange::default() };
    assert_eq!(branches.set(&BranchRef::Default, &bad, PROCESS).expect_err("no JSON").kind(), ErrorKind::Invalid);
    let found = branches.list(None, 9).expect("lists");
    assert_eq!(found.iter().map(|branch| branch.name.as_deref()).collect::<Vec<_>>(), [Some("first"), Some("renamed")]);
    let told = lines(&store, &session);
    assert_eq!(told.iter().filter(|line| line.contains("branch_created")).count(), 2, "{told:?}");
    assert_eq!(told.iter().filter(|line| line.contains("branch_changed")).count(), 2, "{told:?}");
}

fn the_pool_has_every_message_in_order(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("demo").expect("made").id;
    let items = |branch: &BranchRef| store.sessions().items(&session).on(branch.clone());
    let none = AddOptions::default();
    items(&BranchRef::Default).add(&["1", "2"], &none).expect("added");
    let fork = store.sessions().branches(&session).fork(NewFork { at: Some(1), ..NewFork::default() }, PROCESS);
    let fork = BranchRef::from(&fork.expect("forked").id);
    items(&fork).add(&["3"], &none).expect("added");
    items(&BranchRef::Default).add(&["4", "5"], &none).expect("added");
    let pool = |limit| {
        let list = items(&BranchRef::Default).pool(limit).expect("reads");
        let seen = list.items.into_iter().map(|item| (item.ord.expect("a place"), item.message.content));
        (seen.collect::<Vec<_>>(), list.end)
    };
    let all: Vec<(u64, String)> = (0..5).map(|ord| (ord, (ord + 1).to_string())).collect();
    assert_eq!(pool(9), (all.clone(), 5));
    assert_eq!(pool(3), (all[2..].to_vec(), 5));
    let list = items(&fork).described(9, HistoryView::Full).expect("reads");
    assert_eq!(list.items.iter().map(|item| item.message.content.as_str()).collect::<Vec<_>>(), ["1", "3"]);
    let session = store.sessions().get(&session).expect("there");
    let ids: Vec<_> =
        items(&BranchRef::Default).pool(9).expect("reads").items.into_iter().map(|i| i.message.id).collect();
    assert_eq!(
        (session.first_msg_id, session.last_msg_id),
        (ids.first().map(ToString::to_string), ids.last().map(ToString::to_string))
    );
}

fn all_sessions_of_a_user_are_deleted(place: &Place) {
    let (apart, other) = (Apart::of(place), Apart::of(place));
    let (store, elsewhere) = (apart.open(), other.open());
    let new = |user: &str| NewSession { user_id: text(user), ..NewSession::default() };
    for user in ["ada", "bob", "ada"] {
        let session = store.sessions().create(&new(user)).expect("made");
        store.log(&session.id).append(&line("{}"), PROCESS).expect("appended");
    }
    elsewhere.sessions().create(&new("ada")).expect("made");
    assert_eq!(
        (store.sessions().count(Some("ada")).expect("counts"), store.sessions().count(None).expect("counts")),
        (2, 3)
    );
    let mut gone = Vec::new();
    store.sessions().delete_all(Some("ada"), |one| gone.push(one.bytes)).expect("deleted");
    assert_eq!(gone, [3, 3]);
    assert_eq!(listed(&store, &SessionFilter { user_id: text("bob"), ..SessionFilter::default() }).len(), 1);
    store.sessions().delete_all(None, |one| gone.push(one.bytes)).expect("deleted");
    assert_eq!((gone.len(), store.sessions().count(None).expect("counts")), (3, 0));
    assert_eq!(elsewhere.sessions().count(None).expect("counts"), 1, "sessions of another home do not count");
}
