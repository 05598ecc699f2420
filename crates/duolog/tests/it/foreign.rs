use std::io::Cursor;

use duolog::import::lionagi::{self, BranchSource, MessageSource, SessionSource, Source, StatusSource};
use duolog::import::skillet;
use duolog::sessions::{BranchRef, Exported, HistoryView, SessionRef};
use duolog::{ErrorKind, MessageId, SessionId, SourceKind, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::Apart;

on_both_engines!(a_lionagi_session_is_imported_as_its_readers_show_it, skillet_items_come_in_their_order);

/// A message whose content is its own id.
fn says(id: &str, role: &str) -> (String, MessageSource) {
    let content = Some(format!("{{\"text\": \"{id}\"}}"));
    (id.to_owned(), MessageSource { created_at: 1.5, role: role.to_owned(), content, ..MessageSource::default() })
}

fn ids(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Three branches, each forked from the one before, a reference to a message in no progression, and an id without a
/// row.
fn forked() -> Source {
    let branch = |id: &str, collection: &str, metadata: Option<&str>| BranchSource {
        id: id.to_owned(),
        created_at: 2.0,
        name: Some(id.to_owned()),
        node_metadata: metadata.map(str::to_owned),
        progression_id: format!("{id}-prog"),
        system_msg_id: Some("system".to_owned()),
        collection: ids(collection),
        ..BranchSource::default()
    };
    let named = ["system", "a", "b", "c", "d", "e"].map(|id| says(id, if id == "a" { "user" } else { "assistant" }));
    Source {
        session: SessionSource {
            id: "s".to_owned(),
            created_at: 1.25,
            updated_at: Some(3.0),
            status: Some("failed".to_owned()),
            name: Some("a name".to_owned()),
            node_metadata: Some("null".to_owned()),
            progression_id: Some("s-prog".to_owned()),
            collection: ids("a b c gone"),
            ..SessionSource::default()
        },
        branches: vec![
            branch("main", "a gone b c", Some("null")),
            branch("side", "a gone b d", Some("{\"parent_branch_id\":\"main\",\"forked_at_ord\":3}")),
            branch(
                "deep",
                "a gone b e",
                Some("{\"parent_branch_id\":\"side\",\"forked_at_ord\":3,\"half\":\"\\ud800\"}"),
            ),
            branch("other", "c a", Some("{\"parent_branch_id\":\"main\",\"forked_at_ord\":1}")),
        ],
        messages: named.into(),
        statuses: vec![StatusSource {
            status: "failed".to_owned(),
            reason_code: Some("run.failed".to_owned()),
            created_at: 3.0,
            ..StatusSource::default()
        }],
    }
}

fn history(store: &Store, session: &SessionId, branch: &str) -> Vec<String> {
    let items = store.sessions().items(session).on(BranchRef::Text(branch.to_owned()));
    items.latest(99, HistoryView::Full).expect("reads").items.into_iter().map(|item| item.id.to_string()).collect()
}

fn a_lionagi_session_is_imported_as_its_readers_show_it(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let mapped = lionagi::map(forked()).expect("mapped");
    assert!(mapped.left_out.iter().any(|one| one.contains("branch other does not begin like its parent main")));
    assert_eq!(mapped.items.len(), 3 + 1 + 1 + 2, "shared items are not copied");
    let imported = store.sessions().import(Cursor::new(mapped.document().expect("written"))).expect("imported");
    assert_eq!(imported.held, Exported { branches: 4, messages: 6, ..Exported::default() });
    let session = imported.session;
    assert_eq!((session.source_kind, session.node_metadata), (SourceKind::ImportedLionagi, None));
    assert_eq!(history(&store, &session.id, "main"), ["system", "a", "b", "c"]);
    assert_eq!(history(&store, &session.id, "side"), ["system", "a", "b", "d"]);
    assert_eq!(history(&store, &session.id, "deep"), ["system", "a", "b", "e"]);
    assert_eq!(history(&store, &session.id, "other"), ["system", "c", "a"]);
    let branches = store.sessions().branches(&session.id);
    let deep = branches.get(&BranchRef::Text("deep".to_owned())).expect("looks").expect("there");
    // Two of the three shared items have a row.
    assert!(deep.forked.is_some_and(|forked| forked.parent.as_str() == "side" && forked.at == 2));
    assert!(branches.get(&BranchRef::Default).expect("looks").is_some_and(|main| main.id.as_str() == "main"));
    let message = store.sessions().messages().get(&MessageId::parse("a").expect("an id")).expect("there");
    assert_eq!((message.content.as_str(), message.created_at.as_micros()), ("{\"text\": \"a\"}", 1_500_000));
    assert_eq!(store.sessions().status(&session.id).transitions(9).expect("reads").len(), 1);
    let wrong = Source { session: SessionSource { id: "../s".to_owned(), ..forked().session }, ..forked() };
    assert!(lionagi::map(wrong).is_err_and(|why| why.contains("session id")));
}

fn skillet_items_come_in_their_order(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let path = apart.directory.path().join("their store?.sqlite");
    let aside = apart.directory.path().join("aside");
    let database = rusqlite::Connection::open(&path).expect("opens");
    let table = "CREATE TABLE session_items (id INTEGER PRIMARY KEY AUTOINCREMENT, user_id TEXT NOT NULL, \
                 session_name TEXT NOT NULL, created_at INTEGER NOT NULL, item_json TEXT NOT NULL)";
    database.execute_batch(table).expect("made");
    let rows = [
        ("ada", "../plan", 2000, " {\"role\":\"user\"} "),
        ("ada", "../plan", 1000, "{\"type\":\"compaction\"}"),
        ("ada", "../plan", 2000, "NaN"),
        ("ada", "../plan", 2000, "{\"role\":\"assistant\"}"),
        ("bob", "../plan", 1, "1"),
    ];
    let insert = "INSERT INTO session_items (user_id, session_name, created_at, item_json) VALUES (?1, ?2, ?3, ?4)";
    for row in rows {
        database.execute(insert, row).expect("added");
    }
    drop(database);
    let before = std::fs::read(&path).expect("reads");
    let mut left_out = Vec::new();
    let read = |store: &Store, left_out: &mut Vec<String>| {
        skillet::read(&path, &aside, |mapped| {
            left_out.extend(mapped.left_out.clone());
            store.sessions().import(Cursor::new(mapped.document()?)).map(drop)
        })
    };
    read(&store, &mut left_out).expect("read");
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    let plan = SessionRef::UserAndName { user: "ada".to_owned(), name: "../plan".to_owned() };
    let session = store.sessions().resolve(&plan).expect("found");
    let list = store.sessions().items(&session.id).latest(9, HistoryView::Full).expect("reads");
    let texts: Vec<&str> = list.items.iter().map(|item| item.content.as_str()).collect();
    assert_eq!(texts, ["{\"type\":\"compaction\"}", " {\"role\":\"user\"} ", "{\"role\":\"assistant\"}"]);
    assert_eq!((session.created_at.as_micros(), session.updated_at.as_micros()), (1_000_000, 2_000_000));
    // Ids are derived from the source: a second import is a conflict, and nothing is duplicated.
    assert_eq!(read(&store, &mut left_out).expect_err("there").kind(), ErrorKind::Conflict);
    assert!(std::fs::read(&path).expect("reads") == before);
    let beside = std::fs::read_dir(apart.directory.path()).expect("lists").flatten();
    assert!(beside.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().contains("sqlite-")));
    // Rows that are only in a write-ahead log are read too.
    let database = rusqlite::Connection::open(&path).expect("opens");
    database.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0").expect("set");
    database.execute(insert, ("eve", "late", 3000, "3")).expect("added");
    let log = apart.directory.path().join("their store?.sqlite-wal");
    let before = [&path, &log].map(|path| std::fs::read(path).expect("reads"));
    let mut users = Vec::new();
    let taken = skillet::read(&path, &aside, |mapped| {
        users.extend(mapped.user_id().map(str::to_owned));
        Ok(())
    });
    taken.expect("read");
    assert_eq!(users, ["ada", "bob", "eve"]);
    assert!([&path, &log].map(|path| std::fs::read(path).expect("reads")) == before);
    assert!(std::fs::read_dir(&aside).is_ok_and(|left| left.count() == 0), "nothing is left of the copy");
}
