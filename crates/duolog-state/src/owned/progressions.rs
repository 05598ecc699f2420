//! `progressions`: sequences of messages that share their common prefix.
//!
//! A history is the parent's history below `base_ord`, then the progression's own items from there on. Its positions
//! are dense from 0. A parent is always the nearest progression that has the item before `base_ord`. So every step to a
//! parent passes an item, and a history sees items of a progression only through one of its children. Items that
//! another history sees are never deleted: a history that is truncated there continues in a new progression.

use duolog_types::{MessageId, ProgressionId, SessionId, Timestamp};

use super::{branches, inboxes, messages, pool_segments, progression_items};
use crate::engine::{Row, Tx};
use crate::error::{Error, Result};
use crate::params;

/// The number of items deleted at a time, so that memory use is bounded.
const DELETED: u32 = 256;

/// The columns of a progression `p` and the end of its history.
macro_rules! columns {
    () => {
        "p.id, p.created_at, p.session_id, p.parent_id, p.base_ord, COALESCE((SELECT i.ord + 1 \
         FROM progression_items i WHERE i.progression_id = p.id ORDER BY i.ord DESC LIMIT 1), p.base_ord)"
    };
}
pub(super) use columns;

/// A progression and the end of its history.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressionRow {
    /// Its id.
    pub id: ProgressionId,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its session. `None` for an inbox.
    pub session_id: Option<SessionId>,
    /// The progression with the items before its own.
    pub parent_id: Option<ProgressionId>,
    /// The position of its first own item.
    pub base_ord: u64,
    /// The end of its history: the number of items.
    pub end: u64,
}

impl ProgressionRow {
    /// Returns an empty progression.
    pub fn new(session: Option<&SessionId>, at: Timestamp) -> Self {
        let session_id = session.cloned();
        Self { id: ProgressionId::new(), created_at: at, session_id, parent_id: None, base_ord: 0, end: 0 }
    }

    /// Reads a progression whose columns begin at `first`.
    pub(super) fn read(row: &Row<'_>, first: usize) -> Result<Self> {
        Ok(Self {
            id: row.get(first)?,
            created_at: row.get(first + 1)?,
            session_id: row.get(first + 2)?,
            parent_id: row.get(first + 3)?,
            base_ord: row.get(first + 4)?,
            end: row.get(first + 5)?,
        })
    }
}

/// A segment of a history, in one progression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The progression that has it.
    pub progression: ProgressionId,
    /// Its first position.
    pub from: u64,
    /// The position after its last.
    pub to: u64,
}

/// Inserts a progression. `end` is not stored: it follows from the items.
pub fn insert(tx: &mut Tx<'_>, row: &ProgressionRow) -> Result<()> {
    let sql = "INSERT INTO progressions (id, created_at, session_id, parent_id, base_ord) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![&row.id, row.created_at, row.session_id.as_ref(), row.parent_id.as_ref(), row.base_ord];
    tx.execute(sql, values).map(drop)
}

/// Returns the progression with this id.
pub fn find(tx: &mut Tx<'_>, id: &ProgressionId) -> Result<Option<ProgressionRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM progressions p WHERE p.id = ?1");
    tx.find(sql, params![id], |row| ProgressionRow::read(row, 0))
}

/// Returns the progression with this id, which a row references. It is an error if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: &ProgressionId) -> Result<ProgressionRow> {
    find(tx, id)?.ok_or_else(|| missing(id))
}

/// Returns the error for a reference to a progression that does not exist.
pub(super) fn missing(id: &ProgressionId) -> Error {
    Error::Damaged {
        what: format!("progression {id}"),
        detail: "a row references it, but it does not exist".to_owned(),
    }
}

/// Returns the progressions of a session after this one, each after its parent.
pub fn of_session(
    tx: &mut Tx<'_>,
    session: &SessionId,
    after: Option<(u64, &ProgressionId)>,
    limit: u32,
) -> Result<Vec<ProgressionRow>> {
    // A parent has the item before, so its base is lower.
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM progressions p WHERE p.session_id = ?1 AND (p.base_ord, p.id) > (?2, ?3) ORDER BY p.base_ord, p.id LIMIT ?4"
    );
    let (base_ord, id) = after.map_or((0, ""), |(base_ord, id)| (base_ord, id.as_str()));
    tx.all(sql, params![session, base_ord, id, limit], |row| ProgressionRow::read(row, 0))
}

/// Appends a message to a history and returns its position. A message that the history has keeps its position.
///
/// `head` is updated. `fresh` tells that the message was just created, so that the search for it is skipped.
pub fn append(tx: &mut Tx<'_>, head: &mut ProgressionRow, message: &MessageId, fresh: Fresh) -> Result<u64> {
    if fresh == Fresh::No
        && let Some(ord) = place_of(tx, head, message)?
    {
        return Ok(ord);
    }
    let ord = head.end;
    progression_items::insert(tx, &head.id, ord, message)?;
    head.end += 1;
    Ok(ord)
}

/// Appends messages that were just created to a history and updates `head`.
pub fn append_new(tx: &mut Tx<'_>, head: &mut ProgressionRow, messages: &[MessageId]) -> Result<()> {
    progression_items::insert_all(tx, &head.id, head.end, messages)?;
    head.end += messages.len() as u64;
    Ok(())
}

/// Tells whether a message was just created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// It was created in this transaction, with a new id. No progression has it.
    Yes,
    /// A progression may have it.
    No,
}

/// Returns the segments of a range of a history, oldest first.
pub fn segments(tx: &mut Tx<'_>, head: &ProgressionRow, from: u64, to: u64) -> Result<Vec<Segment>> {
    let mut found = Vec::new();
    let (mut at, mut end) = (head.clone(), to.min(head.end));
    while end > from {
        if end > at.base_ord {
            found.push(Segment { progression: at.id.clone(), from: at.base_ord.max(from), to: end });
            end = at.base_ord;
        }
        let Some(parent) = at.parent_id.take().filter(|_| end > from) else { break };
        at = get(tx, &parent)?;
    }
    found.reverse();
    Ok(found)
}

/// Returns the position of a message in a history.
pub fn place_of(tx: &mut Tx<'_>, head: &ProgressionRow, message: &MessageId) -> Result<Option<u64>> {
    let places = progression_items::places(tx, message)?;
    if places.is_empty() {
        return Ok(None);
    }
    let (mut at, mut end) = (head.clone(), head.end);
    loop {
        let here = places.iter().find(|(progression, ord)| *progression == at.id && *ord < end);
        if let Some((_, ord)) = here {
            return Ok(Some(*ord));
        }
        let Some(parent) = at.parent_id.take() else { return Ok(None) };
        end = end.min(at.base_ord);
        at = get(tx, &parent)?;
    }
}

/// Creates a history with the first `at` items of another, without copying. `at` is at most that history's length.
pub fn fork(tx: &mut Tx<'_>, head: &ProgressionRow, at: u64, now: Timestamp) -> Result<ProgressionRow> {
    let parent_id = holder(tx, head, at)?;
    let row = ProgressionRow { parent_id, base_ord: at, end: at, ..ProgressionRow::new(head.session_id.as_ref(), now) };
    insert(tx, &row)?;
    Ok(row)
}

/// Truncates a branch's history to its first `to` items and returns the branch's progression afterwards.
///
/// No other history changes. Items and messages that no history sees any more are deleted. `pool` is the session's own
/// progression, for messages that are on no branch.
pub fn cut(
    tx: &mut Tx<'_>,
    head: &ProgressionRow,
    to: u64,
    pool: Option<&ProgressionId>,
    now: Timestamp,
) -> Result<ProgressionId> {
    if to >= head.end {
        return Ok(head.id.clone());
    }
    if is_shared_beyond(tx, &head.id, to.max(head.base_ord))? {
        let next = fork(tx, head, to, now)?;
        branches::follow(tx, &head.id, &next.id)?;
        collect(tx, &head.id, pool)?;
        return Ok(next.id);
    }
    drop_items(tx, &head.id, to.max(head.base_ord), pool)?;
    if to < head.base_ord {
        let parent = holder(tx, head, to)?;
        let sql = "UPDATE progressions SET parent_id = ?2, base_ord = ?3 WHERE id = ?1";
        tx.execute(sql, params![&head.id, parent.as_ref(), to])?;
        if let Some(before) = &head.parent_id {
            collect(tx, before, pool)?;
        }
    }
    Ok(head.id.clone())
}

/// Deletes the conversations of a session: branches, their inboxes, progressions, and messages that nothing else
/// references.
pub fn remove_of(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    let of_branches = "DELETE FROM compactions WHERE branch_id IN (SELECT id FROM branches WHERE session_id = ?1)";
    tx.execute(of_branches, params![session])?;
    inboxes::remove_of_branches(tx, session)?;
    tx.execute("DELETE FROM branches WHERE session_id = ?1", params![session])?;
    pool_segments::remove_of(tx, session)?;
    // A message in several progressions is deleted with the last of them.
    let mut after = String::new();
    loop {
        let sql = "SELECT p.id FROM progressions p WHERE p.session_id = ?1 AND p.id > ?2 AND EXISTS \
                   (SELECT 1 FROM progression_items i WHERE i.progression_id = p.id) ORDER BY p.id LIMIT ?3";
        let ids: Vec<ProgressionId> = tx.all(sql, params![session, &after, DELETED], |row| row.get(0))?;
        let Some(last) = ids.last() else { break };
        after = last.to_string();
        ids.iter().try_for_each(|id| drop_items(tx, id, 0, None))?;
    }
    tx.execute("DELETE FROM progressions WHERE session_id = ?1", params![session]).map(drop)
}

/// Deletes the progression of an inbox and the messages that nothing else references.
pub(super) fn remove_inbox(tx: &mut Tx<'_>, id: &ProgressionId) -> Result<()> {
    drop_items(tx, id, 0, None)?;
    tx.execute("DELETE FROM progressions WHERE id = ?1", params![id]).map(drop)
}

/// Returns the nearest progression with the item before a position of a history. `None` for position 0.
fn holder(tx: &mut Tx<'_>, head: &ProgressionRow, ord: u64) -> Result<Option<ProgressionId>> {
    if ord == 0 {
        return Ok(None);
    }
    let mut at = head.clone();
    while at.base_ord >= ord {
        let Some(parent) = at.parent_id.take() else { break };
        at = get(tx, &parent)?;
    }
    Ok(Some(at.id))
}

/// Returns true if another history sees items of a progression from a position on.
fn is_shared_beyond(tx: &mut Tx<'_>, id: &ProgressionId, ord: u64) -> Result<bool> {
    let sql = "SELECT 1 FROM progressions WHERE parent_id = ?1 AND base_ord > ?2 LIMIT 1";
    Ok(tx.find(sql, params![id, ord], |_| Ok(()))?.is_some())
}

/// Deletes the items that no child sees, from progressions that are the end of no branch; deletes those without
/// children.
fn collect(tx: &mut Tx<'_>, id: &ProgressionId, pool: Option<&ProgressionId>) -> Result<()> {
    let mut id = id.clone();
    while !branches::is_at(tx, &id)? {
        let sql = "SELECT base_ord FROM progressions WHERE parent_id = ?1 ORDER BY base_ord DESC LIMIT 1";
        if let Some(seen) = tx.find(sql, params![&id], |row| row.get(0))? {
            return drop_items(tx, &id, seen, pool);
        }
        drop_items(tx, &id, 0, pool)?;
        let parent = find(tx, &id)?.and_then(|row| row.parent_id);
        tx.execute("DELETE FROM progressions WHERE id = ?1", params![&id])?;
        let Some(parent) = parent else { return Ok(()) };
        id = parent;
    }
    Ok(())
}

/// Deletes the items of a progression from a position on, and the messages that nothing else references.
fn drop_items(tx: &mut Tx<'_>, id: &ProgressionId, from: u64, pool: Option<&ProgressionId>) -> Result<()> {
    loop {
        let mut deleted = progression_items::tail(tx, id, from, DELETED)?;
        deleted.reverse();
        let Some((lowest, _)) = deleted.first() else { return Ok(()) };
        let lowest = *lowest;
        let before = pool.map_or(Ok(None), |_| pool_segments::beyond(tx, id, lowest))?;
        progression_items::delete_from(tx, id, lowest)?;
        let ids: Vec<MessageId> = deleted.iter().map(|(_, message)| message.clone()).collect();
        if messages::remove_unreferenced(tx, &ids, pool)? == ids.len() {
            deleted.clear();
        } else {
            let left = messages::existing(tx, &ids)?;
            deleted.retain(|(_, message)| left.contains(message));
        }
        if let Some((pool, before)) = pool.zip(before) {
            pool_segments::follow(tx, &before, lowest, (pool, &deleted))?;
        }
    }
}
