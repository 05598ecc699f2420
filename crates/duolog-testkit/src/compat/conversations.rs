//! Conversations of lionagi and Skillet: imported into a real home, read back, and compared with their facts.

use std::collections::BTreeMap;
use std::io::{self, Cursor};
use std::path::Path;

use duolog::import::{Mapped, lionagi, skillet};
use duolog::sessions::{BranchRef, HistoryView, SessionFilter};
use duolog::{BlobId, Home, MessageId, Page, SessionId, Store, StoreOptions, limits};
use serde_json::{Value, json};

use super::source::{self, Rows};
use super::{Verdict, documents, expected};

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// The member of the facts that holds the hash of a text.
const HASH: &str = "__sha256_of_text__";

/// Creates a home with everything that a source contains, and a directory for copies.
fn imported(
    read: impl FnOnce(&Path, &mut dyn FnMut(Mapped) -> duolog::Result<()>) -> duolog::Result<()>,
) -> io::Result<(tempfile::TempDir, Store, Vec<String>)> {
    let directory = tempfile::tempdir()?;
    let store = Store::open(StoreOptions::at(Home::beneath(directory.path())).one_shot()).map_err(other)?;
    let mut left_out = Vec::new();
    read(&directory.path().join("aside"), &mut |mapped| {
        left_out.extend(mapped.left_out.clone());
        store.sessions().import(Cursor::new(mapped.document()?)).map(drop)
    })
    .map_err(other)?;
    Ok((directory, store, left_out))
}

/// Counts the rows of a table.
fn rows(store: &Store, table: &str) -> io::Result<u64> {
    let rows = store.state().stats().map_err(other)?.state.rows;
    Ok(rows.iter().find(|(name, _)| name == table).map_or(0, |(_, count)| *count))
}

/// Imports a lionagi database and compares the result with these rows.
pub(super) fn lionagi_differences(database: &Path, rows: &Rows) -> io::Result<Vec<String>> {
    let mut verdict = Verdict::default();
    let (_directory, store, left_out) = imported(|aside, each| lionagi::read(database, aside, each))?;
    documents::lionagi(&mut verdict, &store, &left_out, rows)?;
    Ok(verdict.differences)
}

/// Imports a Skillet database and compares the result with these rows.
pub(super) fn skillet_differences(database: &Path, rows: &Rows) -> io::Result<Vec<String>> {
    let mut verdict = Verdict::default();
    let (_directory, store, left_out) = imported(|aside, each| skillet::read(database, aside, each))?;
    verdict.same("rows left out", &left_out, &Vec::new());
    documents::skillet(&mut verdict, &store, rows)?;
    Ok(verdict.differences)
}

pub(super) fn check_lionagi(root: &Path) -> io::Result<Vec<Verdict>> {
    let facts = expected(root, "expected/facts.json")?;
    let (_directory, store, left_out) = imported(|aside, each| lionagi::read(&root.join("state.db"), aside, each))?;
    let mut verdict = Verdict::of("lionagi conversations");
    let right = facts["sessions_newest_first"].as_array().cloned().unwrap_or_default();
    let page = Page::new(limits::PAGE_MAX, None);
    let listed = store.sessions().list(&SessionFilter::default(), &page).map_err(other)?.sessions;
    let ours: Vec<Value> = listed.iter().map(|session| json!([session.id.as_str(), status(session.status)])).collect();
    let theirs: Vec<Value> = right.iter().map(|session| json!([session["id"], session["status"]])).collect();
    verdict.same("sessions, newest first, and their status", &ours, &theirs);
    for table in ["sessions", "branches", "messages"] {
        let right = facts["row_counts"][table].as_u64().unwrap_or_default();
        verdict.same(table, &rows(&store, table)?, &right);
    }
    let rows = source::read(&root.join("state.db"), &documents::LIONAGI)?;
    documents::lionagi(&mut verdict, &store, &left_out, &rows)?;
    let (mut branches, mut transitions) = (0, 0);
    for session in &right {
        let id = SessionId::parse(session["id"].as_str().unwrap_or_default()).map_err(other)?;
        for branch in session["branches_by_created_at"].as_array().into_iter().flatten() {
            compare_branch(&mut verdict, &store, &id, branch)?;
            branches += 1;
        }
        transitions += store.sessions().status(&id).transitions(limits::PAGE_MAX).map_err(other)?.len();
    }
    let of_sessions = |row: &&Value| row["entity_type"] == "session";
    let theirs = facts["status_transitions"].as_array().map_or(0, |rows| rows.iter().filter(of_sessions).count());
    verdict.same("transitions of sessions", &transitions, &theirs);
    let messages = facts["messages"].as_object().cloned().unwrap_or_default();
    for (id, right) in &messages {
        compare_message(&mut verdict, &store, id, right)?;
    }
    verdict.counts = format!(
        "{} sessions, {branches} branches, {} messages, {transitions} transitions",
        right.len(),
        messages.len()
    );
    Ok(vec![verdict])
}

fn status(status: Option<duolog::SessionStatus>) -> Value {
    status.map_or(Value::Null, |status| status.as_str().into())
}

/// A branch has the messages that the facts list and that exist, the system's first, and its fork point.
fn compare_branch(verdict: &mut Verdict, store: &Store, session: &SessionId, right: &Value) -> io::Result<()> {
    let id = right["id"].as_str().unwrap_or_default();
    let which = BranchRef::Text(id.to_owned());
    let Some(branch) = store.sessions().branches(session).get(&which).map_err(other)? else {
        verdict.differences.push(format!("branch {id} is missing"));
        return Ok(());
    };
    let forked = branch.forked.as_ref();
    let ours = json!([branch.name, forked.map(|forked| forked.parent.as_str()), forked.map(|forked| forked.at)]);
    let theirs = json!([right["name"], right["parent_branch_id"], right["forked_at_ord"]]);
    verdict.same(&format!("branch {id}"), &ours, &theirs);
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned)).collect()
    };
    let dangling = texts(&right["dangling"]);
    let system = right["system_msg_id"].as_str();
    let mut theirs: Vec<String> = system.into_iter().map(str::to_owned).collect();
    let named = texts(&right["progression"]);
    theirs.extend(named.into_iter().filter(|id| !dangling.contains(id) && Some(id.as_str()) != system));
    let list = store.sessions().items(session).on(which).latest(usize::MAX, HistoryView::Full).map_err(other)?;
    let ours: Vec<String> = list.items.iter().map(|item| item.id.to_string()).collect();
    verdict.same(&format!("history of branch {id}"), &ours, &theirs);
    Ok(())
}

fn compare_message(verdict: &mut Verdict, store: &Store, id: &str, right: &Value) -> io::Result<()> {
    let message = store.sessions().messages().get(&MessageId::parse(id).map_err(other)?).map_err(other)?;
    // The facts have the hash of a long text, byte for byte.
    let content: Value = if right["content"].get(HASH).is_some() {
        let hash = BlobId::of_bytes(message.content.as_bytes()).to_string();
        json!({HASH: hash, "len": message.content.chars().count()})
    } else {
        serde_json::from_str(&message.content).map_err(other)?
    };
    let class = message.lion_class.as_deref().unwrap_or("__unknown__");
    let embedding = message.embedding.as_deref();
    let first: Option<Vec<f32>> = embedding.map(|numbers| numbers.iter().take(4).copied().collect());
    let ours = json!([message.role, message.sender, message.recipient, message.channel, class, content]);
    let theirs = json!([
        right["role"],
        right["sender"],
        right["recipient"],
        right["channel"],
        right["lion_class"],
        right["content"]
    ]);
    verdict.same(&format!("message {id}"), &ours, &theirs);
    verdict.same(&format!("dimensions of message {id}"), &json!(embedding.map(<[f32]>::len)), &right["embedding_dim"]);
    let numbers = right["embedding_first4"].as_array();
    let theirs: Option<Vec<f32>> = numbers.map(|numbers| numbers.iter().filter_map(narrow).collect());
    verdict.same(&format!("first dimensions of message {id}"), &first, &theirs);
    let micros = right["created_at"].as_f64().map(|seconds| format!("{:.0}", seconds * 1e6));
    verdict.same(&format!("timestamp of message {id}"), &Some(message.created_at.as_micros().to_string()), &micros);
    Ok(())
}

/// Converts a number to the precision of an embedding.
fn narrow(number: &Value) -> Option<f32> {
    number.to_string().parse().ok()
}

pub(super) fn check_skillet(root: &Path) -> io::Result<Vec<Verdict>> {
    let facts = expected(root, "expected/reader_facts.json")?;
    let database = root.join("home/state/.agent_sessions.sqlite");
    let mut given: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let (_directory, store, left_out) = imported(|aside, each| {
        skillet::read(&database, aside, |mapped| {
            let [user, name] = [mapped.user_id(), mapped.name()].map(|text| text.unwrap_or_default().to_owned());
            given.insert((user, name), mapped.texts().map(str::to_owned).collect());
            each(mapped)
        })
    })?;
    let mut verdict = Verdict::of("skillet conversations");
    verdict.same("rows left out", &left_out, &Vec::new());
    let (mut sessions, mut items) = (0, 0);
    for (user, right) in facts["sqlite"].as_object().into_iter().flatten() {
        let names: Vec<&str> =
            right["session_names"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let filter = SessionFilter { user_id: Some(user.clone()), ..SessionFilter::default() };
        let page = Page::new(limits::PAGE_MAX, None);
        let mut listed = store.sessions().list(&filter, &page).map_err(other)?.sessions;
        listed.sort_by_key(|session| std::cmp::Reverse(session.started_at));
        let ours: Vec<&str> = listed.iter().filter_map(|session| session.name.as_deref()).collect();
        verdict.same(&format!("sessions of {user}, newest first"), &ours, &names);
        for session in &listed {
            let name = session.name.clone().unwrap_or_default();
            let list = store.sessions().items(&session.id).latest(usize::MAX, HistoryView::Full).map_err(other)?;
            let texts: Vec<String> = list.items.into_iter().map(|item| item.content).collect();
            let fact = &right["sessions"][&name];
            verdict.same(&format!("items of {name}"), &json!(texts.len()), &fact["items"]);
            let kinds: Vec<String> = texts.iter().map(|text| kind(text)).collect();
            verdict.same(&format!("kinds in {name}"), &json!(kinds.join(",")), &fact["types"]);
            verdict.same(&format!("bytes of {name}"), &Some(&texts), &given.get(&(user.clone(), name.clone())));
            sessions += 1;
            items += texts.len();
        }
    }
    verdict.same("sessions", &sessions, &given.len());
    documents::skillet(&mut verdict, &store, &source::read(&database, &documents::SKILLET)?)?;
    verdict.counts = format!("{sessions} sessions, {items} items");
    Ok(vec![verdict])
}

/// Returns the kind of an item in the facts: its type or its role.
fn kind(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let kind = value["type"].as_str().filter(|kind| *kind != "message");
    kind.or_else(|| value["role"].as_str()).unwrap_or_default().to_owned()
}
