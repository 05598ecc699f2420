//! Compares every value of every row of lionagi and Skillet with the exported document of its session.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use duolog::sessions::{BranchRef, HistoryView, SessionFilter};
use duolog::{Page, SessionId, Store, Timestamp, limits};
use serde_json::{Value, json};

use super::Verdict;
use super::source::{Cell, Row, Rows};

/// The imported tables of lionagi.
pub(super) const LIONAGI: [&str; 6] =
    ["sessions", "branches", "progressions", "messages", "message_types", "status_transitions"];
/// The imported table of Skillet.
pub(super) const SKILLET: [&str; 1] = ["session_items"];

/// The imported columns of lionagi, by table; the values of all others must be reported as left out.
const PLACED: [(&str, &str, &str); 3] = [
    (
        "session",
        "sessions",
        "id created_at updated_at started_at ended_at user name status agent_name invocation_kind playbook_name show_topic \
         show_play_name artifacts_path node_metadata progression_id first_msg_id last_msg_id",
    ),
    ("branch", "branches", "id created_at user name node_metadata session_id progression_id system_msg_id"),
    (
        "status transition",
        "status_transitions",
        "id entity_type entity_id previous_status status reason_code reason_summary evidence_refs actor created_at",
    ),
];

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Exports a session; null if it does not exist.
fn exported(store: &Store, id: &str) -> io::Result<Value> {
    let Ok(id) = SessionId::parse(id) else { return Ok(Value::Null) };
    let mut document = Vec::new();
    match store.sessions().export(&id, &mut document) {
        Ok(_) => serde_json::from_slice(&document).map_err(other),
        Err(error) if error.kind() == duolog::ErrorKind::NotFound => Ok(Value::Null),
        Err(error) => Err(other(error)),
    }
}

/// Returns a timestamp in seconds, as a document has it.
fn seconds(value: &Value) -> Value {
    #[allow(clippy::cast_possible_truncation)]
    let moment = |seconds: f64| Timestamp::from_micros((seconds * 1e6).round() as i64).to_string();
    value.as_f64().map_or(Value::Null, |seconds| moment(seconds).into())
}

/// Returns the metadata if it is not empty.
fn metadata(row: &Row, name: &str) -> io::Result<Value> {
    if row.text(name).is_empty() { Ok(Value::Null) } else { row.json(name) }
}

/// Returns a value that a document has as JSON or as text.
fn carried(part: &Value, name: &str) -> io::Result<Value> {
    match part[format!("{name}_text")].as_str() {
        Some(text) => serde_json::from_str(text).map_err(other),
        None => Ok(part[name].clone()),
    }
}

fn members(part: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| part[*name].clone()).collect()
}

fn ids(row: Option<&&Row>) -> io::Result<Vec<String>> {
    row.map_or_else(|| Ok(Vec::new()), |row| serde_json::from_value(row.json("collection")?).map_err(other))
}

/// lionagi's rows by their keys.
struct Lionagi<'r> {
    rows: &'r Rows,
    progressions: BTreeMap<&'r str, &'r Row>,
    messages: BTreeMap<&'r str, &'r Row>,
    classes: BTreeMap<i64, &'r str>,
    /// The notes that the import must report.
    notes: BTreeSet<String>,
}

/// Compares every value of lionagi's rows with the exported sessions, and checks the notes about what was left out.
pub(super) fn lionagi(verdict: &mut Verdict, store: &Store, left_out: &[String], rows: &Rows) -> io::Result<()> {
    let by_id = |table: &str| rows[table].iter().map(|row| (row.text("id"), row)).collect::<BTreeMap<_, _>>();
    let types = rows["message_types"].iter();
    let classes = types.filter_map(|row| Some((row.value("type_id").as_i64()?, row.text("lion_class")))).collect();
    let mut theirs = Lionagi {
        rows,
        progressions: by_id("progressions"),
        messages: by_id("messages"),
        classes,
        notes: BTreeSet::new(),
    };
    let page = Page::new(limits::PAGE_MAX, None);
    let listed = store.sessions().list(&SessionFilter::default(), &page).map_err(other)?.sessions;
    let ours: BTreeSet<&str> = listed.iter().map(|session| session.id.as_str()).collect();
    let right: BTreeSet<&str> = rows["sessions"].iter().map(|row| row.text("id")).collect();
    verdict.same("sessions", &ours, &right);
    for row in &rows["sessions"] {
        theirs.session(verdict, store, row)?;
    }
    for (unit, table, placed) in PLACED {
        let placed: BTreeSet<&str> = placed.split(' ').collect();
        for row in rows[table].iter().filter(|row| table != "status_transitions" || is_of_session(row)) {
            let lost = |(name, cell): &(String, Cell)| {
                let is_told = !placed.contains(name.as_str()) && !matches!(cell.literal.as_str(), "NULL" | "'null'");
                let cut = cell.literal.floor_char_boundary(256);
                is_told.then(|| format!("{name} = {}", &cell.literal[..cut]))
            };
            let lost: Vec<String> = row.cells.iter().filter_map(lost).collect();
            if !lost.is_empty() {
                theirs.notes.insert(format!("{unit} {}: not imported: {}", row.text("id"), lost.join(", ")));
            }
        }
    }
    let ours: BTreeSet<String> = left_out.iter().cloned().collect();
    for note in ours.symmetric_difference(&theirs.notes) {
        let word = if theirs.notes.contains(note) { "not reported" } else { "reported without a reason" };
        verdict.differences.push(format!("{word}: {note}"));
    }
    Ok(())
}

pub(super) fn is_of_session(row: &Row) -> bool {
    row.text("entity_type") == "session"
}

impl<'r> Lionagi<'r> {
    fn session(&mut self, verdict: &mut Verdict, store: &Store, row: &'r Row) -> io::Result<()> {
        let id = row.text("id");
        let document = exported(store, id)?;
        if document.is_null() {
            verdict.differences.push(format!("session {id} is missing"));
            return Ok(());
        }
        let mut branches: Vec<&Row> =
            self.rows["branches"].iter().filter(|branch| branch.text("session_id") == id).collect();
        branches.sort_by(|a, b| {
            let at = |row: &Row| row.value("created_at").as_f64().unwrap_or_default();
            at(a).total_cmp(&at(b)).then_with(|| a.text("id").cmp(b.text("id")))
        });
        let order = self.order(row, &branches)?;
        self.note_ends(row, &order);
        let names = [
            "user_id",
            "name",
            "status",
            "agent_name",
            "invocation_kind",
            "playbook_name",
            "show_topic",
            "show_play_name",
            "artifacts_path",
            "progression_id",
            "created_at",
            "updated_at",
            "started_at",
            "ended_at",
        ];
        let mut right: Vec<Value> =
            names[..10].iter().map(|name| row.value(if *name == "user_id" { "user" } else { name }).clone()).collect();
        right.extend(names[10..].iter().map(|name| seconds(row.value(name))));
        let part = &document["session"];
        verdict.same(&format!("session {id}"), &members(part, &names), &Value::Array(right));
        verdict.same(&format!("kind of session {id}"), &part["source_kind"], &json!("imported_lionagi"));
        let metadata = metadata(row, "node_metadata")?;
        verdict.same(&format!("metadata of session {id}"), &carried(part, "node_metadata")?, &metadata);
        self.statuses(verdict, id, &document)?;
        self.branches(verdict, store, id, &branches, &document)?;
        self.progressions(verdict, row, &branches, &document);
        self.messages(verdict, id, &order, &document)
    }

    /// Returns the messages of a session, each once, in the order of the lists; records ids without a message.
    fn order(&mut self, session: &Row, branches: &[&Row]) -> io::Result<Vec<String>> {
        let mut named = ids(self.progressions.get(session.text("progression_id")))?;
        for branch in branches {
            named.extend(ids(self.progressions.get(branch.text("progression_id")))?);
            named.extend(branch.value("system_msg_id").as_str().map(str::to_owned));
        }
        let mut order: Vec<String> = Vec::new();
        for id in named {
            if !self.messages.contains_key(id.as_str()) {
                self.notes.insert(format!("{id} is referred to and does not exist"));
            } else if !order.contains(&id) {
                order.push(id);
            }
        }
        Ok(order)
    }

    fn note_ends(&mut self, row: &Row, order: &[String]) {
        let shown = |id: Option<&str>| id.unwrap_or("none").to_owned();
        for (name, ours) in [("first_msg_id", order.first()), ("last_msg_id", order.last())] {
            let (theirs, ours) = (row.value(name).as_str(), ours.map(String::as_str));
            if theirs != ours {
                let (theirs, ours) = (shown(theirs), shown(ours));
                self.notes.insert(format!("session {}: {name} is {theirs}, imported as {ours}", row.text("id")));
            }
        }
    }

    fn statuses(&self, verdict: &mut Verdict, session: &str, document: &Value) -> io::Result<()> {
        let mut right: Vec<&Row> = self.rows["status_transitions"]
            .iter()
            .filter(|row| is_of_session(row) && row.text("entity_id") == session)
            .collect();
        right.sort_by(|a, b| {
            let at = |row: &Row| row.value("created_at").as_f64().unwrap_or_default();
            at(a).total_cmp(&at(b)).then(a.rowid.cmp(&b.rowid))
        });
        let optional = |row: &Row, name: &str| Some(row.text(name)).filter(|text| !text.is_empty()).map(str::to_owned);
        let theirs = |row: &&Row| -> io::Result<Value> {
            let at = seconds(row.value("created_at"));
            Ok(json!([
                optional(row, "previous_status"),
                row.text("status"),
                optional(row, "reason_code"),
                optional(row, "reason_summary"),
                optional(row, "actor"),
                at,
                metadata(row, "evidence_refs")?
            ]))
        };
        let right: Vec<Value> = right.iter().map(theirs).collect::<io::Result<_>>()?;
        let names = ["previous_status", "status", "reason_code", "reason", "actor", "created_at"];
        let mut ours = Vec::new();
        for part in document["statuses"].as_array().into_iter().flatten() {
            let mut one = members(part, &names);
            let evidence = carried(part, "evidence")?;
            if let Some(one) = one.as_array_mut() {
                one.push(evidence);
            }
            ours.push(one);
        }
        verdict.same(&format!("transitions of session {session}"), &ours, &right);
        Ok(())
    }

    fn branches(
        &self,
        verdict: &mut Verdict,
        store: &Store,
        session: &str,
        branches: &[&Row],
        document: &Value,
    ) -> io::Result<()> {
        let parts: Vec<&Value> = document["branches"].as_array().into_iter().flatten().collect();
        verdict.same(&format!("count of branches of session {session}"), &parts.len(), &branches.len());
        let session = SessionId::parse(session).map_err(other)?;
        for row in branches {
            let id = row.text("id");
            let Some(part) = parts.iter().find(|part| part["id"] == id) else {
                verdict.differences.push(format!("branch {id} is missing"));
                continue;
            };
            let metadata = metadata(row, "node_metadata")?;
            let ours = members(part, &["user_id", "name", "progression_id", "system_msg_id", "created_at"]);
            let mut right: Vec<Value> =
                ["user", "name", "progression_id", "system_msg_id"].map(|name| row.value(name).clone()).into();
            right.push(seconds(row.value("created_at")));
            verdict.same(&format!("branch {id}"), &ours, &Value::Array(right));
            verdict.same(&format!("metadata of branch {id}"), &carried(part, "node_metadata")?, &metadata);
            let forked = json!([part["forked"]["parent_branch_id"], part["forked"]["at_ord"]]);
            let right = json!([metadata["parent_branch_id"], metadata["forked_at_ord"]]);
            verdict.same(&format!("fork of branch {id}"), &forked, &right);
            let system = row.value("system_msg_id").as_str();
            let mut right: Vec<String> = system.into_iter().map(str::to_owned).collect();
            for id in ids(self.progressions.get(row.text("progression_id")))? {
                if self.messages.contains_key(id.as_str()) && Some(id.as_str()) != system && !right.contains(&id) {
                    right.push(id);
                }
            }
            let items = store.sessions().items(&session).on(BranchRef::Text(id.to_owned()));
            let items = items.latest(usize::MAX, HistoryView::Full).map_err(other)?.items;
            let ours: Vec<String> = items.iter().map(|item| item.id.to_string()).collect();
            verdict.same(&format!("history of branch {id}"), &ours, &right);
        }
        Ok(())
    }

    fn progressions(&self, verdict: &mut Verdict, session: &Row, branches: &[&Row], document: &Value) {
        let named = std::iter::once(session).chain(branches.iter().copied()).map(|row| row.text("progression_id"));
        let right: BTreeMap<&str, Value> = named
            .filter_map(|id| self.progressions.get(id).map(|row| (id, seconds(row.value("created_at")))))
            .collect();
        let parts = document["progressions"].as_array().into_iter().flatten();
        let ours: BTreeMap<&str, Value> =
            parts.filter_map(|part| Some((part["id"].as_str()?, part["created_at"].clone()))).collect();
        verdict.same(&format!("progressions of session {}", session.text("id")), &ours, &right);
    }

    fn messages(&self, verdict: &mut Verdict, session: &str, order: &[String], document: &Value) -> io::Result<()> {
        let mut parts: Vec<&Value> = document["messages"].as_array().into_iter().flatten().collect();
        parts.sort_by_key(|part| part["ord"].as_u64());
        let ours: Vec<&str> = parts.iter().filter_map(|part| part["id"].as_str()).collect();
        verdict.same(&format!("messages of session {session}"), &ours, &order.iter().map(String::as_str).collect());
        for part in parts {
            let id = part["id"].as_str().unwrap_or_default();
            let Some(row) = self.messages.get(id) else { continue };
            let class = row.value("lion_class").as_i64().and_then(|class| self.classes.get(&class).copied());
            let class = class.filter(|class| *class != "__unknown__");
            let ours = members(part, &["role", "sender", "recipient", "channel", "lion_class", "created_at"]);
            let mut right: Vec<Value> =
                ["role", "sender", "recipient", "channel"].map(|name| row.value(name).clone()).into();
            right.extend([class.into(), seconds(row.value("created_at"))]);
            verdict.same(&format!("message {id}"), &ours, &Value::Array(right));
            let metadata = metadata(row, "node_metadata")?;
            verdict.same(&format!("metadata of message {id}"), &carried(part, "node_metadata")?, &metadata);
            verdict.same(&format!("content of message {id}"), &carried(part, "content")?, &row.json("content")?);
            let numbers = |part: &Value| part.as_f64().map(|number| narrow(number).to_bits());
            let ours: Option<Vec<_>> = part["embedding"].as_array().map(|all| all.iter().map(numbers).collect());
            let bytes: Option<Vec<u8>> = Some(row.value("embedding")).filter(|value| value.is_array()).map(bytes_of);
            let right = bytes.map(|bytes| {
                bytes.chunks(4).map(|four| Some(u32::from_le_bytes(four.try_into().ok()?))).collect::<Vec<_>>()
            });
            verdict.same(&format!("embedding of message {id}"), &ours, &right);
        }
        Ok(())
    }
}

fn bytes_of(value: &Value) -> Vec<u8> {
    let number = |value: &Value| value.as_u64().and_then(|number| u8::try_from(number).ok());
    value.as_array().into_iter().flatten().filter_map(number).collect()
}

/// Converts a number to the precision of an embedding.
fn narrow(number: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation)]
    let narrow = number as f32;
    narrow
}

/// Compares every value of Skillet's rows with the items of the sessions.
pub(super) fn skillet(verdict: &mut Verdict, store: &Store, rows: &Rows) -> io::Result<()> {
    let mut right: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for row in &rows["session_items"] {
        right.entry((row.text("user_id"), row.text("session_name"))).or_default().push(row);
    }
    let page = Page::new(limits::PAGE_MAX, None);
    let listed = store.sessions().list(&SessionFilter::default(), &page).map_err(other)?.sessions;
    let key = |session: &duolog::sessions::SessionSummary| {
        (session.user_id.clone().unwrap_or_default(), session.name.clone().unwrap_or_default())
    };
    let ours: BTreeSet<(String, String)> = listed.iter().map(key).collect();
    let theirs = right.keys().map(|(user, name)| ((*user).to_owned(), (*name).to_owned())).collect();
    verdict.same("users and names of sessions", &ours, &theirs);
    for session in &listed {
        let (user, name) = key(session);
        let mut theirs = right.get(&(user.as_str(), name.as_str())).cloned().unwrap_or_default();
        theirs.sort_by_key(|row| (row.value("created_at").as_i64(), row.value("id").as_i64()));
        let document = exported(store, session.id.as_str())?;
        let items = store.sessions().items(&session.id).latest(usize::MAX, HistoryView::Full).map_err(other)?.items;
        let made: BTreeMap<&str, &Value> = document["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|part| Some((part["id"].as_str()?, &part["created_at"])))
            .collect();
        let number = |id: &str| id.rsplit('-').next().unwrap_or_default().to_owned();
        let ours: Vec<Value> = items
            .iter()
            .map(|item| json!([number(item.id.as_str()), made.get(item.id.as_str()), item.content]))
            .collect();
        let at = |row: &&Row| {
            let millis = row.value("created_at").as_i64().unwrap_or_default();
            Timestamp::from_micros(millis.saturating_mul(1000)).to_string()
        };
        let theirs: Vec<Value> =
            theirs.iter().map(|row| json!([row.value("id").to_string(), at(row), row.text("item_json")])).collect();
        verdict.same(&format!("items of {user} in {name}"), &ours, &theirs);
    }
    Ok(())
}
