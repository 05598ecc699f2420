//! `pool_segments`: the order in which messages entered a session, as segments of its progressions.
//!
//! Every message of a session's progressions is in its pool once, at its first position. The last segment may be open:
//! then it grows with its progression.

use duolog_types::{MessageId, ProgressionId, SessionId};

use super::progression_items;
use super::progressions::{self, Segment};
use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

macro_rules! columns {
    ($of:literal) => {
        concat!($of, ".ord, ", $of, ".progression_id, ", $of, ".from_ord, ", $of, ".to_ord")
    };
}
pub(super) use columns;

/// A segment of a session's pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSegmentRow {
    /// The position of its first message in the pool.
    pub ord: u64,
    /// The progression that has it.
    pub progression_id: ProgressionId,
    /// Its first position there.
    pub from_ord: u64,
    /// The position after its last. `None` if it grows with the progression.
    pub to_ord: Option<u64>,
}

impl PoolSegmentRow {
    /// Reads a segment whose columns begin at `first`.
    pub(super) fn read(row: &Row<'_>, first: usize) -> Result<Self> {
        Ok(Self {
            ord: row.get(first)?,
            progression_id: row.get(first + 1)?,
            from_ord: row.get(first + 2)?,
            to_ord: row.get(first + 3)?,
        })
    }

    /// Returns true if it is open and grows with this progression.
    pub fn grows_with(&self, progression: &ProgressionId) -> bool {
        self.to_ord.is_none() && self.progression_id == *progression
    }

    /// Returns true if a position of its progression is in it.
    fn contains(&self, ord: u64) -> bool {
        self.from_ord <= ord && self.to_ord.is_none_or(|to| ord < to)
    }
}

/// Inserts a segment at the end.
pub fn insert(tx: &mut Tx<'_>, session: &SessionId, row: &PoolSegmentRow) -> Result<()> {
    let sql =
        "INSERT INTO pool_segments (session_id, ord, progression_id, from_ord, to_ord) VALUES (?1, ?2, ?3, ?4, ?5)";
    tx.execute(sql, params![session, row.ord, &row.progression_id, row.from_ord, row.to_ord]).map(drop)
}

/// Ends a segment before a position of its progression.
pub fn end(tx: &mut Tx<'_>, session: &SessionId, ord: u64, to: u64) -> Result<()> {
    let sql = "UPDATE pool_segments SET to_ord = ?3 WHERE session_id = ?1 AND ord = ?2";
    tx.execute(sql, params![session, ord, to]).map(drop)
}

/// Returns the last segment.
pub fn last(tx: &mut Tx<'_>, session: &SessionId) -> Result<Option<PoolSegmentRow>> {
    let sql =
        concat!("SELECT ", columns!("s"), " FROM pool_segments s WHERE s.session_id = ?1 ORDER BY s.ord DESC LIMIT 1");
    tx.find(sql, params![session], |row| PoolSegmentRow::read(row, 0))
}

/// Returns the segments of a session after the one at this position, in order.
pub fn list(tx: &mut Tx<'_>, session: &SessionId, after: Option<u64>, limit: u32) -> Result<Vec<PoolSegmentRow>> {
    let sql = concat!(
        "SELECT ",
        columns!("s"),
        " FROM pool_segments s WHERE s.session_id = ?1 AND s.ord >= ?2 ORDER BY s.ord LIMIT ?3"
    );
    let from = after.map_or(0, |after| after.saturating_add(1));
    tx.all(sql, params![session, from, limit], |row| PoolSegmentRow::read(row, 0))
}

/// Returns all segments of a session with their ends, for reading their items.
pub fn segments(tx: &mut Tx<'_>, session: &SessionId) -> Result<Vec<Segment>> {
    let rows = list(tx, session, None, u32::MAX)?;
    let segment = |row: PoolSegmentRow| {
        let to = row.to_ord.map_or_else(|| progressions::get(tx, &row.progression_id).map(|row| row.end), Ok)?;
        Ok(Segment { progression: row.progression_id, from: row.from_ord, to })
    };
    rows.into_iter().map(segment).collect()
}

/// Returns the end of the last segment of a progression.
pub fn end_in(tx: &mut Tx<'_>, progression: &ProgressionId) -> Result<u64> {
    let sql = "SELECT to_ord FROM pool_segments WHERE progression_id = ?1 ORDER BY from_ord DESC LIMIT 1";
    Ok(tx.find(sql, params![progression], |row| row.get::<Option<u64>>(0))?.flatten().unwrap_or_default())
}

/// Returns the first and the last message of a session.
pub fn bookmarks(tx: &mut Tx<'_>, session: &SessionId) -> Result<(Option<MessageId>, Option<MessageId>)> {
    let first = "SELECT s.ord, (SELECT i.message_id FROM progression_items i WHERE i.progression_id = s.progression_id \
                 AND i.ord >= s.from_ord AND (s.to_ord IS NULL OR i.ord < s.to_ord) ORDER BY i.ord LIMIT 1) \
                 FROM pool_segments s WHERE s.session_id = ?1 AND s.ord >= ?2 ORDER BY s.ord LIMIT 1";
    let last = "SELECT s.ord, (SELECT i.message_id FROM progression_items i WHERE i.progression_id = s.progression_id \
                AND i.ord >= s.from_ord AND (s.to_ord IS NULL OR i.ord < s.to_ord) ORDER BY i.ord DESC LIMIT 1) \
                FROM pool_segments s WHERE s.session_id = ?1 AND s.ord <= ?2 ORDER BY s.ord DESC LIMIT 1";
    // Segments of the session's own progression may be empty by now.
    let mut found = |sql, mut at: u64, next: fn(u64) -> Option<u64>| {
        while let Some((ord, message)) = tx.find(sql, params![session, at], |row| Ok((row.get(0)?, row.get(1)?)))? {
            match (message, next(ord)) {
                (Some(message), _) => return Ok(Some(message)),
                (None, Some(after)) => at = after,
                (None, None) => break,
            }
        }
        Ok(None)
    };
    let first = found(first, 0, |ord| ord.checked_add(1))?;
    Ok((first, found(last, i64::MAX.unsigned_abs(), |ord| ord.checked_sub(1))?))
}

/// Returns the number of messages of a session.
pub fn count(tx: &mut Tx<'_>, session: &SessionId) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM pool_segments s JOIN progression_items i ON i.progression_id = s.progression_id \
               AND i.ord >= s.from_ord AND (s.to_ord IS NULL OR i.ord < s.to_ord) WHERE s.session_id = ?1";
    Ok(tx.find(sql, params![session], |row| row.get(0))?.unwrap_or_default())
}

/// Returns true if one of the session's progressions has the message.
pub fn has(tx: &mut Tx<'_>, session: &SessionId, message: &MessageId) -> Result<bool> {
    let sql = "SELECT 1 FROM progression_items i JOIN progressions p ON p.id = i.progression_id \
               WHERE i.message_id = ?2 AND p.session_id = ?1 LIMIT 1";
    Ok(tx.find(sql, params![session, message], |_| Ok(()))?.is_some())
}

/// Returns the session of a progression's segments, and the segments that extend beyond a position, in order.
pub fn beyond(
    tx: &mut Tx<'_>,
    progression: &ProgressionId,
    ord: u64,
) -> Result<Option<(SessionId, Vec<PoolSegmentRow>)>> {
    let before = concat!(
        "SELECT s.session_id, ",
        columns!("s"),
        " FROM pool_segments s WHERE s.progression_id = ?1 AND s.from_ord < ?2 ORDER BY s.from_ord DESC LIMIT 1"
    );
    let from = concat!(
        "SELECT s.session_id, ",
        columns!("s"),
        " FROM pool_segments s WHERE s.progression_id = ?1 AND s.from_ord >= ?2 ORDER BY s.from_ord"
    );
    let read = |row: &Row<'_>| Ok((row.get::<SessionId>(0)?, PoolSegmentRow::read(row, 1)?));
    let before = tx.find(before, params![progression, ord], read)?.filter(|(_, row)| row.contains(ord));
    let rows: Vec<_> = before.into_iter().chain(tx.all(from, params![progression, ord], read)?).collect();
    let session = rows.first().map(|(session, _)| session.clone());
    Ok(session.map(|session| (session, rows.into_iter().map(|(_, row)| row).collect())))
}

/// Updates the pool after the items of a progression from a position on were removed: its segments end there.
///
/// `before` is what [`beyond`] returned before the removal. `left` are the removed messages that still exist, by
/// position: they keep their place in the pool, in the session's own progression.
pub fn follow(
    tx: &mut Tx<'_>,
    (session, before): &(SessionId, Vec<PoolSegmentRow>),
    ord: u64,
    (own, left): (&ProgressionId, &[(u64, MessageId)]),
) -> Result<()> {
    for row in before {
        if row.from_ord >= ord {
            let sql = "DELETE FROM pool_segments WHERE session_id = ?1 AND ord = ?2";
            tx.execute(sql, params![session, row.ord])?;
        } else if row.to_ord.is_some() || !left.is_empty() {
            end(tx, session, row.ord, ord)?;
        }
    }
    for (position, message) in left {
        let Some(row) = before.iter().find(|row| row.contains(*position)) else { continue };
        let from_ord = end_in(tx, own)?;
        progression_items::insert(tx, own, from_ord, message)?;
        let ord = row.ord + (position - row.from_ord);
        let row = PoolSegmentRow { ord, progression_id: own.clone(), from_ord, to_ord: Some(from_ord + 1) };
        insert(tx, session, &row)?;
    }
    Ok(())
}

/// Deletes all segments of a session.
pub fn remove_of(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    tx.execute("DELETE FROM pool_segments WHERE session_id = ?1", params![session]).map(drop)
}
