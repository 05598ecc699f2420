use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use duolog::errors::Invalid;
use duolog::search::{BadQuery, Found, Hit, IndexStatus, Query, SearchFilter, SearchRequest, UseIndex};
use duolog::{Batch, Durability, Home, SessionId, Store, StoreOptions, Timestamp};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_testkit::transcripts::{self, Cut};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Apart, line};

on_both_engines!(appended_lines_are_found);

/// A separate home.
struct Room(TempDir);

impl Room {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn open(&self) -> Store {
        Store::open(StoreOptions::at(Home::beneath(self.0.path())).one_shot()).expect("a store")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join("state").join(name)
    }
}

fn append(store: &Store, thread: &str, lines: &[String]) -> SessionId {
    let session = store.sessions().open_thread(thread).expect("a session").id;
    let mut batch = Batch::default();
    for line in lines {
        batch.push(line.as_bytes()).expect("a line");
    }
    store.log(&session).append(&batch, Durability::Process).expect("appended");
    session
}

/// A line with an answer of the agent.
fn said(text: &str) -> String {
    let text = serde_json::to_string(text).expect("JSON");
    format!("{{\"type\":\"assistant\",\"message\":{{\"role\":\"assistant\",\"content\":{text}}}}}")
}

fn request(query: &str, index: UseIndex) -> SearchRequest {
    SearchRequest { index, ..SearchRequest::new(Query::parse(query).expect("a query")) }
}

fn find(store: &Store, query: &str) -> Found {
    store.search().find(&request(query, UseIndex::IfPossible), |_| {}).expect("searches")
}

/// The number of hits with the index only.
fn indexed(store: &Store, query: &str) -> usize {
    let found = find(store, query);
    assert!(found.used_index && found.scanned_bytes == 0 && found.without_index.is_none(), "{found:?}");
    found.hits.len()
}

/// Returns every hit, page by page.
fn every(store: &Store, request: &SearchRequest) -> Vec<Hit> {
    let (mut request, mut hits) = (request.clone(), Vec::new());
    loop {
        let found = store.search().find(&request, |_| {}).expect("searches");
        assert_eq!(found.used_index, request.index == UseIndex::IfPossible && request.query.has_words());
        assert!(found.hits.len() <= request.limit as usize);
        // A loss that is on record does not hide the existing lines.
        assert!(found.unread.iter().all(|(_, reason)| reason.contains("lost earlier")), "{:?}", found.unread);
        hits.extend(found.hits);
        match found.next {
            Some(next) => request.after = Some(next),
            None => return hits,
        }
    }
}

/// Asserts that the index and a scan give the same result, and returns the number of hits.
fn alike(store: &Store, query: &str, filter: &SearchFilter) -> usize {
    let asked = |index, limit| SearchRequest { filter: filter.clone(), limit, ..request(query, index) };
    let with = every(store, &asked(UseIndex::IfPossible, 60));
    let without = every(store, &asked(UseIndex::Never, 200));
    assert_eq!(with, without, "{query:?} {filter:?}");
    with.len()
}

fn appended_lines_are_found(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made").id;
    store.log(&session).append(&line(&said("first the plan")), Durability::Process).expect("appended");
    let found = find(&store, "plan");
    assert_eq!((found.hits.len(), &found.hits[0].session, found.hits[0].cursor.position.0), (1, &session, 0));
    assert!(found.used_index, "{found:?}");
    store.log(&session).append(&line(&said("then the work")), Durability::Process).expect("appended");
    assert_eq!((find(&store, "work").hits.len(), find(&store, "the").hits.len()), (1, 2));
    assert!(apart.home().state.join("search.db").exists(), "beside the logs, even if the state is elsewhere");
    store.sessions().delete(&session).expect("deleted");
    assert!(find(&store, "plan").hits.is_empty());
}

/// The sources and documents of this project: code and prose.
fn project(directory: &Path, texts: &mut Vec<String>) {
    let mut entries: Vec<_> = directory.read_dir().expect("a directory").flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            project(&path, texts);
        } else if ["rs", "md", "toml"].iter().any(|ending| path.extension().is_some_and(|found| found == *ending)) {
            texts.push(fs::read_to_string(&path).expect("text"));
        }
    }
}

/// Texts of about one screen each.
fn corpus() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    project(&root, &mut files);
    let mut texts = vec![
        "日本語の文章はスペースなしで書かれる。検索できるか？".to_owned(),
        "한국어 문장에서 단어를 찾는다 🎉".to_owned(),
        "ภาษาไทยไม่มีช่องว่าง · naïve café · cafe\u{301} · İstanbul".to_owned(),
    ];
    for file in &files {
        let lines: Vec<&str> = file.lines().collect();
        texts.extend(lines.chunks(25).map(|lines| lines.join("\n")));
    }
    texts
}

/// Realistic queries: words and parts of the texts.
fn queries(texts: &[String]) -> Vec<String> {
    let mut words = BTreeSet::new();
    for text in texts {
        words.extend(text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.len() > 2));
    }
    let mut queries: Vec<String> = words.iter().step_by(words.len() / 25).map(|word| (*word).to_owned()).collect();
    queries.extend(words.iter().skip(7).step_by(words.len() / 8).map(|word| {
        let last = word.char_indices().last().map_or(0, |(at, _)| at);
        format!("{}*", if last > 0 { &word[..last] } else { word })
    }));
    for text in texts.iter().step_by(texts.len() / 15) {
        let line = text.lines().max_by_key(|line| line.len()).unwrap_or_default().trim();
        let from = line.floor_char_boundary(line.len() / 3);
        queries.push(format!("\"{}\"", line[from..line.floor_char_boundary(line.len() * 2 / 3)].replace('"', "\\\"")));
        queries
            .extend(line.split_whitespace().find(|word| word.contains("::") || word.contains('_')).map(str::to_owned));
    }
    queries.extend(
        ["日本", "단어", "ช่อง", "café", "i", "the -a*", "fn \"pub struct\"", "!=", "🎉", "->"].map(str::to_owned),
    );
    queries
}

#[test]
fn index_and_scan_answer_alike_on_code_and_prose() {
    let room = Room::new();
    let store = room.open();
    let texts = corpus();
    for (number, texts) in texts.chunks(300).enumerate() {
        let lines: Vec<String> = texts.iter().map(|text| said(text)).collect();
        append(&store, &format!("part-{number}"), &lines);
    }
    let (mut hits, mut asked) = (0, 0);
    for query in queries(&texts) {
        if Query::parse(&query).is_err() {
            continue;
        }
        let found = alike(&store, &query, &SearchFilter::default());
        // A second definition of a match.
        if query.len() > 2 && query.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            let is_word = |word: &str| word.eq_ignore_ascii_case(&query);
            // Single characters of other scripts are adjacent to words without a space.
            let holds = |text: &&String| text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_word);
            let ascii = texts.iter().filter(|text| text.is_ascii()).filter(holds).count();
            assert!(found >= ascii && found <= texts.iter().filter(holds).count(), "{query}: {found}");
        }
        hits += found;
        asked += 1;
    }
    assert!(asked > 50 && hits > asked, "{hits} hits of {asked} queries");
    let part = store.sessions().open_thread("part-0").expect("a session").id;
    assert!(alike(&store, "the", &SearchFilter { session: Some(part), ..SearchFilter::default() }) > 0);
}

#[test]
fn every_dialect_is_searched_alike_however_it_came_in() {
    let made = [
        transcripts::envelope(3, 6),
        transcripts::turns(3, 6, Cut::LastTurn),
        transcripts::transcript(3, 6),
        transcripts::claude(3, 6),
        transcripts::codex(3, 6, false),
    ];
    let room = Room::new();
    let store = room.open();
    // A few lines at a time, with an index update after each step, so that the stored state of the reader is used.
    let longest = made.iter().map(|made| made.lines.len()).max().expect("logs");
    for from in (0..longest).step_by(3) {
        for (number, made) in made.iter().enumerate() {
            let lines = &made.lines[from.min(made.lines.len())..(from + 3).min(made.lines.len())];
            if !lines.is_empty() {
                append(&store, &format!("dialect-{number}"), lines);
            }
        }
        alike(&store, "the", &SearchFilter::default());
    }
    let roles = ["user", "assistant", "thinking", "tool_call", "tool_result", "result", "note", "moderator"];
    let texts: String = made.iter().map(transcripts::GeneratedLog::text).collect();
    let words: BTreeSet<&str> = texts.split(|letter: char| !letter.is_alphanumeric()).collect();
    let mut hits = 0;
    for word in words.iter().filter(|word| !word.is_empty()).step_by(words.len() / 80) {
        hits += alike(&store, word, &SearchFilter::default());
    }
    assert!(hits > 0);
    let role = |role: &str| SearchFilter { role: Some(role.to_owned()), ..SearchFilter::default() };
    let by_role: usize = roles.map(|name| alike(&store, "e* -zzz", &role(name))).into_iter().sum();
    assert!(by_role > 0, "a role was found");
    let all = every(&store, &request("a*", UseIndex::IfPossible));
    let tools: BTreeSet<String> = all.iter().filter_map(|hit| hit.tool.clone()).collect();
    assert!(!tools.is_empty());
    for tool in tools {
        assert!(alike(&store, "a*", &SearchFilter { tool: Some(tool), ..SearchFilter::default() }) > 0);
    }
    let middle = all[all.len() / 2].at;
    assert!(alike(&store, "a*", &SearchFilter { since: middle, ..SearchFilter::default() }) < all.len());
    // Rebuilt at once, the result is the same.
    store.search().rebuild(|_| {}).expect("rebuilt");
    assert_eq!(every(&store, &request("a*", UseIndex::IfPossible)), all);
}

#[test]
fn a_log_that_turns_out_to_be_in_another_dialect_is_read_again() {
    let room = Room::new();
    let store = room.open();
    let plain = |text: &str| format!("{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}");
    let marked = |text: &str| {
        format!(
            "{{\"type\":\"user\",\"isMeta\":true,\"parentUuid\":null,\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}"
        )
    };
    append(&store, "s", &[plain("[Request interrupted by user] one")]);
    let before = find(&store, "one").hits[0].kind;
    append(&store, "s", &[marked("two")]);
    assert_ne!(find(&store, "one").hits[0].kind, before, "now it is in the dialect of Claude Code");
    assert_eq!(alike(&store, "one", &SearchFilter::default()), 1);
}

#[test]
fn the_index_goes_on_where_it_stopped() {
    let room = Room::new();
    let store = room.open();
    append(&store, "a", &[said("alpha")]);
    let mut told = Vec::new();
    let first = request("alpha", UseIndex::IfPossible);
    store.search().find(&first, |done| told.push((done.texts, done.bytes, done.of_bytes))).expect("searches");
    let size = fs::metadata(room.file("sessions/threads/a.jsonl")).expect("a log").len();
    assert_eq!(told.last(), Some(&(1, size, size)));
    told.clear();
    store.search().find(&first, |done| told.push((done.texts, done.bytes, done.of_bytes))).expect("searches");
    assert!(told.is_empty(), "there is nothing new to index");
    append(&store, "a", &[said("beta"), said("alpha again")]);
    store.search().find(&first, |done| told.push((done.texts, done.bytes, done.of_bytes))).expect("searches");
    let grown = fs::metadata(room.file("sessions/threads/a.jsonl")).expect("a log").len() - size;
    assert_eq!(told.last(), Some(&(2, grown, grown)), "only new lines were read");
    assert_eq!(indexed(&store, "alpha"), 2);
}

#[test]
fn a_log_that_lost_bytes_is_indexed_again() {
    let room = Room::new();
    let store = room.open();
    append(&store, "a", &[said("kept alpha"), said("lost beta")]);
    assert_eq!((indexed(&store, "alpha"), indexed(&store, "beta")), (1, 1));
    drop(store);
    let path = room.file("sessions/threads/a.jsonl");
    let kept = said("kept alpha").len() as u64 + 1;
    File::options().write(true).open(&path).expect("a log").set_len(kept).expect("cut");
    let store = room.open();
    assert!(find(&store, "beta").hits.is_empty(), "lost lines are not shown, and the loss is noticed");
    let session = store.sessions().open_thread("a").expect("a session");
    assert_eq!(session.log_epoch.0, 1);
    append(&store, "a", &[said("new gamma and more words than before")]);
    for (word, count) in [("alpha", 1), ("beta", 0), ("gamma", 1)] {
        assert_eq!(indexed(&store, word), count, "{word}");
        assert_eq!(alike(&store, word, &SearchFilter::default()), count);
    }
}

#[test]
fn a_log_that_was_edited_is_searched_as_it_is() {
    let room = Room::new();
    append(&room.open(), "a", &[said("alpha"), said("beta"), said("gamma")]);
    assert_eq!(indexed(&room.open(), "beta"), 1);
    let path = room.file("sessions/threads/a.jsonl");
    let text = fs::read_to_string(&path).expect("a log").replace("beta", "delta and more");
    fs::write(&path, text).expect("written");
    let store = room.open();
    // The indexed lines have moved: the search notices that, and indexes the log as it is now.
    assert_eq!(find(&store, "gamma").hits.len(), 1);
    for (word, count) in [("alpha", 1), ("beta", 0), ("delta", 1), ("gamma", 1)] {
        assert_eq!(alike(&store, word, &SearchFilter::default()), count, "{word}");
    }
}

#[test]
fn deleted_sessions_are_removed_from_the_index() {
    let room = Room::new();
    let store = room.open();
    let gone = append(&store, "gone", &[said("alpha")]);
    append(&store, "stays", &[said("alpha")]);
    assert_eq!(indexed(&store, "alpha"), 2);
    store.sessions().delete(&gone).expect("deleted");
    assert_eq!(indexed(&store, "alpha"), 1);
    drop(store);
    let IndexStatus::Complete { sessions, texts, .. } = room.open().search().index_status() else { panic!("whole") };
    assert_eq!((sessions, texts), (1, 1));
}

#[test]
fn an_index_that_cannot_be_used_costs_only_time() {
    let room = Room::new();
    append(&room.open(), "a", &[said("alpha"), said("beta")]);
    assert_eq!(indexed(&room.open(), "alpha"), 1);
    let sql = |sql: &str| Connection::open(room.file("search.db")).expect("opens").execute_batch(sql).expect("changed");
    let without = |why: &str| {
        let found = find(&room.open(), "alpha");
        assert_eq!((found.hits.len(), found.used_index), (1, false));
        assert!(found.without_index.as_ref().is_some_and(|told| told.contains(why)), "{found:?}");
        assert!(found.scanned_bytes > 0);
    };
    // A newer version is not changed.
    sql("PRAGMA user_version = 77");
    without("format 77, which a newer version created");
    assert!(matches!(room.open().search().index_status(), IndexStatus::Unusable(_)));
    sql("PRAGMA user_version = 1");
    assert_eq!(indexed(&room.open(), "alpha"), 1);
    // Internal damage: noticed, deleted and rebuilt.
    sql("UPDATE texts_data SET block = x'00' WHERE id > 10");
    without("the next search rebuilds it");
    assert_eq!(indexed(&room.open(), "alpha"), 1);
    // A damaged file is rebuilt at once.
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(room.file(&format!("search.db{suffix}")));
    }
    fs::write(room.file("search.db"), "nothing of use").expect("written");
    assert_eq!(indexed(&room.open(), "alpha"), 1);
    // A database of another program is not changed, even by a rebuild.
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(room.file(&format!("search.db{suffix}")));
    }
    sql("PRAGMA application_id = 5; CREATE TABLE theirs (x)");
    without("another program");
    assert!(room.open().search().rebuild(|_| {}).is_err());
    sql("INSERT INTO theirs VALUES (1)");
    // Not a file.
    fs::remove_file(room.file("search.db")).expect("deleted");
    fs::create_dir(room.file("search.db")).expect("made");
    without("another program");
}

#[test]
fn lines_are_scanned_while_another_process_indexes() {
    let room = Room::new();
    let store = room.open();
    append(&store, "a", &[said("alpha")]);
    assert_eq!(indexed(&store, "alpha"), 1);
    append(&store, "a", &[said("alpha too")]);
    append(&store, "b", &[said("alpha as well")]);
    let lock = File::options().write(true).open(room.file("search.lock")).expect("a lock");
    lock.try_lock().expect("nobody else");
    let found = find(&store, "alpha");
    assert_eq!((found.hits.len(), found.used_index), (3, true), "{found:?}");
    assert!(found.without_index.is_some_and(|why| why.contains("another process")) && found.scanned_bytes > 0);
    assert!(store.search().rebuild(|_| {}).is_err_and(|error| error.kind() == duolog::ErrorKind::Busy));
    drop(lock);
    assert_eq!(indexed(&store, "alpha"), 3);
}

#[test]
fn an_index_deleted_under_writers_and_searchers_harms_nothing() {
    let room = Room::new();
    let store = room.open();
    append(&store, "seed", &[said("alpha first")]);
    assert_eq!(indexed(&store, "alpha"), 1);
    let (is_done, written) = (AtomicBool::new(false), 120);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let store = room.open();
            for number in 0..written {
                append(&store, "live", &[said(&format!("alpha number{number}"))]);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let store = room.open();
                let mut last = 1;
                while !is_done.load(Ordering::Relaxed) {
                    let hits = every(&store, &SearchRequest { limit: 200, ..request("alpha", UseIndex::Never) }).len();
                    let found = store
                        .search()
                        .find(&SearchRequest { limit: 200, ..request("alpha", UseIndex::IfPossible) }, |_| {});
                    let found = found.expect("searches").hits.len();
                    assert!(hits >= last && found >= hits, "{found} after {hits} after {last}");
                    last = found;
                }
            });
        }
        let mut round = 0;
        while !writer.is_finished() {
            let suffixes: &[&str] = if round % 2 == 0 { &[""] } else { &["", "-wal", "-shm"] };
            for suffix in suffixes {
                let _ = fs::remove_file(room.file(&format!("search.db{suffix}")));
            }
            round += 1;
            std::thread::yield_now();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let found = SearchRequest { limit: 200, ..request("alpha", UseIndex::IfPossible) };
    assert_eq!(every(&store, &found).len(), written + 1);
    assert_eq!(alike(&store, "number7", &SearchFilter::default()), 1);
    let session = store.sessions().open_thread("live").expect("a session").id;
    let verified = store.log(&session).verify(|_, _| {}).expect("verifies");
    assert_eq!((verified.events, verified.damaged), (written as u64, 0));
}

#[test]
fn damaged_lines_are_counted_and_hide_nothing() {
    let room = Room::new();
    let store = room.open();
    append(&store, "a", &[said("alpha"), said("broken beta"), said("gamma")]);
    drop(store);
    let path = room.file("sessions/threads/a.jsonl");
    // One changed byte: a bracket is missing.
    let mut text = fs::read(&path).expect("a log");
    text[said("alpha").len() + 1] = b'x';
    fs::write(&path, text).expect("written");
    let store = room.open();
    for index in [UseIndex::IfPossible, UseIndex::Never, UseIndex::IfPossible] {
        let found = store.search().find(&request("gamma", index), |_| {}).expect("searches");
        assert_eq!((found.hits.len(), found.damaged), (1, 1), "{index:?}");
    }
    assert_eq!(alike(&store, "beta", &SearchFilter::default()), 0);
}

#[test]
fn a_writer_that_holds_its_log_blocks_no_search() {
    let room = Room::new();
    let mut options = StoreOptions::at(Home::beneath(room.0.path())).one_shot();
    options.limits.busy_timeout = std::time::Duration::from_millis(50);
    let store = Store::open(options).expect("a store");
    append(&store, "a", &[said("alpha")]);
    append(&store, "b", &[said("alpha")]);
    assert_eq!(indexed(&store, "alpha"), 2);
    append(&store, "a", &[said("alpha unseen")]);
    let log = File::options().write(true).open(room.file("sessions/threads/a.jsonl")).expect("a log");
    log.try_lock().expect("nobody else");
    let found = find(&store, "alpha");
    assert_eq!(found.hits.len(), 2, "indexed lines are still found: {found:?}");
    assert_eq!(found.unread.len(), 1);
    drop(log);
    let found = find(&store, "alpha");
    assert_eq!((found.hits.len(), found.unread.len()), (3, 0));
}

#[test]
fn hits_have_a_place_and_a_kind() {
    let room = Room::new();
    let store = room.open();
    let call = r#"{"type":"assistant","timestamp":"2026-01-02T03:04:05Z","message":{"role":"assistant","content":[{"type":"text","text":"look"},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"a\nneedle b"}}]}}"#;
    let answer = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"the NEEDLE"}]}}"#;
    let session = append(&store, "a", &[call.to_owned(), answer.to_owned()]);
    let found = find(&store, "needle");
    assert_eq!(found.hits.len(), 2);
    let [answered, called] = &found.hits[..] else { panic!("two hits") };
    let at: Timestamp = "2026-01-02T03:04:05Z".parse().expect("an instant");
    assert_eq!((answered.kind.word(), answered.tool.as_deref(), answered.at), ("tool_result", Some("Bash"), Some(at)));
    assert_eq!((called.kind.word(), called.part, called.cursor.position.0), ("tool_call", 1, 0));
    assert_eq!(answered.cursor.position.0, call.len() as u64 + 1);
    assert_eq!((&called.session, called.snippet.text.as_str()), (&session, "{\"command\":\"a needle b\"}"));
    assert_eq!(called.snippet.matches.first(), Some(&(14..20)));
    assert!(matches!(
        Query::parse("-needle").map_err(duolog::Error::from),
        Err(duolog::Error::Invalid(Invalid::Query(BadQuery::OnlyExcludes)))
    ));
}
