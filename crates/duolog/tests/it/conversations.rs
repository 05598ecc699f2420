use std::process::{Command, Stdio};

use duolog::doctor::{Depth, Status};
use duolog::errors::{Damaged, Invalid, NotFound};
use duolog::sessions::{
    AddOptions, BranchRef, HistoryView, Metric, NewFork, NewMessage, NewSession, RawItems, SimilarFilter,
};
use duolog::{
    BranchId, Durability, Error, ErrorKind, Home, MessageId, OperationId, Seen, SessionId, SessionStatus, Store,
    StoreAddress, StoreOptions,
};
use duolog_state::owned::branches::{self as table, BranchRow};
use duolog_state::owned::progressions;
use duolog_state::params;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, lines};

on_both_engines!(
    items_come_back_byte_for_byte,
    an_operation_adds_once,
    the_system_item_is_first_and_unique,
    a_large_item_is_kept_as_a_blob,
    a_broken_item_neither_hides_others_nor_counts,
    invalid_requests_are_refused,
    a_message_keeps_its_embedding_and_ordinal,
    a_fork_is_logged_and_stays_in_its_session,
    the_threshold_counts_items_that_can_be_summarised,
    the_nearest_embeddings_are_found,
    eight_processes_add_to_one_branch,
    many_branches_come_in_pages,
    a_lost_item_is_not_removed,
    items_are_added_with_embeddings,
    deleting_conversations_keeps_the_session,
    deleting_a_log_keeps_the_session,
    a_users_session_has_a_name,
    the_first_status_of_a_session_is_recorded,
    a_fork_adds_as_many_bytes_however_long_the_history_is,
    items_are_found_wherever_their_messages_are,
    raw_items_equal_the_shown_items
);

const PROCESS: AddOptions = AddOptions {
    operation: None,
    durability: Durability::Process,
    system: None,
    embeddings: Vec::new(),
    about: Vec::new(),
};

fn session(store: &Store) -> SessionId {
    store.sessions().create(&NewSession::default()).expect("made").id
}

fn latest(store: &Store, session: &SessionId, limit: usize) -> Vec<String> {
    let list = store.sessions().items(session).latest(limit, HistoryView::Context).expect("reads");
    list.items.into_iter().map(|item| item.content).collect()
}

fn items_come_back_byte_for_byte(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    assert_eq!(latest(&store, &session, 9), [""; 0]);
    let given = [
        " { \"role\" : \"user\" } ",
        "\"{\\\"looks\\\":\\\"like JSON\\\"}\"",
        "null",
        "[1.0, 1e400, 12345678901234567890123]",
        "{\"a\":1,\"a\":2,\"lone\":\"\\ud83d\",\"nul\":\"\\u0000\"}",
    ];
    let items = store.sessions().items(&session);
    assert_eq!(items.add(&given, &PROCESS).expect("added").end, 5);
    assert_eq!(latest(&store, &session, 9), given);
    assert_eq!(latest(&store, &session, 2), given[3..]);
    assert_eq!(latest(&store, &session, 0), [""; 0]);
    assert_eq!(items.add(&[], &PROCESS).expect("nothing").end, 5);
    assert!(lines(&store, &session).is_empty(), "items are only in the state");
}

fn an_operation_adds_once(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let once = AddOptions { operation: Some(OperationId::parse("op").expect("an id")), ..PROCESS };
    let add = |store: &Store, item: &str| store.sessions().items(&session).add(&[item], &once);
    let added = add(&store, "1").expect("added");
    assert_eq!(add(&store, "1").expect("the same"), added);
    store.close().expect("closes");
    let store = apart.open();
    assert_eq!(add(&store, "1").expect("the same across openings"), added);
    assert_eq!(add(&store, "2").expect_err("other content").kind(), ErrorKind::Conflict);
    assert_eq!(latest(&store, &session, 9), ["1"]);
}

fn the_system_item_is_first_and_unique(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let with = |text: &str| AddOptions { system: Some(text.to_owned()), ..PROCESS };
    let items = store.sessions().items(&session);
    items.add(&["1"], &with("\"system\"")).expect("added");
    items.add(&["2"], &with("\"another\"")).expect("resumed");
    assert_eq!(latest(&store, &session, 9), ["\"system\"", "1", "2"]);
    assert_eq!(latest(&store, &session, 1), ["\"system\"", "2"]);
    let system = items.latest(9, HistoryView::Full).expect("reads").items[0].id.clone();
    assert_eq!(items.append(std::slice::from_ref(&system), Durability::Process).expect("appended"), [2]);
    assert_eq!(latest(&store, &session, 9), ["\"system\"", "1", "2"], "although it is in the history too");
    let fork =
        store.sessions().branches(&session).fork(NewFork { at: Some(1), ..NewFork::default() }, Durability::Process);
    let fork = BranchRef::from(&fork.expect("forked").id);
    let list = store.sessions().items(&session).on(fork).latest(9, HistoryView::Full).expect("reads");
    assert_eq!(list.items.iter().map(|item| item.content.as_str()).collect::<Vec<_>>(), ["\"system\"", "1"]);
    items.clear(Durability::Process).expect("cleared");
    assert_eq!(latest(&store, &session, 9), ["\"system\""]);
}

fn a_large_item_is_kept_as_a_blob(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let large = format!("{{\"text\":\"{}\"}}", "é".repeat(25 << 20));
    let items = store.sessions().items(&session);
    items.add(&["1", &large, "2"], &PROCESS).expect("added");
    let list = items.latest(9, HistoryView::Full).expect("reads");
    assert!(list.items.len() == 3 && list.items[1].content == large, "it is returned unchanged");
    items.pop(Durability::Process).expect("popped");
    assert!(items.pop(Durability::Process).expect("popped").is_some_and(|item| item.content == large));
    // Another home on the same state does not have the blob, and reports that.
    items.add(&[&large], &PROCESS).expect("added");
    let elsewhere = Apart::of(place);
    let other = elsewhere.open();
    let list = other.sessions().items(&session).latest(9, HistoryView::Full).expect("reads");
    assert_eq!((list.items.len(), list.broken.len()), (1, 1));
    assert!(list.broken[0].detail.contains(&store.home_id().to_string()), "{:?}", list.broken);
}

fn a_broken_item_neither_hides_others_nor_counts(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let items = store.sessions().items(&session);
    let numbers: Vec<String> = (0..600).map(|number| number.to_string()).collect();
    items.add(&numbers.iter().map(String::as_str).collect::<Vec<_>>(), &PROCESS).expect("added");
    // Changed by hand: not JSON, from 300 to 598.
    let state = place.open();
    let broken = "UPDATE messages SET content = 'x' WHERE CAST(content AS INTEGER) BETWEEN 300 AND 598";
    state.write(Durability::Process, move |tx| tx.execute(broken, params![])).expect("broken");
    let list = items.latest(3, HistoryView::Context).expect("reads");
    let texts: Vec<&str> = list.items.iter().map(|item| item.content.as_str()).collect();
    assert_eq!((texts, list.broken.len()), (vec!["298", "299", "599"], 299));
    assert!(list.broken[0].ord == Some(300) && list.broken[0].detail.contains("not JSON"), "{:?}", list.broken[0]);
}

fn invalid_requests_are_refused(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let items = store.sessions().items(&session);
    assert_eq!(items.pop(Durability::Process).expect("none"), None);
    for bad in ["", "NaN", "[Infinity]", "{", "1 2", &"[".repeat(200)] {
        let refused = items.add(&["1", bad], &PROCESS).expect_err(bad);
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("item 2"), "{refused}");
    }
    assert_eq!(latest(&store, &session, 9), [""; 0], "nothing of a refused batch is stored");
    items.add(&["1", "2"], &PROCESS).expect("added");
    let fork = |at| {
        store.sessions().branches(&session).fork(NewFork { at: Some(at), ..NewFork::default() }, Durability::Process)
    };
    let refused = fork(3).expect_err("past the end");
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("2 items"), "{refused}");
    let compaction = store.sessions().compaction(&session, BranchRef::Default);
    assert!(matches!(
        compaction.compact(Some(1..1), "1", Durability::Process),
        Err(Error::Invalid(Invalid::EmptyRange { .. }))
    ));
    assert!(matches!(
        compaction.compact(Some(1..3), "1", Durability::Process),
        Err(Error::Invalid(Invalid::PastEnd { .. }))
    ));
    let put = |new: NewMessage| store.sessions().messages().put(&new, Durability::Process).expect_err("refused");
    let plain = NewMessage { role: "user".to_owned(), content: "1".to_owned(), ..NewMessage::default() };
    for role in ["", " \t"] {
        assert!(put(NewMessage { role: role.to_owned(), ..plain.clone() }).to_string().contains("role"));
    }
    let large = put(NewMessage { node_metadata: Some("x".repeat(65 << 10)), ..plain.clone() }).to_string();
    assert!(large.contains("node_metadata") && large.contains("65536") && large.contains("belongs in"), "{large}");
    for embedding in [vec![], vec![1.0, f32::NAN], vec![f32::INFINITY], vec![0.0; (16 << 10) + 1]] {
        let refused = put(NewMessage { embedding: Some(embedding), ..plain.clone() });
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("embedding"), "{refused}");
    }
    let gone = SessionId::new();
    assert_eq!(store.sessions().items(&gone).add(&["1"], &PROCESS).expect_err("none").kind(), ErrorKind::NotFound);
    let nowhere = store.sessions().items(&session).on(BranchRef::Text("nowhere".to_owned()));
    assert_eq!(nowhere.add(&["1"], &PROCESS).expect_err("none").kind(), ErrorKind::NotFound);
    let nothing = items.append(&[MessageId::new()], Durability::Process).expect_err("none");
    assert!(matches!(nothing, Error::NotFound(NotFound::Message(_))), "{nothing}");
}

fn a_message_keeps_its_embedding_and_ordinal(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let id = MessageId::parse("m-1").expect("an id");
    let new = NewMessage {
        id: Some(id.clone()),
        role: "assistant".to_owned(),
        content: "\"1\"".to_owned(),
        lion_class: Some("mine.Note".to_owned()),
        embedding: Some(vec![1.5, -0.0, f32::MIN_POSITIVE]),
        sender: Some("a".to_owned()),
        ..NewMessage::default()
    };
    let messages = store.sessions().messages();
    messages.put(&new, Durability::Process).expect("put");
    let first = messages.get(&id).expect("there");
    assert_eq!((first.embedding.as_ref(), first.lion_class.as_deref()), (new.embedding.as_ref(), Some("mine.Note")));
    let other = NewMessage { content: "2".to_owned(), lion_class: None, ..new };
    let taken = messages.put(&other, Durability::Process).expect_err("another message");
    assert_eq!(taken.kind(), ErrorKind::Conflict, "{taken}");
    let second = messages.get(&id).expect("there");
    assert_eq!((second.created_at, second.content.as_str()), (first.created_at, "\"1\""));
    assert_eq!((second.embedding, second.lion_class), (first.embedding, first.lion_class));
    let items = store.sessions().items(&session);
    items.add(&["1"], &PROCESS).expect("added");
    let append = || items.append(std::slice::from_ref(&id), Durability::Process).expect("appended");
    assert_eq!((append(), append()), (vec![1], vec![1]), "it is in the history once");
    assert_eq!(latest(&store, &session, 9), ["1", "\"1\""]);
}

fn a_fork_is_logged_and_stays_in_its_session(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let (here, there) = (session(&store), session(&store));
    store.sessions().items(&here).add(&["1", "2"], &PROCESS).expect("added");
    let branches = store.sessions().branches(&here);
    let new = NewFork { at: Some(1), name: Some("side".to_owned()), ..NewFork::default() };
    let fork = branches.fork(new.clone(), Durability::Process).expect("forked");
    let told = lines(&store, &here);
    assert!(told.len() == 1 && told[0].contains("\"duolog.forked\"") && told[0].contains(fork.id.as_str()), "{told:?}");
    let side = BranchRef::Text("side".to_owned());
    assert_eq!(branches.get(&side).expect("found").map(|branch| branch.id), Some(fork.id.clone()));
    let elsewhere = NewFork { from: (&fork.id).into(), ..NewFork::default() };
    let refused =
        store.sessions().branches(&there).fork(elsewhere, Durability::Process).expect_err("another session's");
    assert!(matches!(refused, Error::Invalid(Invalid::OtherSession { .. })), "{refused}");
}

fn the_threshold_counts_items_that_can_be_summarised(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let items = store.sessions().items(&session);
    let user = ["{\"role\":\"user\"}", "{\"type\":\"message\",\"role\":\"user\"}", "{\"type\":\"compaction\"}"];
    items.add(&user, &PROCESS).expect("added");
    let compaction = store.sessions().compaction(&session, BranchRef::Default);
    assert_eq!(compaction.info(None).expect("told").uncompacted, 0);
    let others = ["{\"type\":\"function_call\",\"role\":\"user\"}", "{\"role\":\"assistant\"}"].repeat(20);
    items.add(&others, &PROCESS).expect("added");
    let info = compaction.info(None).expect("told");
    assert_eq!((info.items, info.uncompacted, info.threshold, info.is_due()), (43, 40, 40, false));
    items.add(&["{}"], &PROCESS).expect("added");
    assert!(compaction.info(None).expect("told").is_due());
    compaction.compact(Some(3..40), "\"summary\"", Durability::Process).expect("made");
    let info = compaction.info(None).expect("told");
    assert_eq!((info.uncompacted, info.summaries.len()), (4, 1));
    let shown = items.latest(99, HistoryView::Context).expect("reads");
    assert_eq!((shown.items.len(), shown.items[3].stands_for.clone()), (8, Some(3..40)));
    assert_eq!(items.latest(99, HistoryView::Full).expect("reads").items.len(), 44);
}

fn the_nearest_embeddings_are_found(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let messages = store.sessions().messages();
    // More than are read at a time, on a spiral: the order by angle differs from the order by distance.
    let at = |number: u16| [f32::from(number).cos() * f32::from(number), f32::from(number).sin() * f32::from(number)];
    for number in 1..=300 {
        let new = NewMessage {
            id: Some(MessageId::parse(&format!("m-{number}")).expect("an id")),
            role: "user".to_owned(),
            content: "1".to_owned(),
            embedding: Some(at(number).to_vec()),
            ..NewMessage::default()
        };
        messages.put(&new, Durability::Process).expect("put");
    }
    let query = [3.0_f32, 4.0];
    let find = |metric| {
        let found = messages.similar(&query, 7, metric, &SimilarFilter::default()).expect("found");
        found.into_iter().map(|one| one.id.to_string()).collect::<Vec<_>>()
    };
    let nearest = |far: &dyn Fn([f32; 2]) -> f32| {
        let mut all: Vec<u16> = (1..=300).collect();
        all.sort_by(|a, b| far(at(*a)).total_cmp(&far(at(*b))));
        all.truncate(7);
        all.iter().map(|number| format!("m-{number}")).collect::<Vec<_>>()
    };
    assert_eq!(find(Metric::L2), nearest(&|[x, y]| (x - 3.0).hypot(y - 4.0)));
    assert_eq!(find(Metric::Cosine), nearest(&|[x, y]| -(x * 3.0 + y * 4.0) / x.hypot(y)));
    assert_eq!(messages.similar(&query, 0, Metric::L2, &SimilarFilter::default()).expect("none"), []);
    let refused = messages.similar(&[1.0; 3], 1, Metric::L2, &SimilarFilter::default()).expect_err("another length");
    assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("3 numbers"), "{refused}");
    assert!(messages.similar(&[f32::NAN, 1.0], 1, Metric::L2, &SimilarFilter::default()).is_err());
}

/// The environment of a child process.
const HOME: &str = "DUOLOG_TEST_HOME";

/// Adds batches of three in its own process.
#[test]
fn child_adds_batches() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let said = |name: &str| std::env::var(name).expect(name);
    let store: StoreAddress = said("DUOLOG_TEST_STORE").parse().expect("an address");
    let options = StoreOptions::at(Home::beneath(home.as_ref())).with_store(store).one_shot();
    let store = Store::open(options).expect("opens");
    let (session, child) = (SessionId::parse(&said("DUOLOG_TEST_SESSION")).expect("an id"), said("DUOLOG_TEST_CHILD"));
    for batch in 0..10 {
        let items: Vec<String> = (0..3).map(|part| format!("[{child},{batch},{part}]")).collect();
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        store.sessions().items(&session).add(&items, &PROCESS).expect("added");
    }
}

fn eight_processes_add_to_one_branch(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let address = match place.database() {
        Some(database) => database.url(),
        None => format!("sqlite:{}", place.home().display()),
    };
    let start = |child: u32| {
        Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "conversations::child_adds_batches", "--nocapture", "--test-threads=1"])
            .env(HOME, apart.directory.path())
            .env("DUOLOG_TEST_STORE", &address)
            .env("DUOLOG_TEST_SESSION", session.as_str())
            .env("DUOLOG_TEST_CHILD", child.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("starts")
    };
    let children: Vec<_> = (0..8).map(start).collect();
    for mut child in children {
        assert!(child.wait().expect("ends").success());
    }
    let list = store.sessions().items(&session).latest(999, HistoryView::Full).expect("reads");
    assert_eq!(list.items.len(), 240);
    for (at, three) in list.items.chunks(3).enumerate() {
        let ords: Vec<Option<u64>> = three.iter().map(|item| item.ord).collect();
        assert_eq!(ords, [0, 1, 2].map(|part| Some(at as u64 * 3 + part)), "ordinals have no gaps");
        let start = three[0].content.strip_suffix("0]").expect("the first of a batch");
        assert_eq!(three[1].content, format!("{start}1]"), "batches are complete");
        assert_eq!(three[2].content, format!("{start}2]"));
    }
    let mut texts: Vec<&str> = list.items.iter().map(|item| item.content.as_str()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 240, "nothing was added twice");
}

fn many_branches_come_in_pages(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    store.sessions().items(&session).add(&["1", "2"], &PROCESS).expect("added");
    let branches = store.sessions().branches(&session);
    let main = branches.get(&BranchRef::Default).expect("found").expect("there").id;
    for at in 0..100 {
        branches.fork(NewFork { at: Some(at % 3), ..NewFork::default() }, Durability::Process).expect("forked");
    }
    // The rest are inserted without a log line for each.
    place
        .open()
        .write(Durability::Process, move |tx| {
            let main = table::find(tx, &main)?.expect("there");
            let head = progressions::get(tx, &main.progression_id)?;
            for at in 0..9_899 {
                let at_ord = at % 3;
                let progression_id = progressions::fork(tx, &head, at_ord, main.created_at)?.id;
                let forked = Some(table::ForkPoint { parent: main.id.clone(), at_ord, at_seq: 0 });
                let row = BranchRow { id: BranchId::new(), progression_id, forked, is_default: false, ..main.clone() };
                table::insert(tx, &row)?;
            }
            Ok::<_, duolog_state::Error>(())
        })
        .expect("forked");
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = branches.list(after.as_ref(), 200).expect("lists");
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        seen.extend(page.iter().map(|branch| branch.items));
    }
    assert_eq!((seen.len(), seen.iter().filter(|items| **items == 0).count()), (10_000, 3_334));
    let rows = store.state().stats().expect("figures").state.rows;
    let items = rows.into_iter().find(|(name, _)| name == "progression_items").expect("a table").1;
    assert_eq!(items, 2, "the branch's: a fork copies nothing");
    store.sessions().items(&session).clear(Durability::Process).expect("cleared");
    let last = (&after.expect("a last one")).into();
    assert!(store.sessions().items(&session).on(last).latest(9, HistoryView::Full).expect("reads").end <= 2);
    store.sessions().delete(&session).expect("deleted");
}

fn a_lost_item_is_not_removed(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let items = store.sessions().items(&session);
    let large = format!("[\"{}\"]", "x".repeat(300 << 10));
    items.add(&["1", &large], &PROCESS).expect("added");
    let blobs = apart.home().state.join("blobs");
    std::fs::rename(&blobs, apart.home().state.join("aside")).expect("moved");
    let refused = items.pop(Durability::Process).expect_err("it is lost");
    assert!(matches!(refused, Error::Damaged(Damaged::Item { .. })), "{refused}");
    assert_eq!(items.latest(9, HistoryView::Full).expect("reads").end, 2, "it is not removed");
    std::fs::remove_dir_all(&blobs).ok();
    std::fs::rename(apart.home().state.join("aside"), &blobs).expect("moved");
    assert!(items.pop(Durability::Process).expect("popped").is_some_and(|item| item.content == large));
}

fn items_are_added_with_embeddings(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let items = store.sessions().items(&session);
    let once = Some(OperationId::parse("op").expect("an id"));
    let options = AddOptions { embeddings: vec![vec![1.0, 0.0], vec![0.0, 1.0]], operation: once, ..PROCESS };
    items.add(&["\"east\"", "\"north\""], &options).expect("added");
    items.add(&["\"east\"", "\"north\""], &options).expect("once");
    let messages = store.sessions().messages();
    let near = messages.similar(&[0.1, 0.9], 1, Metric::Cosine, &SimilarFilter::default()).expect("looks");
    assert_eq!(messages.get(&near[0].id).expect("there").content, "\"north\"");
    for embeddings in [vec![vec![1.0]], vec![vec![1.0], vec![f32::NAN]]] {
        let refused = items.add(&["1", "2"], &AddOptions { embeddings, ..PROCESS }).expect_err("refused");
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("embedding"), "{refused}");
    }
    assert_eq!(latest(&store, &session, 9).len(), 2);
}

fn deleting_conversations_keeps_the_session(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let items = store.sessions().items(&session);
    items.add(&["1", "2"], &PROCESS).expect("added");
    let fork = store.sessions().branches(&session).fork(NewFork::default(), Durability::Process).expect("forked");
    items.clone().on(BranchRef::from(&fork.id)).add(&["3"], &PROCESS).expect("added");
    let held = store.sessions().conversations(&session).expect("counted");
    assert_eq!((held.branches, held.messages), (2, 3));
    assert_eq!(store.sessions().delete_context(&session, Some("ada")).expect("deleted").conversations, held);
    assert_eq!(store.sessions().conversations(&session).expect("counted").messages, 0);
    let told = lines(&store, &session);
    let last = told.last().expect("a line");
    assert!(last.contains("\"duolog.context_deleted\"") && last.contains("\"messages\":3"), "{last}");
    assert!(last.contains("\"actor\":\"ada\"") && told.len() == 2, "{told:?}");
    assert_eq!(latest(&store, &session, 9), [""; 0]);
    items.add(&["4"], &PROCESS).expect("a new conversation");
    assert_eq!(latest(&store, &session, 9), ["4"]);
    let left: Vec<_> = store.state().stats().expect("figures").state.rows;
    assert!(left.contains(&("messages".to_owned(), 1)) && left.contains(&("branches".to_owned(), 1)), "{left:?}");
    assert_eq!(store.sessions().delete_context(&SessionId::new(), None).expect_err("none").kind(), ErrorKind::NotFound);
}

fn deleting_a_log_keeps_the_session(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    store.sessions().items(&session).add(&["1"], &PROCESS).expect("added");
    store.log(&session).append(&super::line("{\"n\":1}"), Durability::Process).expect("appended");
    let before = store.sessions().figures(&session).expect("told");
    assert_eq!((before.events, before.bytes), (Some(1), Some(8)));
    let path = apart.log(&store.sessions().get(&session).expect("there").log_path);
    let mut follower = store.log(&session).follow(None).expect("follows");
    assert_eq!(follower.poll(&mut |_| {}).expect("polls"), Seen::Delivered);
    let removed = store.sessions().delete_log(&session, Some("ada")).expect("deleted");
    assert_eq!((removed.bytes, removed.epoch.0), (8, 1));
    assert!(!path.exists() && lines(&store, &session).is_empty());
    let after = store.sessions().figures(&session).expect("told");
    assert_eq!((after.events, after.bytes), (Some(0), Some(0)));
    let verified = store.log(&session).verify(|_, _| {}).expect("verified");
    assert!(verified.damaged == 0 && verified.places.is_empty(), "nothing was lost: {verified:?}");
    // An appender in this process continues with the new log; a follower is notified.
    store.log(&session).append(&super::line("{\"n\":2}"), Durability::Process).expect("appended");
    assert_eq!(lines(&store, &session), ["{\"n\":2}"]);
    assert_eq!(store.sessions().get(&session).expect("there").log_epoch.0, 1);
    assert_eq!(latest(&store, &session, 9), ["1"], "the conversation is kept");
    let reset = (0..9).any(|_| matches!(follower.poll(&mut |_| {}).expect("polls"), Seen::Reset(_)));
    assert!(reset, "the delivered lines are gone");
    let found = store.doctor().examine(Depth::Deep, |_| {}).expect("examined");
    assert!(found.checks.iter().all(|check| check.status != Status::Damaged), "{found:?}");
    // Derived rows match the current log.
    let rows = |store: &Store| store.sessions().figures(&session).expect("told");
    let folded = rows(&store);
    store.state().rebuild(|_| {}).expect("rebuilt");
    assert_eq!(rows(&store), folded);
}

fn a_users_session_has_a_name(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let new = NewSession { user_id: Some("ada@example.com".to_owned()), ..NewSession::default() };
    let made = store.sessions().create(&new).expect("made");
    let name = made.name.clone().expect("a name");
    let (when, letters) = name.strip_prefix("session_").and_then(|rest| rest.rsplit_once('_')).expect("its parts");
    assert!(when.len() == 24 && when.ends_with('Z') && letters.len() == 6, "{name}");
    assert!(made.created_at.to_string().starts_with(&when[..23]), "{name}");
    let other = store.sessions().create(&new).expect("another");
    assert_ne!(other.name, made.name);
    let once = store.sessions().once(OperationId::parse("op").expect("an id"));
    let first = once.create(&new).expect("made");
    assert_eq!(once.create(&new).expect("the same").name, first.name);
}

fn the_first_status_of_a_session_is_recorded(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let make = |status| store.sessions().create(&NewSession { status, ..NewSession::default() }).expect("made");
    let failed = make(Some(SessionStatus::Failed));
    assert_eq!(failed.ended_at, Some(failed.created_at));
    let history = store.sessions().status(&failed.id).transitions(9).expect("reads");
    assert_eq!(
        history.iter().map(|one| (one.previous_status, one.status)).collect::<Vec<_>>(),
        [(None, SessionStatus::Failed)]
    );
    let running = make(Some(SessionStatus::Running));
    assert_eq!(
        (running.ended_at, store.sessions().status(&running.id).transitions(9).expect("reads").len()),
        (None, 1)
    );
    assert!(store.sessions().status(&make(None).id).transitions(9).expect("reads").is_empty());
}

/// The bytes that forks add to the database: bytes written and bytes kept.
fn a_fork_adds_as_many_bytes_however_long_the_history_is(place: &Place) {
    const LONG: u64 = 100_000;
    const FORKS: u64 = 100;
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let items = vec!["{\"role\":\"assistant\",\"content\":\"The plan is to read the file.\"}"; 1000];
    for _ in 0..LONG / 1000 {
        store.sessions().items(&session).add(&items, &PROCESS).expect("added");
    }
    let main = store.sessions().branches(&session).get(&BranchRef::Default).expect("found").expect("there").id;
    let state = place.open();
    let bytes = || {
        state.checkpoint().expect("moved");
        state.stats().expect("stats").engine_stats.bytes
    };
    let forks_at = |at_ord: u64| {
        let (before, main) = (bytes(), main.clone());
        let forked = state.write(Durability::Process, move |tx| {
            let main = table::find(tx, &main)?.expect("there");
            let head = progressions::get(tx, &main.progression_id)?;
            for _ in 0..FORKS {
                let progression_id = progressions::fork(tx, &head, at_ord, main.created_at)?.id;
                let forked = Some(table::ForkPoint { parent: main.id.clone(), at_ord, at_seq: 0 });
                let row = BranchRow { id: BranchId::new(), progression_id, forked, is_default: false, ..main.clone() };
                table::insert(tx, &row)?;
            }
            Ok::<_, duolog_state::Error>(())
        });
        forked.expect("forked");
        bytes() - before
    };
    let (early, late) = (forks_at(10), forks_at(LONG));
    // A database grows in pages, so a few pages more or less do not count. One copied history would be eight million
    // bytes.
    let page = 8192;
    assert!(early < FORKS * 4096 && late < FORKS * 4096, "{FORKS} forks add {early} bytes at 10, {late} at {LONG}");
    assert!(early.abs_diff(late) <= 16 * page, "{FORKS} forks add {early} bytes at 10, {late} at {LONG}");
    let fork = NewFork { at: Some(LONG), ..NewFork::default() };
    let fork = store.sessions().branches(&session).fork(fork, Durability::Process).expect("forked");
    assert_eq!(fork.items, LONG);
}

/// The messages of a history are found wherever they are in the table: adjacent, interleaved with others, in another
/// order, and among messages in blobs.
fn items_are_found_wherever_their_messages_are(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let (session, other) = (session(&store), session(&store));
    let (items, others) = (store.sessions().items(&session), store.sessions().items(&other));
    let large = serde_json::to_string(&"x".repeat(300 << 10)).expect("JSON");
    let mut given: Vec<String> = Vec::new();
    for number in 0..60 {
        let batch: Vec<String> = match number % 4 {
            0 => (0..5).map(|part| format!("{{\"n\":{number},\"part\":{part}}}")).collect(),
            1 => vec![large.clone()],
            _ => vec![format!("[{number}]")],
        };
        items.add(&batch.iter().map(String::as_str).collect::<Vec<_>>(), &AddOptions::default()).expect("added");
        given.extend(batch);
        if number % 3 == 0 {
            others.add(&["\"between\""], &AddOptions::default()).expect("added");
        }
    }
    // The messages of the other session in reverse: each is further before the expected next row.
    let theirs = others.latest(99, HistoryView::Full).expect("reads").items;
    let ids: Vec<MessageId> = theirs.iter().rev().map(|item| item.id.clone()).collect();
    items.append(&ids, Durability::Process).expect("appended");
    given.extend(theirs.iter().map(|item| item.content.clone()));
    // Interleaved until the fast path for adjacent rows is given up, and then adjacent again.
    let quick = AddOptions { durability: Durability::Process, ..AddOptions::default() };
    let turns: Vec<String> = (0..400).map(|number| format!("\"turn {number}\"")).collect();
    for turn in &turns {
        items.add(&[turn], &quick).expect("added");
        others.add(&["\"theirs\""], &quick).expect("added");
    }
    let rest: Vec<String> = (0..700).map(|number| format!("\"rest {number}\"")).collect();
    items.add(&rest.iter().map(String::as_str).collect::<Vec<_>>(), &quick).expect("added");
    given.extend(turns.into_iter().chain(rest));
    let read = items.latest_raw(9_999, HistoryView::Full).expect("reads");
    let read: Vec<&[u8]> = read.iter().map(|item| item.content).collect();
    assert_eq!(read, given.iter().map(String::as_bytes).collect::<Vec<_>>());
    for limit in [1, 7, 30, 800, 1200] {
        let read = items.latest(limit, HistoryView::Full).expect("reads").items;
        let read: Vec<&str> = read.iter().map(|item| item.content.as_str()).collect();
        assert_eq!(read, given[given.len() - limit..]);
    }
}

/// Raw items equal the other items, in one buffer.
fn raw_items_equal_the_shown_items(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = session(&store);
    let items = store.sessions().items(&session);
    assert!(items.latest_raw(9, HistoryView::Full).expect("reads").is_empty());
    let given: Vec<String> = (0..16_500).map(|number| format!("{{\"n\":{number}}}")).collect();
    let texts: Vec<&str> = given.iter().map(String::as_str).collect();
    let options = AddOptions { system: Some("\"system\"".to_owned()), ..AddOptions::default() };
    items.add(&texts, &options).expect("added");
    let large = serde_json::to_string(&"x".repeat(300 << 10)).expect("JSON");
    items.add(&[&large], &AddOptions::default()).expect("added");
    let compaction = store.sessions().compaction(&session, BranchRef::Default);
    compaction.compact(Some(0..2000), "\"summary\"", Durability::Process).expect("compacted");
    let mut raw = RawItems::default();
    for view in [HistoryView::Full, HistoryView::Context] {
        for limit in [0, 1, 50, 16_384, 16_385, 20_000] {
            let shown = items.latest(limit, view).expect("reads");
            items.latest_raw_into(limit, view, &mut raw).expect("reads");
            assert_eq!((raw.len(), raw.end, &raw.broken), (shown.items.len(), shown.end, &shown.broken));
            for (one, other) in shown.items.iter().zip(raw.iter()) {
                let (ord, stands_for) = (other.ord, other.stands_for);
                assert_eq!((one.id.as_str(), one.content.as_bytes()), (other.id, other.content));
                assert_eq!((one.ord, &one.stands_for), (ord, &stands_for));
            }
        }
    }
}
