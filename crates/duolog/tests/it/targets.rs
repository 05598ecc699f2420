use duolog::errors::Conflict;
use duolog::log::AppendOptions;
use duolog::sessions::{
    About, AddOptions, BranchRef, HistoryView, NewSession, SessionFilter, SessionRef, StatusUpdate, WriteTarget,
};
use duolog::{Durability, Error, ErrorKind, MessageId, OperationId, Page, Position, SessionStatus, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, line, lines};

on_both_engines!(
    a_refused_write_leaves_no_session,
    an_operation_creates_one_session,
    items_are_added_under_given_ids,
    a_process_runs_a_session_from_its_creation,
    four_threads_create_one_session
);

fn named(name: &str) -> WriteTarget {
    WriteTarget::Named(SessionRef::Text(name.to_owned()))
}

fn of_user(user: &str) -> WriteTarget {
    WriteTarget::NewOf(user.to_owned())
}

fn sessions(store: &Store) -> usize {
    store.sessions().list(&SessionFilter::default(), &Page::new(100, None)).expect("lists").sessions.len()
}

fn operation_id(text: &str) -> OperationId {
    OperationId::parse(text).expect("an operation id")
}

fn a_refused_write_leaves_no_session(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let taken = About { id: Some(MessageId::parse("m").expect("an id")), ..About::default() };
    let with_id = AddOptions { about: vec![taken], ..AddOptions::default() };
    store.sessions().add_items(&named("first"), &BranchRef::Default, &["1"], &with_id).expect("added");
    let before = sessions(&store);
    let nowhere = BranchRef::named(Some("nowhere"));
    let about = |about: About| AddOptions { about: vec![about], ..AddOptions::default() };
    let text = |length: usize| Some("x".repeat(length));
    let refused: [(&BranchRef, &[&str], AddOptions); 10] = [
        (&BranchRef::Default, &["NaN"], AddOptions::default()),
        (&BranchRef::Default, &["1", "{"], AddOptions::default()),
        (&BranchRef::Default, &["1"], AddOptions { system: Some("{".to_owned()), ..AddOptions::default() }),
        (&BranchRef::Default, &["1"], AddOptions { embeddings: vec![vec![]], ..AddOptions::default() }),
        (&BranchRef::Default, &["1"], AddOptions { embeddings: vec![vec![f32::NAN]], ..AddOptions::default() }),
        (&BranchRef::Default, &["1"], AddOptions { embeddings: vec![vec![1.0]; 2], ..AddOptions::default() }),
        (&BranchRef::Default, &["1"], about(About { role: Some(" ".to_owned()), ..About::default() })),
        (&BranchRef::Default, &["1"], about(About { lion_class: text(1025), ..About::default() })),
        // These are refused in the transaction, after the session was created.
        (&nowhere, &["1"], AddOptions::default()),
        (&BranchRef::Default, &["2"], with_id),
    ];
    for (number, (branch, items, options)) in refused.into_iter().enumerate() {
        for target in [named("new"), of_user("ada")] {
            let operation = AddOptions { operation: Some(operation_id("op")), ..options.clone() };
            for options in [&options, &operation] {
                let error = store.sessions().add_items(&target, branch, items, options).expect_err("refused");
                assert!(
                    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Conflict),
                    "{number}: {error}"
                );
                assert_eq!(sessions(&store), before, "{number}: {error}");
            }
        }
    }
    let at = |position| AppendOptions { if_position: Some(Position(position)), ..AppendOptions::default() };
    for target in [named("new"), of_user("ada")] {
        for options in [at(10), at(10).once(OperationId::parse("op").expect("an id"))] {
            let error = store.sessions().append(&target, &line("{}"), &options).expect_err("it would end at 0");
            assert_eq!((error.kind(), sessions(&store)), (ErrorKind::Stale, before));
        }
    }
    let (session, committed) = store.sessions().append(&named("new"), &line("{}"), &at(0)).expect("appended");
    assert_eq!((session.name.as_deref(), committed.end, sessions(&store)), (Some("new"), Position(3), before + 1));
    assert_eq!(
        store.sessions().append(&named("new"), &line("{}"), &at(0)).expect_err("moved").kind(),
        ErrorKind::Stale
    );
}

fn an_operation_creates_one_session(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let options = AddOptions { operation: Some(operation_id("op")), ..AddOptions::default() };
    let add =
        |store: &Store, item: &str| store.sessions().add_items(&of_user("ada"), &BranchRef::Default, &[item], &options);
    let first = add(&store, "1").expect("added");
    assert_eq!((add(&store, "1").expect("the same"), sessions(&store)), (first.clone(), 1));
    assert!(add(&store, "2").is_err_and(|error| error.kind() == ErrorKind::Conflict), "an id is for one request");
    let append = |store: &Store, text: &str| {
        let options = AppendOptions::default().once(OperationId::parse("op").expect("an id"));
        store.sessions().append(&of_user("bob"), &line(text), &options).map(|(session, at)| (session.id, at))
    };
    let appended = append(&store, "{}").expect("appended");
    store.close().expect("closes");
    let store = apart.open();
    assert_eq!(add(&store, "1").expect("the same across openings"), first);
    assert_eq!((append(&store, "{}").expect("the same"), sessions(&store)), (appended.clone(), 2));
    assert!(append(&store, "{\"a\":1}").is_err_and(|e| e.kind() == ErrorKind::Conflict));
    assert_eq!((lines(&store, &appended.0).len(), sessions(&store)), (1, 2));
    let items = store.sessions().items(&first.session).latest(9, HistoryView::Full).expect("reads").items;
    assert_eq!(items.len(), 1);
    // With a name, the request is the same whether it created the session or not, and after a rename.
    let named_once = AddOptions { operation: Some(operation_id("named")), ..AddOptions::default() };
    let add = || store.sessions().add_items(&named("demo"), &BranchRef::Default, &["1"], &named_once);
    let first = add().expect("added");
    store.sessions().rename(&first.session, "renamed").expect("renamed");
    assert_eq!((add().expect("the same"), sessions(&store)), (first, 3));
}

fn items_are_added_under_given_ids(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let about = |id: &str| About {
        id: Some(MessageId::parse(id).expect("an id")),
        role: Some("tool".to_owned()),
        sender: Some("ada".to_owned()),
        lion_class: Some("some.Class".to_owned()),
        node_metadata: Some("{\"a\":1}".to_owned()),
    };
    let options = |ids: &[&str]| AddOptions {
        about: ids.iter().map(|id| about(id)).collect(),
        embeddings: vec![vec![1.0]; ids.len()],
        ..AddOptions::default()
    };
    let add = |items: &[&str], ids: &[&str]| {
        store.sessions().add_items(&named("demo"), &BranchRef::Default, items, &options(ids))
    };
    let first = add(&["1", "2"], &["a", "b"]).expect("added");
    assert_eq!((first.from_ord, first.end), (0, 2));
    let again = add(&["1", "3"], &["a", "c"]).expect("one of them exists");
    assert_eq!((again.from_ord, again.end), (2, 3));
    let taken = add(&["4", "9"], &["d", "a"]).expect_err("another item");
    assert!(matches!(&taken, Error::Conflict(Conflict::MessageTaken(id)) if id.as_str() == "a"), "{taken}");
    let found = store.sessions().items(&first.session).latest(9, HistoryView::Full).expect("reads");
    let ids: Vec<_> = found.items.iter().map(|item| (item.id.as_str(), item.content.as_str())).collect();
    assert_eq!(ids, [("a", "1"), ("b", "2"), ("c", "3")], "all of them, or none");
    let message = store.sessions().messages().get(&found.items[0].id).expect("there");
    let about = about("a");
    assert_eq!(
        (Some(message.role), message.sender, message.lion_class, message.node_metadata, message.embedding),
        (about.role, about.sender, about.lion_class, about.node_metadata, Some(vec![1.0]))
    );
    let session = store.sessions().get(&first.session).expect("there");
    assert_eq!((session.first_msg_id.as_deref(), session.last_msg_id.as_deref()), (Some("a"), Some("c")));
}

fn a_process_runs_a_session_from_its_creation(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let (pid, status) = (Some(std::process::id()), Some(SessionStatus::Running));
    let new = NewSession { pid, status, name: Some("demo".to_owned()), ..NewSession::default() };
    let session = store.sessions().create(&new).expect("made");
    let owner = store.sessions().status(&session.id).owner().expect("told").expect("somebody");
    assert_eq!(owner.pid, std::process::id());
    assert!(matches!(store.sessions().create(&new), Err(Error::Conflict(Conflict::NameTaken(_)))));
    let with_id = NewSession { id: Some(session.id.clone()), ..NewSession::default() };
    assert!(
        matches!(store.sessions().create(&with_id), Err(Error::Conflict(Conflict::SessionTaken(_)))),
        "the id is taken, not the name"
    );
    // A session that has ended is reopened together with its process, or not at all.
    let status = store.sessions().status(&session.id);
    status
        .set(SessionStatus::Failed, &StatusUpdate { pid, ..StatusUpdate::default() }, Durability::Process)
        .expect("ended");
    assert_eq!(status.owner().expect("told"), None, "a session that has ended has no owner");
    let (reason, actor) = (Some("again".to_owned()), Some("ada".to_owned()));
    status
        .reopen(&StatusUpdate { reason, actor, pid, ..StatusUpdate::default() }, Durability::Process)
        .expect("reopened");
    assert_eq!(status.owner().expect("told").map(|owner| owner.pid), pid);
}

fn four_threads_create_one_session(place: &Place) {
    let apart = Apart::of(place);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = apart.open();
                for _ in 0..5 {
                    let add =
                        store.sessions().add_items(&named("demo"), &BranchRef::Default, &["1"], &AddOptions::default());
                    add.expect("added");
                }
            });
        }
    });
    let store = apart.open();
    let demo = store.sessions().open_thread("demo").expect("there");
    assert_eq!(sessions(&store), 1);
    assert_eq!(store.sessions().items(&demo.id).latest(99, HistoryView::Full).expect("reads").items.len(), 20);
}
