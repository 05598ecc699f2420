use std::fs;
use std::io::{Cursor, Write as _};

use duolog::errors::Conflict;
use duolog::log::{Full, RecordOptions};
use duolog::sessions::{
    AddOptions, BranchRef, Exported, HistoryView, Metric, NewFork, NewMessage, NewSession, Outgoing, Recipient,
    SimilarFilter, StatusUpdate,
};
use duolog::{Durability, Error, ErrorKind, InvocationKind, MessageId, SessionId, SessionStatus, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use serde_json::{Value, json};

use super::{Apart, line};

on_both_engines!(
    any_session_comes_back_equal,
    everything_of_a_session_is_exported,
    an_invalid_document_changes_nothing,
    an_existing_session_is_not_replaced,
    a_message_of_two_sessions_stays_one,
    an_import_that_died_leaves_nothing
);

const DURABILITY: Durability = Durability::Process;
const ADD: AddOptions =
    AddOptions { operation: None, durability: DURABILITY, system: None, embeddings: Vec::new(), about: Vec::new() };

fn export(store: &Store, session: &SessionId) -> Vec<u8> {
    let mut document = Vec::new();
    store.sessions().export(session, &mut document).expect("exported");
    document
}

/// The tables that an import writes, with their row counts.
fn rows(store: &Store) -> Vec<(String, u64)> {
    let mut rows = store.state().stats().expect("figures").state.rows;
    rows.retain(|(table, _)| !["behind", "catalog", "digests"].contains(&table.as_str()));
    rows
}

/// The files of a home's logs and blobs.
fn files(apart: &Apart) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![apart.home().state.join("sessions"), apart.home().state.join("blobs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// Everything that a conversation shows, by branch.
fn shown(store: &Store, session: &SessionId) -> Vec<(String, Vec<String>, Vec<String>, u64)> {
    let branches = store.sessions().branches(session).list(None, 200).expect("lists");
    let all = branches.iter().map(|branch| {
        let items = store.sessions().items(session).on(BranchRef::from(&branch.id));
        let texts = |view| items.latest(999, view).expect("reads").items.into_iter().map(|item| item.content);
        let due = store.sessions().compaction(session, BranchRef::from(&branch.id)).info(None).expect("told");
        (
            branch.id.to_string(),
            texts(HistoryView::Full).collect(),
            texts(HistoryView::Context).collect(),
            due.uncompacted,
        )
    });
    all.collect()
}

/// Pseudo-random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("a small number") % n
    }
}

/// A random conversation.
fn any(store: &Store, random: &mut Random) -> SessionId {
    let session = store.sessions().create(&NewSession::default()).expect("made").id;
    let mut branches = vec![BranchRef::Default];
    let mut pick = |below: usize| random.below(below);
    for step in 0..40 {
        let branch = branches[pick(branches.len())].clone();
        let items = store.sessions().items(&session).on(branch.clone());
        let end = items.latest(0, HistoryView::Full).expect("reads").end;
        let at = pick(usize::try_from(end).expect("small") + 1) as u64;
        let compaction = store.sessions().compaction(&session, branch.clone());
        match pick(8) {
            0..=2 => {
                let new: Vec<String> =
                    (0..=pick(4)).map(|part| format!("{{\"step\":{step},\"part\":{part}}}")).collect();
                items.add(&new.iter().map(String::as_str).collect::<Vec<_>>(), &ADD).map(drop)
            }
            3 => items.pop(DURABILITY).map(drop),
            4 => {
                let new = NewFork { from: branch, at: Some(at), name: Some(format!("b{step}")), node_metadata: None };
                let forked = store.sessions().branches(&session).fork(new, DURABILITY).expect("forked");
                branches.push(BranchRef::from(&forked.id));
                Ok(())
            }
            // Some of these are invalid and change nothing.
            5 => compaction.compact(Some(0..at), "{\"type\":\"compaction\"}", DURABILITY).map(drop).or(Ok(())),
            6 => compaction.undo(DURABILITY).map(drop).or(Ok(())),
            _ => items.replace_suffix(&[], &["\"again\""], DURABILITY).map(drop),
        }
        .expect("done");
    }
    if pick(4) == 0 {
        store.sessions().items(&session).clear(DURABILITY).expect("cleared");
    }
    store.log(&session).append(&line("{\"n\":1}"), DURABILITY).expect("appended");
    session
}

fn any_session_comes_back_equal(place: &Place) {
    let (from, to) = (Apart::of(place), Apart::of(&Place::sqlite()));
    let (store, other) = (from.open(), to.open());
    let mut random = Random(7);
    for round in 0..6 {
        let session = any(&store, &mut random);
        let document = export(&store, &session);
        let imported = other.sessions().import(Cursor::new(document.clone())).expect("imported");
        assert_eq!(imported.session.id, session);
        assert!(export(&other, &session) == document, "round {round}");
        assert_eq!(shown(&other, &session), shown(&store, &session), "round {round}");
        // The next change has the same result in both stores.
        for store in [&store, &other] {
            let items = store.sessions().items(&session);
            items.add(&["1", "2"], &ADD).expect("added");
            items.pop(DURABILITY).expect("popped");
            items.clear(DURABILITY).expect("cleared");
        }
        let seen = |store| shown(store, &session);
        assert_eq!(seen(&other), seen(&store), "round {round}, afterwards");
    }
}

fn everything_of_a_session_is_exported(place: &Place) {
    let (from, to) = (Apart::of(place), Apart::of(&Place::sqlite()));
    let (store, other) = (from.open(), to.open());
    let new = NewSession {
        user_id: Some("ada@example.com".to_owned()),
        name: Some("../plan".to_owned()),
        agent_name: Some("coder".to_owned()),
        invocation_kind: Some(InvocationKind::Agent),
        status: Some(SessionStatus::Running),
        node_metadata: Some(" {\"spaced\" : 1} ".to_owned()),
        ..NewSession::default()
    };
    let session = store.sessions().create(&new).expect("made").id;
    let why = StatusUpdate {
        reason: Some("it broke".to_owned()),
        actor: Some("ada".to_owned()),
        evidence: Some("{\"exit\":1}".to_owned()),
        ..StatusUpdate::default()
    };
    store.sessions().status(&session).set(SessionStatus::Failed, &why, DURABILITY).expect("set");
    let large = format!("[\"{}\"]", "é".repeat(1 << 20));
    let odd = [" { } ", "null", "\"\\ud83d\\u0000\"", "[1e400,\n 2]", "{\"a\":1,\"a\":2}", large.as_str()];
    let options = AddOptions { system: Some("\"system\"".to_owned()), ..ADD };
    store.sessions().items(&session).add(&odd, &options).expect("added");
    // Numbers that round differently if they are parsed as a wider type first.
    let embedding = vec![0.1, -0.0, f32::MIN_POSITIVE, f32::from_bits(1), 16_777_217.0, f32::MAX];
    let message = NewMessage {
        id: Some(MessageId::parse("m-1").expect("an id")),
        role: "assistant".to_owned(),
        content: "\"sent\"".to_owned(),
        lion_class: Some("mine.Note".to_owned()),
        node_metadata: Some("{\"k\":[1]}".to_owned()),
        embedding: Some(embedding.clone()),
        sender: Some("a".to_owned()),
        recipient: Some("b".to_owned()),
        channel: Some("c".to_owned()),
    };
    let topic = Recipient::Topic("b".to_owned());
    let outgoing = Outgoing { message, to: topic, from: Some((session.clone(), BranchRef::Default)) };
    store.sessions().exchange().send(&outgoing, DURABILITY).expect("sent");
    // Lines of every kind, with unreadable bytes between them.
    let blob = "x".repeat(100 << 10);
    let event = json!({"type": "tool_execution_end", "toolName": "cat", "toolCallId": "1", "result": blob});
    let mut recording = store.log(&session).record(RecordOptions::default()).expect("records");
    recording.event(event.to_string().as_bytes()).expect("recorded");
    recording.finish().expect("finished");
    let path = from.log(&store.sessions().get(&session).expect("there").log_path);
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("opens");
    file.write_all(b"{\"crlf\":1}\r\nnot json \xff\n\n[1]\n\0\0\n{\"sep\":\"\xe2\x80\xa8\"}\n").expect("written");
    let document = export(&store, &session);
    let imported = other.sessions().import(Cursor::new(document.clone())).expect("imported");
    assert_eq!(imported.held, Exported { branches: 1, messages: 8, lines: imported.held.lines, recorded_loss: None });
    assert!(export(&other, &session) == document);
    let (was, is) = (store.sessions().get(&session).expect("there"), imported.session);
    assert_eq!(is.log_path, "sessions/ada_example_com/___plan.jsonl");
    assert!(fs::read(to.log(&is.log_path)).expect("a log") == fs::read(&path).expect("a log"), "byte for byte");
    assert_eq!((is.node_metadata, is.ended_at, is.updated_at), (was.node_metadata, was.ended_at, was.updated_at));
    let history = |store: &Store| store.sessions().status(&session).transitions(9).expect("reads");
    assert_eq!(history(&other), history(&store));
    let message = other.sessions().messages().get(&MessageId::parse("m-1").expect("an id")).expect("there");
    let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&message.embedding.expect("one")), bits(&embedding));
    assert_eq!((message.lion_class.as_deref(), message.channel.as_deref()), (Some("mine.Note"), Some("c")));
    let near =
        other.sessions().messages().similar(&embedding, 1, Metric::L2, &SimilarFilter::default()).expect("looks");
    assert_eq!(near[0].id.as_str(), "m-1");
    // The blob of a line is imported too.
    let named = String::from_utf8_lossy(&document).split("blob:").nth(1).expect("a blob")[..64].to_owned();
    let full = other.log(&session).full(&format!("blob:{named}")).expect("looked for");
    assert!(matches!(full, Full::Found(text) if text.contains(&blob)));
    let figures = |store: &Store| {
        let figures = store.sessions().figures(&session).expect("told");
        (figures.events, figures.bytes, figures.damaged, figures.behind.bytes_behind)
    };
    assert_eq!(figures(&other), figures(&store));
    assert!(figures(&other).0.is_some_and(|events| events > 0), "the log was folded");
}

/// Makes a document invalid.
type Spoil = fn(&mut Value);

/// The document of a small session with one part of each kind, to be made invalid.
fn small(store: &Store) -> Value {
    let session = store.sessions().create(&NewSession { name: Some("small".to_owned()), ..NewSession::default() });
    let session = session.expect("made").id;
    let items = store.sessions().items(&session);
    items.add(&["1", "2", "3"], &AddOptions { system: Some("0".to_owned()), ..ADD }).expect("added");
    let fork = NewFork { at: Some(2), ..NewFork::default() };
    let fork = store.sessions().branches(&session).fork(fork, DURABILITY).expect("forked");
    items.clone().on(BranchRef::from(&fork.id)).add(&["4"], &ADD).expect("added");
    let compaction = store.sessions().compaction(&session, BranchRef::Default);
    compaction.compact(Some(0..2), "\"s\"", DURABILITY).expect("compacted");
    compaction.undo(DURABILITY).expect("undone");
    store.sessions().status(&session).set(SessionStatus::Running, &StatusUpdate::default(), DURABILITY).expect("set");
    serde_json::from_slice(&export(store, &session)).expect("JSON")
}

fn an_invalid_document_changes_nothing(place: &Place) {
    let (from, to) = (Apart::of(&Place::sqlite()), Apart::of(place));
    let (store, other) = (from.open(), to.open());
    let good = small(&store);
    let spoilt: [(&str, Spoil); 30] = [
        ("version 2 is newer", |it| it["duolog_export"] = json!(2)),
        ("there is no version 0", |it| it["duolog_export"] = json!(0)),
        ("duolog_export", |it| it["duolog_export"] = json!("one")),
        ("session id", |it| it["session"]["id"] = json!("../../etc/passwd")),
        ("unknown field", |it| it["session"]["log_path"] = json!("../../etc/passwd")),
        ("session name", |it| it["session"]["name"] = json!("a\u{0}b")),
        ("not a session status", |it| it["session"]["status"] = json!("done")),
        ("instant", |it| it["session"]["created_at"] = json!("yesterday")),
        ("addressed by its name", |it| it["session"]["name"] = Value::Null),
        ("statuses, entry 1", |it| it["statuses"][0]["status"] = json!("done")),
        ("occurs twice", |it| it["progressions"][1] = it["progressions"][0].clone()),
        ("there is no progression", |it| it["progressions"][2]["parent_id"] = json!("none")),
        ("does not begin at 0", |it| it["progressions"][2]["base_ord"] = json!(0)),
        ("continues at 9", |it| {
            it["progressions"][2]["base_ord"] = json!(9);
            it["items"][3]["ord"] = json!(9);
        }),
        ("is not greater than", |it| it["messages"][1]["ord"] = json!(0)),
        ("role is empty", |it| it["messages"][1]["role"] = json!(" ")),
        ("it has no content", |it| drop(it["messages"][1].as_object_mut().and_then(|all| all.remove("content")))),
        ("as a value and as text", |it| it["messages"][1]["content_text"] = json!("1")),
        ("it nests too deep", |it| {
            it["messages"][1]["content"] = Value::Null;
            it["messages"][1]["content_text"] = json!("[".repeat(999));
        }),
        ("not a number", |it| it["messages"][1]["embedding"] = json!(["x"])),
        ("message id", |it| it["items"][0]["message_id"] = json!("a b")),
        ("there is no message", |it| it["items"][0]["message_id"] = json!("none")),
        ("ordinals have no gaps", |it| it["items"][1]["ord"] = json!(5)),
        ("does not precede it", |it| it["branches"][1]["forked"]["parent_branch_id"] = json!("none")),
        ("not the history of a branch", |it| {
            it["branches"][0]["progression_id"] = it["session"]["progression_id"].clone();
        }),
        ("18446744073709551615", |it| it["messages"][5]["ord"] = json!(u64::MAX)),
        ("two default branches", |it| it["branches"][1]["default"] = json!(true)),
        ("there is no message", |it| it["branches"][0]["system_msg_id"] = json!("none")),
        ("it undoes 7", |it| it["compactions"][1]["undoes"]["seq"] = json!(7)),
        ("line break", |it| it["log"][0] = json!("{}\n{}")),
    ];
    let (before, there) = (rows(&other), files(&to));
    let refuse = |document: Vec<u8>, expected: &str| {
        let refused = other.sessions().import(Cursor::new(document)).expect_err(expected);
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        assert!(refused.to_string().contains(expected), "{expected:?} is not in: {refused}");
        assert_eq!((rows(&other), files(&to)), (before.clone(), there.clone()), "{refused}");
    };
    for (expected, spoil) in spoilt {
        let mut document = good.clone();
        spoil(&mut document);
        refuse(written(&document), expected);
    }
    let whole = written(&good);
    for cut in [0, 1, 20, whole.len() / 2, whole.len() - 3] {
        refuse(whole[..cut].to_vec(), "EOF");
    }
    refuse([whole.as_slice(), b"{}"].concat(), "trailing");
    refuse(b"[]".to_vec(), "the document of a session");
    refuse(b"{\"session\":{}}".to_vec(), "expected \"duolog_export\"");
    refuse([b"{\"duolog_export\":".as_slice(), "[".repeat(100_000).as_bytes()].concat(), "invalid type");
    other.sessions().import(Cursor::new(whole)).expect("the valid document is imported");
}

/// The members of a document in their order, which a JSON value may have lost.
const MEMBERS: [&str; 10] = [
    "duolog_export",
    "session",
    "statuses",
    "progressions",
    "messages",
    "items",
    "branches",
    "compactions",
    "log",
    "blobs",
];

fn written(document: &Value) -> Vec<u8> {
    let members: Vec<String> = MEMBERS.iter().map(|name| format!("\"{name}\":{}", document[*name])).collect();
    format!("{{{}}}\n", members.join(",")).into_bytes()
}

fn an_existing_session_is_not_replaced(place: &Place) {
    let (from, to) = (Apart::of(&Place::sqlite()), Apart::of(place));
    let (store, other) = (from.open(), to.open());
    let document = small(&store);
    let import = |document: &Value| other.sessions().import(Cursor::new(written(document)));
    let imported = import(&document).expect("imported");
    let (before, there) = (rows(&other), files(&to));
    let refused = import(&document).expect_err("it is there");
    assert!(matches!(&refused, Error::Conflict(Conflict::SessionTaken(id)) if *id == imported.session.id), "{refused}");
    let mut named = document.clone();
    named["session"]["id"] = json!("another");
    for progression in ["session", "progressions", "items", "branches", "messages", "compactions"] {
        // All ids are new, and only the name is taken.
        let text = named[progression].to_string().replace("\"01", "\"02");
        named[progression] = serde_json::from_str(&text).expect("JSON");
    }
    let refused = import(&named).expect_err("the name is taken");
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    let mut changed = document.clone();
    changed["session"]["id"] = json!("another");
    changed["session"]["addressed"] = json!(false);
    let refused = import(&changed).expect_err("its progressions are there");
    assert!(refused.to_string().contains("in another session"), "{refused}");
    assert_eq!((rows(&other), files(&to)), (before, there));
    other.sessions().delete(&imported.session.id).expect("deleted");
    import(&document).expect("after a deletion it can be imported again");
}

fn a_message_of_two_sessions_stays_one(place: &Place) {
    let (from, to) = (Apart::of(place), Apart::of(&Place::sqlite()));
    let (store, other) = (from.open(), to.open());
    let sessions = ["a", "b"].map(|id| {
        let id = SessionId::parse(id).expect("an id");
        store.sessions().create(&NewSession { id: Some(id.clone()), ..NewSession::default() }).expect("made");
        id
    });
    let shared = NewMessage { role: "user".to_owned(), content: "\"both\"".to_owned(), ..NewMessage::default() };
    let shared = store.sessions().messages().put(&shared, DURABILITY).expect("put");
    for session in &sessions {
        store.sessions().items(session).append(std::slice::from_ref(&shared), DURABILITY).expect("appended");
        other.sessions().import(Cursor::new(export(&store, session))).expect("imported");
    }
    let messages = rows(&other).into_iter().find(|(table, _)| table == "messages").expect("a table").1;
    assert_eq!(messages, 1);
    // Other content under the same id is refused.
    let [_, second] = &sessions;
    let document = String::from_utf8(export(&store, second)).expect("UTF-8");
    other.sessions().delete(second).expect("deleted");
    let refused = other.sessions().import(Cursor::new(document.replace("both", "else").into_bytes()));
    assert!(matches!(refused.expect_err("another"), Error::Conflict(Conflict::MessageTaken(id)) if id == shared));
}

fn an_import_that_died_leaves_nothing(place: &Place) {
    let (from, to) = (Apart::of(&Place::sqlite()), Apart::of(place));
    let (store, other) = (from.open(), to.open());
    let document = small(&store);
    // The state that a process leaves when it dies while it writes the temporary log.
    let logs = to.home().state.join("sessions");
    fs::create_dir_all(&logs).expect("made");
    fs::write(logs.join(".import-dead"), b"{}\n").expect("written");
    other.sessions().import(Cursor::new(written(&document))).expect("imported");
    assert!(!logs.join(".import-dead").exists(), "it was removed");
    assert!(files(&to).iter().all(|file| !file.contains(".import")), "{:?}", files(&to));
}
