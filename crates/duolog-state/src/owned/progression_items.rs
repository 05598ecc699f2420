//! `progression_items`: the messages of a progression by position. Items that a progression sees through its parent are
//! not here.

use std::sync::LazyLock;

use duolog_types::{MessageId, ProgressionId};

use super::messages::{Content, ContentRef};
use crate::engine::{Row, Sql, Tx, Value};
use crate::error::Result;
use crate::params;

/// An item of a conversation. An item that cannot be read is reported in `content` and does not hide others.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemRow {
    /// Its position.
    pub ord: u64,
    /// The message.
    pub message_id: MessageId,
    /// Its content, or the reason why it cannot be read.
    pub content: Result<Content, String>,
}

impl ItemRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let content = Content::read(row, 2).map_err(|error| error.to_string());
        Ok(Self { ord: row.get(0)?, message_id: row.get(1)?, content })
    }
}

/// An item, borrowed from the driver.
#[derive(Debug)]
pub struct ItemRef<'r> {
    /// Its position.
    pub ord: u64,
    /// The message.
    pub message_id: &'r str,
    /// Its content, or the reason why it cannot be read.
    pub content: Result<ContentRef<'r>, String>,
}

/// Inserts a message at a position. A position that is taken, or a message that is in the progression, is a
/// unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, progression: &ProgressionId, ord: u64, message: &MessageId) -> Result<()> {
    let sql = "INSERT INTO progression_items (progression_id, ord, message_id) VALUES (?1, ?2, ?3)";
    tx.execute(sql, params![progression, ord, message]).map(drop)
}

/// The rows per INSERT: fewer statements, and fewer round trips on a server.
const ROWS: usize = 32;

static INSERT_MANY: LazyLock<String> = LazyLock::new(|| {
    let rows: Vec<String> = (1..=ROWS).map(|row| format!("(?1, ?{}, ?{})", 2 * row, 2 * row + 1)).collect();
    format!("INSERT INTO progression_items (progression_id, ord, message_id) VALUES {}", rows.join(", "))
});

/// Inserts messages at consecutive positions, from `from` on.
pub fn insert_all(tx: &mut Tx<'_>, progression: &ProgressionId, from: u64, messages: &[MessageId]) -> Result<()> {
    let (many, rest) = messages.as_chunks::<ROWS>();
    let mut ord = from;
    for chunk in many {
        let places = chunk.iter().zip(ord..).flat_map(|(message, ord)| [ord.into(), message.into()]);
        let values: Vec<Value<'_>> = std::iter::once(progression.into()).chain(places).collect();
        tx.execute(&*INSERT_MANY, &values)?;
        ord += ROWS as u64;
    }
    rest.iter().zip(ord..).try_for_each(|(message, ord)| insert(tx, progression, ord, message))
}

/// Appends a message to a progression without a parent and returns its position. A message that is there keeps its
/// position.
pub fn push(tx: &mut Tx<'_>, progression: &ProgressionId, message: &MessageId) -> Result<u64> {
    if let Some(ord) = ord_of(tx, progression, message)? {
        return Ok(ord);
    }
    let sql = "INSERT INTO progression_items (progression_id, ord, message_id) \
               SELECT ?1, COALESCE(MAX(ord) + 1, 0), ?2 FROM progression_items WHERE progression_id = ?1 RETURNING ord";
    Ok(tx.find(sql, params![progression, message], |row| row.get(0))?.unwrap_or_default())
}

/// Returns the position of a message in a progression itself.
pub fn ord_of(tx: &mut Tx<'_>, progression: &ProgressionId, message: &MessageId) -> Result<Option<u64>> {
    let sql = "SELECT ord FROM progression_items WHERE message_id = ?1 AND progression_id = ?2";
    tx.find(sql, params![message, progression], |row| row.get(0))
}

/// Returns the messages from `from` to before `to`, in order.
pub fn ids(tx: &mut Tx<'_>, progression: &ProgressionId, from: u64, to: u64) -> Result<Vec<MessageId>> {
    let sql = "SELECT message_id FROM progression_items WHERE progression_id = ?1 AND ord >= ?2 AND ord < ?3 \
               ORDER BY ord";
    tx.all(sql, params![progression, from, to], |row| row.get(0))
}

/// Returns the items from `from` to before `to` with their contents, newest first.
pub fn newest(tx: &mut Tx<'_>, progression: &ProgressionId, from: u64, to: u64, limit: u32) -> Result<Vec<ItemRow>> {
    tx.all(NEWEST, params![progression, from, to, limit], ItemRow::read)
}

/// Calls `each` for the items from `from` to before `to`, in order.
pub fn each(
    tx: &mut Tx<'_>,
    progression: &ProgressionId,
    (from, to): (u64, u64),
    each: &mut dyn FnMut(ItemRef<'_>) -> Result<()>,
) -> Result<()> {
    let (mut at, mut by_rowid) = (from, true);
    while at < to {
        let (mut seen, mut found) = (0, 0);
        let sqlite = if by_rowid { SOME_BY_ROWID } else { SOME };
        tx.query_each(Sql::each(sqlite, ALL), params![progression, at, to], &mut |row| {
            let near = row.text_bytes(2).map(|text| text.map(ContentRef::Text));
            found += u32::from(matches!(near, Ok(Some(_))));
            let content = near.and_then(|near| near.map_or_else(|| ContentRef::read(row, 3), Ok));
            let content = content.map_err(|error| error.to_string());
            let ord = row.get(0)?;
            (seen, at) = (seen + 1, ord + 1);
            each(ItemRef { ord, message_id: row.text(1)?.unwrap_or_default(), content })
        })?;
        if seen == 0 {
            break;
        }
        // If most were not found by rowid, look up the next ones by id only.
        by_rowid = !by_rowid || found * 2 >= seen;
    }
    Ok(())
}

macro_rules! each {
    ($near:literal, $joins:literal) => {
        concat!(
            "SELECT i.ord, i.message_id, ",
            $near,
            ", m.content, m.content_blob, m.home_id FROM progression_items i ",
            $joins,
            " WHERE i.progression_id = ?1 AND i.ord >= ?2 AND i.ord < ?3 ORDER BY i.ord"
        )
    };
}

/// The statement of [`each`] on a server: all rows in one query.
const ALL: &str = each!("NULL", "LEFT JOIN messages m ON m.id = i.message_id");

const SOME: &str = concat!(each!("NULL", "LEFT JOIN messages m ON m.id = i.message_id"), " LIMIT 256");

/// Messages that were inserted together have consecutive rowids. So each message is first looked up at the rowid after
/// the previous one, and by its id only if another message is there.
const SOME_BY_ROWID: &str = concat!(
    each!(
        "near.content",
        "LEFT JOIN messages near ON near.rowid = i.ord + (\
           SELECT f.rowid - ?2 FROM progression_items p JOIN messages f ON f.id = p.message_id \
           WHERE p.progression_id = ?1 AND p.ord = ?2) AND near.id = i.message_id AND near.content_blob IS NULL \
         LEFT JOIN messages m ON m.id = CASE WHEN near.id IS NULL THEN i.message_id END"
    ),
    " LIMIT 256"
);

/// Returns the items from `from` to before `to` with their contents, oldest first.
pub fn oldest(tx: &mut Tx<'_>, progression: &ProgressionId, from: u64, to: u64, limit: u32) -> Result<Vec<ItemRow>> {
    tx.all(OLDEST, params![progression, from, to, limit], ItemRow::read)
}

const OLDEST: &str = "SELECT i.ord, i.message_id, m.content, m.content_blob, m.home_id FROM progression_items i \
                      LEFT JOIN messages m ON m.id = i.message_id \
                      WHERE i.progression_id = ?1 AND i.ord >= ?2 AND i.ord < ?3 ORDER BY i.ord LIMIT ?4";

const NEWEST: &str = "SELECT i.ord, i.message_id, m.content, m.content_blob, m.home_id FROM progression_items i \
                      LEFT JOIN messages m ON m.id = i.message_id \
                      WHERE i.progression_id = ?1 AND i.ord >= ?2 AND i.ord < ?3 ORDER BY i.ord DESC LIMIT ?4";

/// Returns the engine's plan for [`newest`], a line per step, for a test that it uses its index.
pub fn explain_newest(tx: &mut Tx<'_>, progression: &ProgressionId) -> Result<Vec<String>> {
    let (sqlite, postgres) = (format!("EXPLAIN QUERY PLAN {NEWEST}"), format!("EXPLAIN (COSTS OFF) {NEWEST}"));
    tx.all(Sql::each(&sqlite, &postgres), params![progression, 0_u64, 9_u64, 9_u32], |row| row.get(row.width() - 1))
}

/// Returns the messages from a position on, newest first.
pub fn tail(tx: &mut Tx<'_>, progression: &ProgressionId, from: u64, limit: u32) -> Result<Vec<(u64, MessageId)>> {
    let sql = "SELECT ord, message_id FROM progression_items WHERE progression_id = ?1 AND ord >= ?2 \
               ORDER BY ord DESC LIMIT ?3";
    tx.all(sql, params![progression, from, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Deletes the items from a position on. Returns how many.
pub fn delete_from(tx: &mut Tx<'_>, progression: &ProgressionId, ord: u64) -> Result<usize> {
    tx.execute("DELETE FROM progression_items WHERE progression_id = ?1 AND ord >= ?2", params![progression, ord])
}

/// Returns the number of items from `from` to before `to` that a summary may replace.
pub fn count_compactable(tx: &mut Tx<'_>, progression: &ProgressionId, from: u64, to: u64) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM progression_items i JOIN messages m ON m.id = i.message_id \
               WHERE i.progression_id = ?1 AND i.ord >= ?2 AND i.ord < ?3 AND m.compactable = 1";
    Ok(tx.find(sql, params![progression, from, to], |row| row.get(0))?.unwrap_or_default())
}

/// Returns the positions and messages of a progression itself from a position on, in order.
pub fn from(tx: &mut Tx<'_>, progression: &ProgressionId, ord: u64, limit: u32) -> Result<Vec<(u64, MessageId)>> {
    let sql = "SELECT ord, message_id FROM progression_items WHERE progression_id = ?1 AND ord >= ?2 \
               ORDER BY ord LIMIT ?3";
    tx.all(sql, params![progression, ord, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns every position of a message.
pub fn places(tx: &mut Tx<'_>, message: &MessageId) -> Result<Vec<(ProgressionId, u64)>> {
    let sql = "SELECT progression_id, ord FROM progression_items WHERE message_id = ?1";
    tx.all(sql, params![message], |row| Ok((row.get(0)?, row.get(1)?)))
}
