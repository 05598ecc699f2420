//! `idempotency`: every operation with an operation id, and its first answer.
//!
//! A change of rows inserts its operation in the same transaction. An append inserts it before its first byte is
//! written: the row claims the byte range of the lines, and no other operation can claim the same range.

use duolog_types::{Epoch, OperationId, Position, SessionId, Timestamp};

use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

/// The byte range of an append's lines in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimedPlace {
    /// The log's epoch.
    pub epoch: Epoch,
    /// The position of the first byte.
    pub from: Position,
    /// The position after the last newline.
    pub to: Position,
}

/// An operation.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRow {
    /// The scope within which the id is unique.
    pub scope: String,
    /// The operation's id.
    pub operation_id: OperationId,
    /// The hash of the request. The caller refuses the same id with another request.
    pub request_hash: [u8; 32],
    /// The answer as JSON. `None` for an append: there the place is the answer. For an append that is kept by the former name
    /// of its session, the id of the session.
    pub answer: Option<String>,
    /// When it was first tried.
    pub created_at: Timestamp,
    /// The session of an append.
    pub session_id: Option<SessionId>,
    /// The number of lines of an append that are before its place: a write that was cut short by a crash left them.
    pub lines_done: u64,
    /// The place of the remaining lines of an append. `None` while they have none.
    pub place: Option<ClaimedPlace>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT scope, operation_id, request_hash, answer, created_at, session_id, lines_done, epoch, \
             from_position, to_position FROM idempotency ",
            $rest
        )
    };
}

impl OperationRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let (epoch, from, to): (Option<Epoch>, Option<Position>, Option<Position>) =
            (row.get(7)?, row.get(8)?, row.get(9)?);
        let place = epoch.zip(from).zip(to).map(|((epoch, from), to)| ClaimedPlace { epoch, from, to });
        Ok(Self {
            scope: row.get(0)?,
            operation_id: row.get(1)?,
            request_hash: row.get(2)?,
            answer: row.get(3)?,
            created_at: row.get(4)?,
            session_id: row.get(5)?,
            lines_done: row.get(6)?,
            place,
        })
    }
}

/// Returns the operation, if it was ever tried.
pub fn find(tx: &mut Tx<'_>, scope: &str, operation: &OperationId) -> Result<Option<OperationRow>> {
    tx.find(select!("WHERE scope = ?1 AND operation_id = ?2"), params![scope, operation], OperationRow::read)
}

/// Inserts an operation. Its timestamp is not before any other: the rows are in the order of insertion, whatever the
/// clock says. An id or place that is taken is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &OperationRow) -> Result<()> {
    let sql = "INSERT INTO idempotency (scope, operation_id, request_hash, answer, created_at, session_id, lines_done, \
               epoch, from_position, to_position) VALUES (?1, ?2, ?3, ?4, \
               CASE WHEN EXISTS (SELECT 1 FROM idempotency WHERE created_at > ?5) \
               THEN (SELECT created_at FROM idempotency ORDER BY created_at DESC LIMIT 1) ELSE ?5 END, \
               ?6, ?7, ?8, ?9, ?10)";
    let values = params![
        &row.scope,
        &row.operation_id,
        &row.request_hash,
        row.answer.as_ref(),
        row.created_at,
        row.session_id.as_ref(),
        row.lines_done,
        row.place.map(|place| place.epoch),
        row.place.map(|place| place.from),
        row.place.map(|place| place.to),
    ];
    tx.execute(sql, values).map(drop)
}

/// Claims a place for the lines of an append that has none. Returns false if it has one now, or does not exist.
pub fn claim(tx: &mut Tx<'_>, scope: &str, operation: &OperationId, place: ClaimedPlace) -> Result<bool> {
    let sql = "UPDATE idempotency SET epoch = ?3, from_position = ?4, to_position = ?5 \
               WHERE scope = ?1 AND operation_id = ?2 AND epoch IS NULL AND answer IS NULL";
    Ok(tx.execute(sql, params![scope, operation, place.epoch, place.from, place.to])? == 1)
}

/// Releases the claim of an append of which `lines_done` lines are written. If there are none, the row is deleted.
pub fn unclaim(tx: &mut Tx<'_>, row: &OperationRow, lines_done: u64) -> Result<bool> {
    let Some(place) = row.place else { return Ok(false) };
    let values = |lines| params![&row.scope, &row.operation_id, place.epoch, place.from, lines].to_vec();
    let of_row = "WHERE scope = ?1 AND operation_id = ?2 AND epoch = ?3 AND from_position = ?4";
    let sql = if lines_done == 0 {
        return Ok(tx.execute(&format!("DELETE FROM idempotency {of_row}"), &values(0)[..4])? == 1);
    } else {
        "UPDATE idempotency SET epoch = NULL, from_position = NULL, to_position = NULL, lines_done = ?5 "
    };
    Ok(tx.execute(&format!("{sql}{of_row}"), &values(lines_done))? == 1)
}

/// Deletes an operation whose change is rolled back.
pub fn forget(tx: &mut Tx<'_>, scope: &str, operation: &OperationId) -> Result<()> {
    tx.execute("DELETE FROM idempotency WHERE scope = ?1 AND operation_id = ?2", params![scope, operation]).map(drop)
}

/// Keeps the appends that were begun in a session under another scope, without their places: `answer` tells which session
/// it was. The last of several holds.
pub fn retire(tx: &mut Tx<'_>, session: &SessionId, scope: &str, answer: &str) -> Result<()> {
    let sql = "INSERT INTO idempotency (scope, operation_id, request_hash, answer, created_at) \
               SELECT ?2, operation_id, request_hash, ?3, created_at FROM idempotency WHERE session_id = ?1 \
               ON CONFLICT (scope, operation_id) DO UPDATE \
               SET request_hash = excluded.request_hash, answer = excluded.answer, created_at = excluded.created_at";
    tx.execute(sql, params![session, scope, answer]).map(drop)
}

/// Returns the first operation of the scope whose id is below this one: `id/…`.
pub fn first_below(tx: &mut Tx<'_>, scope: &str, operation: &OperationId) -> Result<Option<OperationRow>> {
    let sql = select!("WHERE scope = ?1 AND operation_id >= ?2 AND operation_id < ?3 ORDER BY operation_id LIMIT 1");
    // The character after the slash ends the range.
    let (from, to) = (format!("{operation}/"), format!("{operation}0"));
    tx.find(sql, params![scope, &from, &to], OperationRow::read)
}

/// Returns the operations in an epoch of a log whose places end after `end`, in the order of their places.
pub fn beyond(tx: &mut Tx<'_>, session: &SessionId, epoch: Epoch, end: Position) -> Result<Vec<OperationRow>> {
    let sql = select!("WHERE session_id = ?1 AND epoch = ?2 AND to_position > ?3 ORDER BY from_position");
    tx.all(sql, params![session, epoch, end], OperationRow::read)
}

/// Returns the end of the last claimed place in an epoch of a log; 0 if there is none.
pub fn claimed_to(tx: &mut Tx<'_>, session: &SessionId, epoch: Epoch) -> Result<Position> {
    let sql = "SELECT to_position FROM idempotency WHERE session_id = ?1 AND epoch = ?2 AND to_position IS NOT NULL \
               ORDER BY from_position DESC LIMIT 1";
    Ok(tx.find(sql, params![session, epoch], |row| row.get(0))?.unwrap_or(Position::ZERO))
}

/// Returns true if an operation was first tried before `at`.
pub fn any_before(tx: &mut Tx<'_>, at: Timestamp) -> Result<bool> {
    let sql = "SELECT 1 FROM idempotency WHERE created_at < ?1 ORDER BY created_at LIMIT 1";
    Ok(tx.find(sql, params![at], |_| Ok(()))?.is_some())
}

/// Deletes up to `limit` operations that were first tried before `at`, but none of the `kept` newest. Returns how many.
pub fn expire(tx: &mut Tx<'_>, at: Timestamp, kept: u32, limit: u32) -> Result<usize> {
    // With fewer than `kept` rows the inner SELECT is NULL and nothing is deleted. The order of rows with equal
    // timestamps is unknown, so none of them is deleted.
    let sql = "DELETE FROM idempotency WHERE (scope, operation_id) IN \
               (SELECT scope, operation_id FROM idempotency WHERE created_at < ?1 AND created_at < \
               (SELECT created_at FROM idempotency ORDER BY created_at DESC LIMIT 1 OFFSET ?3) \
               ORDER BY created_at LIMIT ?2)";
    tx.execute(sql, params![at, limit, kept.saturating_sub(1)])
}
