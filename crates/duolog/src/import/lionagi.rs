//! Importing from lionagi: sessions, branches, messages, and progressions as arrays of ids.

mod unplaced;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use duolog_state::Foreign;
use duolog_state::owned::branches::{BranchRow, ForkPoint};
use duolog_state::owned::messages::{Content, MessageRow};
use duolog_state::owned::progressions::ProgressionRow;
use duolog_state::owned::sessions::SessionRow;
use duolog_state::owned::status_transitions::StatusTransitionRow;
use duolog_types::{BranchId, HomeId, MessageId, ProgressionId, SessionId, SourceKind};

use super::{Mapped, MappedItem, MappedMessage, bad, from_seconds, said};
use crate::error::Result;
use crate::runs::rules::member;
use crate::sessions::seen_in;

/// A row of `sessions`: the columns that have an equivalent.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct SessionSource {
    pub id: String,
    pub created_at: f64,
    pub updated_at: Option<f64>,
    pub started_at: Option<f64>,
    pub ended_at: Option<f64>,
    pub user: Option<String>,
    pub name: Option<String>,
    pub status: Option<String>,
    pub agent_name: Option<String>,
    pub invocation_kind: Option<String>,
    pub playbook_name: Option<String>,
    pub show_topic: Option<String>,
    pub show_play_name: Option<String>,
    pub artifacts_path: Option<String>,
    pub node_metadata: Option<String>,
    pub first_msg_id: Option<String>,
    pub last_msg_id: Option<String>,
    pub progression_id: Option<String>,
    /// The time at which that progression was created.
    pub progression_created_at: Option<f64>,
    /// The ids of that progression.
    pub collection: Vec<String>,
}

/// A row of `branches` with the ids of its progression.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct BranchSource {
    pub id: String,
    pub created_at: f64,
    pub user: Option<String>,
    pub name: Option<String>,
    pub node_metadata: Option<String>,
    pub progression_id: String,
    pub progression_created_at: Option<f64>,
    pub system_msg_id: Option<String>,
    pub collection: Vec<String>,
}

/// A row of `messages` with the name of its class.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct MessageSource {
    pub created_at: f64,
    pub node_metadata: Option<String>,
    pub content: Option<String>,
    pub embedding: Option<Vec<u8>>,
    pub sender: Option<String>,
    pub recipient: Option<String>,
    pub channel: Option<String>,
    pub role: String,
    pub class: Option<String>,
}

/// A row of `status_transitions`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct StatusSource {
    pub previous_status: Option<String>,
    pub status: String,
    pub reason_code: Option<String>,
    pub reason: Option<String>,
    pub evidence: Option<String>,
    pub actor: Option<String>,
    pub created_at: f64,
}

/// A session with all of its rows; branches are in the order of creation.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Source {
    pub session: SessionSource,
    pub branches: Vec<BranchSource>,
    pub messages: BTreeMap<String, MessageSource>,
    pub statuses: Vec<StatusSource>,
}

/// The class of a message without one.
const UNKNOWN_CLASS: &str = "__unknown__";

/// A converted branch: its items and its progression.
struct Held {
    head: ProgressionRow,
    ids: Vec<MessageId>,
}

/// Converts one session.
///
/// A fork shares the items that it has in common with its parent. An id without a row is left out, as in lionagi. A
/// message that only a branch refers to belongs to the session too.
pub fn map(source: Source) -> Result<Mapped, String> {
    let mut mapping = Mapping::of(source.messages)?;
    let SessionSource { created_at, progression_id, progression_created_at, collection, .. } = source.session.clone();
    let ends = [source.session.first_msg_id.clone(), source.session.last_msg_id.clone()];
    let at = from_seconds(progression_created_at.unwrap_or(created_at));
    let shared = source.branches.iter().any(|branch| Some(&branch.progression_id) == progression_id.as_ref());
    let pool = match &progression_id {
        Some(id) if !shared => parsed(id, ProgressionId::parse)?,
        _ => ProgressionId::new(),
    };
    for id in &collection {
        mapping.pool(id);
    }
    let session = session_of(source.session, &pool)?;
    let (mut branches, mut progressions, mut items) = (Vec::new(), Vec::new(), Vec::new());
    progressions.push(ProgressionRow { id: pool, ..ProgressionRow::new(None, at) });
    let mut held: BTreeMap<BranchId, Held> = BTreeMap::new();
    for branch in source.branches {
        let (row, one) = mapping.branch(branch, &session.id, &held, branches.is_empty())?;
        let own = one.ids.iter().enumerate().skip(usize::try_from(one.head.base_ord).unwrap_or(usize::MAX));
        items.extend(own.map(|(ord, message)| MappedItem {
            progression: one.head.id.clone(),
            ord: ord as u64,
            message: message.clone(),
        }));
        progressions.push(one.head.clone());
        held.insert(row.id.clone(), one);
        branches.push(row);
    }
    // Parents come first; the pool stays first.
    progressions[1..].sort_by(|a, b| (a.base_ord, &a.id).cmp(&(b.base_ord, &b.id)));
    let statuses: Result<Vec<_>, String> =
        source.statuses.into_iter().map(|status| status_of(status, &session.id)).collect();
    let Mapping { messages, order, mut left_out, .. } = mapping;
    let mut messages = messages;
    let pooled: Vec<MappedMessage> = order.iter().filter_map(|id| messages.remove(id)).collect();
    let mut session = session;
    session.first_msg_id = order.first().map(ToString::to_string);
    session.last_msg_id = order.last().map(ToString::to_string);
    // These follow from the order; a difference is noted.
    let ours = [("first_msg_id", &session.first_msg_id), ("last_msg_id", &session.last_msg_id)];
    for ((name, ours), theirs) in ours.into_iter().zip(&ends).filter(|((_, ours), theirs)| *ours != *theirs) {
        let shown = |id: &Option<String>| id.clone().unwrap_or_else(|| "none".to_owned());
        left_out.push(format!("session {}: {name} is {}, imported as {}", session.id, shown(theirs), shown(ours)));
    }
    Ok(Mapped { session, statuses: statuses?, progressions, messages: pooled, items, branches, left_out })
}

struct Mapping {
    messages: BTreeMap<MessageId, MappedMessage>,
    /// The messages of the session, each once.
    order: Vec<MessageId>,
    pooled: BTreeSet<MessageId>,
    left_out: Vec<String>,
}

impl Mapping {
    fn of(sources: BTreeMap<String, MessageSource>) -> Result<Self, String> {
        let (mut messages, mut left_out) = (BTreeMap::new(), Vec::new());
        for (id, source) in sources {
            let id = parsed(&id, MessageId::parse)?;
            match message_of(&id, source) {
                Ok(message) => drop(messages.insert(id, message)),
                Err(why) => left_out.push(format!("message {id}: {why}")),
            }
        }
        Ok(Self { messages, order: Vec::new(), pooled: BTreeSet::new(), left_out })
    }

    /// Returns the message of an id that has a row, and adds it to the pool.
    fn pool(&mut self, id: &str) -> Option<MessageId> {
        let Some(id) = MessageId::parse(id).ok().filter(|id| self.messages.contains_key(id)) else {
            self.left_out.push(format!("{id} is referred to and does not exist"));
            return None;
        };
        if self.pooled.insert(id.clone()) {
            self.order.push(id.clone());
        }
        Some(id)
    }

    fn branch(
        &mut self,
        source: BranchSource,
        session: &SessionId,
        known: &BTreeMap<BranchId, Held>,
        is_default: bool,
    ) -> Result<(BranchRow, Held), String> {
        let id = parsed(&source.id, BranchId::parse)?;
        let metadata = said(source.node_metadata);
        let fork = metadata.as_deref().and_then(fork_of);
        if fork.is_none() && metadata.as_deref().is_some_and(|text| text.contains("\"parent_branch_id\"")) {
            self.left_out.push(format!("branch {id}: its parent_branch_id and forked_at_ord cannot be read"));
        }
        let (mut ids, mut seen, mut at) = (Vec::new(), BTreeSet::new(), None);
        for (place, text) in source.collection.iter().enumerate() {
            if fork.as_ref().is_some_and(|(_, forked_at)| *forked_at == place as u64) {
                at = Some(ids.len());
            }
            if let Some(message) = self.pool(text).filter(|message| seen.insert(message.clone())) {
                ids.push(message);
            }
        }
        let system_msg_id = source.system_msg_id.and_then(|system| self.pool(&system));
        let created_at = from_seconds(source.created_at);
        let mut head = ProgressionRow {
            id: parsed(&source.progression_id, ProgressionId::parse)?,
            ..ProgressionRow::new(None, source.progression_created_at.map_or(created_at, from_seconds))
        };
        let mut forked = None;
        if let Some((parent_id, forked_at)) = fork {
            let at = at.unwrap_or(ids.len());
            match known.get(&parent_id) {
                // It shares only the items that it has in common.
                Some(parent)
                    if forked_at <= source.collection.len() as u64 && parent.ids.get(..at) == ids.get(..at) =>
                {
                    forked = Some(ForkPoint { parent: parent_id, at_ord: at as u64, at_seq: 0 });
                    if at > 0 {
                        head.parent_id = Some(holder(known, &parent.head, at as u64));
                        head.base_ord = at as u64;
                    }
                }
                _ => self.left_out.push(format!("branch {id} does not begin like its parent {parent_id}")),
            }
        }
        head.end = ids.len() as u64;
        let row = BranchRow {
            id,
            created_at,
            node_metadata: metadata,
            user_id: source.user,
            name: source.name,
            session_id: session.clone(),
            progression_id: head.id.clone(),
            system_msg_id,
            forked,
            is_default,
        };
        Ok((row, Held { head, ids }))
    }
}

/// Returns the nearest progression that has the item before an ordinal.
fn holder(known: &BTreeMap<BranchId, Held>, head: &ProgressionRow, at: u64) -> ProgressionId {
    let mut head = head;
    while head.base_ord >= at {
        let parent = known.values().find(|one| Some(&one.head.id) == head.parent_id.as_ref());
        let Some(parent) = parent else { break };
        head = &parent.head;
    }
    head.id.clone()
}

/// Returns the parent and fork point in a branch's metadata.
fn fork_of(metadata: &str) -> Option<(BranchId, u64)> {
    let parent: String = serde_json::from_str(member(metadata, "parent_branch_id")?).ok()?;
    Some((BranchId::parse(&parent).ok()?, member(metadata, "forked_at_ord")?.parse().ok()?))
}

fn parsed<T>(text: &str, parse: fn(&str) -> Result<T, duolog_types::BadId>) -> Result<T, String> {
    parse(text).map_err(|error| error.to_string())
}

fn word<T: std::str::FromStr<Err: ToString>>(text: Option<String>) -> Result<Option<T>, String> {
    text.map(|text| text.parse().map_err(|error: T::Err| error.to_string())).transpose()
}

fn session_of(source: SessionSource, pool: &ProgressionId) -> Result<SessionRow, String> {
    let id = parsed(&source.id, SessionId::parse)?;
    let mut row = SessionRow::new(id, HomeId::new(), "", "", from_seconds(source.created_at));
    row.user_id = source.user;
    row.name = source.name;
    row.source_kind = SourceKind::ImportedLionagi;
    row.status = word(source.status)?;
    row.started_at = source.started_at.map(from_seconds);
    row.updated_at = from_seconds(source.updated_at.unwrap_or(source.created_at));
    row.ended_at = source.ended_at.map(from_seconds);
    row.agent_name = source.agent_name;
    row.invocation_kind = word(source.invocation_kind)?;
    row.playbook_name = source.playbook_name;
    row.show_topic = source.show_topic;
    row.show_play_name = source.show_play_name;
    row.artifacts_path = source.artifacts_path;
    row.node_metadata = said(source.node_metadata);
    row.progression_id = Some(pool.to_string());
    Ok(row)
}

fn message_of(id: &MessageId, source: MessageSource) -> Result<MappedMessage, String> {
    let content = source.content.ok_or_else(|| "it has no content".to_owned())?;
    let seen = seen_in(&content).map_err(|fault| format!("{fault:?}"))?;
    let compactable = seen.compactable && source.role != "user";
    let row = MessageRow {
        node_metadata: said(source.node_metadata),
        embedding: source.embedding,
        sender: source.sender,
        recipient: source.recipient,
        channel: source.channel,
        compactable,
        ..MessageRow::new(id.clone(), &source.role, Content::Text(content), from_seconds(source.created_at))
    };
    Ok(MappedMessage { row, class: source.class.filter(|class| class != UNKNOWN_CLASS) })
}

fn status_of(source: StatusSource, session: &SessionId) -> Result<StatusTransitionRow, String> {
    Ok(StatusTransitionRow {
        session_id: session.clone(),
        previous_status: word(source.previous_status)?,
        status: source.status.parse().map_err(|error: duolog_types::UnknownWord| error.to_string())?,
        reason_code: source.reason_code.filter(|text| !text.is_empty()),
        reason: source.reason.filter(|text| !text.is_empty()),
        actor: source.actor.filter(|text| !text.is_empty()),
        evidence: said(source.evidence),
        created_at: from_seconds(source.created_at),
    })
}

/// Passes on every session of a lionagi store, in the order of creation. The file is not changed: a write-ahead log
/// that a crash left is applied to a copy, in a folder below `aside` that is removed afterwards.
pub fn read(path: &Path, aside: &Path, mut each: impl FnMut(Mapped) -> Result<()>) -> Result<()> {
    let source = Foreign::open(path, aside)?;
    for session in sessions(&source, path)? {
        let branches = branches(&source, path, &session.id)?;
        let mut ids: BTreeSet<&str> = session.collection.iter().map(String::as_str).collect();
        for branch in &branches {
            ids.extend(branch.collection.iter().chain(&branch.system_msg_id).map(String::as_str));
        }
        let mut messages = BTreeMap::new();
        for id in ids {
            if let Some(message) = message(&source, id)? {
                messages.insert(id.to_owned(), message);
            }
        }
        let statuses = statuses(&source, &session.id)?;
        let unplaced = unplaced::notes(&source, &session.id)?;
        let mut mapped = map(Source { session, branches, messages, statuses }).map_err(|why| bad(path, why))?;
        mapped.left_out.extend(unplaced);
        each(mapped)?;
    }
    Ok(())
}

/// Returns the ids of a progression.
fn collection(path: &Path, text: Option<String>) -> Result<Vec<String>> {
    text.map_or_else(|| Ok(Vec::new()), |text| serde_json::from_str(&text).map_err(|error| bad(path, error)))
}

fn sessions(source: &Foreign, path: &Path) -> Result<Vec<SessionSource>> {
    let sql = "SELECT s.id, s.created_at, s.updated_at, s.started_at, s.ended_at, s.user, s.name, s.status, s.agent_name, \
               s.invocation_kind, s.playbook_name, s.show_topic, s.show_play_name, s.artifacts_path, s.node_metadata, \
               s.progression_id, p.created_at, p.collection, s.first_msg_id, s.last_msg_id FROM sessions s LEFT JOIN progressions p ON p.id = s.progression_id \
               ORDER BY s.created_at, s.id";
    let mut found = Vec::new();
    source.each(sql, &[], &mut |row| {
        let session = SessionSource {
            id: row.get(0)?,
            created_at: row.get(1)?,
            updated_at: row.get(2)?,
            started_at: row.get(3)?,
            ended_at: row.get(4)?,
            user: row.get(5)?,
            name: row.get(6)?,
            status: row.get(7)?,
            agent_name: row.get(8)?,
            invocation_kind: row.get(9)?,
            playbook_name: row.get(10)?,
            show_topic: row.get(11)?,
            show_play_name: row.get(12)?,
            artifacts_path: row.get(13)?,
            node_metadata: row.get(14)?,
            progression_id: row.get(15)?,
            progression_created_at: row.get(16)?,
            first_msg_id: row.get(18)?,
            last_msg_id: row.get(19)?,
            collection: Vec::new(),
        };
        found.push((session, row.get::<Option<String>>(17)?));
        Ok(())
    })?;
    let all =
        found.into_iter().map(|(session, text)| Ok(SessionSource { collection: collection(path, text)?, ..session }));
    all.collect()
}

fn branches(source: &Foreign, path: &Path, session: &str) -> Result<Vec<BranchSource>> {
    let sql = "SELECT b.id, b.created_at, b.user, b.name, b.node_metadata, b.progression_id, b.system_msg_id, \
               p.created_at, p.collection \
               FROM branches b LEFT JOIN progressions p ON p.id = b.progression_id WHERE b.session_id = ?1 \
               ORDER BY b.created_at, b.id";
    let mut found = Vec::new();
    source.each(sql, &[session], &mut |row| {
        let branch = BranchSource {
            id: row.get(0)?,
            created_at: row.get(1)?,
            user: row.get(2)?,
            name: row.get(3)?,
            node_metadata: row.get(4)?,
            progression_id: row.get(5)?,
            system_msg_id: row.get(6)?,
            progression_created_at: row.get(7)?,
            collection: Vec::new(),
        };
        found.push((branch, row.get::<Option<String>>(8)?));
        Ok(())
    })?;
    found.into_iter().map(|(branch, text)| Ok(BranchSource { collection: collection(path, text)?, ..branch })).collect()
}

fn message(source: &Foreign, id: &str) -> Result<Option<MessageSource>> {
    let sql = "SELECT m.created_at, m.node_metadata, m.content, m.embedding, m.sender, m.recipient, m.channel, m.role, \
               t.lion_class FROM messages m LEFT JOIN message_types t ON t.type_id = m.lion_class WHERE m.id = ?1";
    let mut found = None;
    source.each(sql, &[id], &mut |row| {
        found = Some(MessageSource {
            created_at: row.get(0)?,
            node_metadata: row.get(1)?,
            content: row.get(2)?,
            embedding: row.get(3)?,
            sender: row.get(4)?,
            recipient: row.get(5)?,
            channel: row.get(6)?,
            role: row.get(7)?,
            class: row.get(8)?,
        });
        Ok(())
    })?;
    Ok(found)
}

fn statuses(source: &Foreign, session: &str) -> Result<Vec<StatusSource>> {
    let sql = "SELECT previous_status, status, reason_code, reason_summary, evidence_refs, actor, created_at \
               FROM status_transitions WHERE entity_type = 'session' AND entity_id = ?1 ORDER BY created_at, rowid";
    let mut found = Vec::new();
    source.each(sql, &[session], &mut |row| {
        found.push(StatusSource {
            previous_status: row.get(0)?,
            status: row.get(1)?,
            reason_code: row.get(2)?,
            reason: row.get(3)?,
            evidence: row.get(4)?,
            actor: row.get(5)?,
            created_at: row.get(6)?,
        });
        Ok(())
    })?;
    Ok(found)
}
