//! `outbox`: lines that committed transitions owe to logs (R2).

use duolog_types::limits::REASON_BYTES_MAX;
use duolog_types::{Epoch, HomeId, Moment, OutboxId, Position, SessionId};

use super::clipped;
use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

/// A line to be copied to a log.
#[derive(Debug, Clone, PartialEq)]
pub struct NewOutbox {
    /// The line's own `uuid`.
    pub uuid: OutboxId,
    /// Whose log.
    pub session_id: SessionId,
    /// The home that owns the log, and alone drains to it (R9).
    pub home_id: HomeId,
    /// The log's epoch when the row was written.
    pub epoch: Epoch,
    /// The log's synced end when the row was written: the line cannot be before it.
    pub floor: Position,
    /// The line, without its newline.
    pub line: String,
    /// When the transition happened.
    pub created_at: Moment,
}

/// A line that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// Its place in the order of the drain.
    pub id: i64,
    /// The line's own `uuid`.
    pub uuid: OutboxId,
    /// Whose log.
    pub session_id: SessionId,
    /// The home that owns the log.
    pub home_id: HomeId,
    /// The log's epoch when the row was written.
    pub epoch: Epoch,
    /// The log's synced end when the row was written.
    pub floor: Position,
    /// The line, without its newline.
    pub line: String,
    /// When the transition happened.
    pub created_at: Moment,
    /// How often copying failed.
    pub attempts: u64,
    /// Why it failed last.
    pub last_error: Option<String>,
}

impl OutboxRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            uuid: row.get(1)?,
            session_id: row.get(2)?,
            home_id: row.get(3)?,
            epoch: row.get(4)?,
            floor: row.get(5)?,
            line: row.get(6)?,
            created_at: row.get(7)?,
            attempts: row.get(8)?,
            last_error: row.get(9)?,
        })
    }
}

/// Adds a line, in the transaction of the row that it tells of. Returns its place in the order.
pub fn insert(tx: &mut Tx<'_>, row: &NewOutbox) -> Result<i64> {
    let sql = "INSERT INTO outbox (uuid, session_id, home_id, epoch, floor, line, created_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING id";
    let values = params![row.uuid, &row.session_id, row.home_id, row.epoch, row.floor, &row.line, row.created_at];
    // An insert that did not fail returns its row.
    Ok(tx.find(sql, values, |row| row.get(0))?.unwrap_or_default())
}

/// The first lines that wait for a session, in order.
pub fn pending(tx: &mut Tx<'_>, session: &SessionId, home: &HomeId, limit: u32) -> Result<Vec<OutboxRow>> {
    let sql = "SELECT id, uuid, session_id, home_id, epoch, floor, line, created_at, attempts, last_error FROM outbox \
               WHERE home_id = ?1 AND session_id = ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![home, session, limit], OutboxRow::read)
}

/// The sessions of a home for which lines wait, and how many.
pub fn waiting(tx: &mut Tx<'_>, home: &HomeId, limit: u32) -> Result<Vec<(SessionId, u64)>> {
    let sql =
        "SELECT session_id, COUNT(*) FROM outbox WHERE home_id = ?1 GROUP BY session_id ORDER BY session_id LIMIT ?2";
    tx.all(sql, params![home, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Forgets lines that are in their log and synced. Returns how many there were.
pub fn delete(tx: &mut Tx<'_>, ids: &[i64]) -> Result<usize> {
    ids.iter().try_fold(0, |gone, id| Ok(gone + tx.execute("DELETE FROM outbox WHERE id = ?1", params![*id])?))
}

/// Notes that copying failed, and why, cut to what a row holds: a long reason must not make the note fail too.
pub fn note_failure(tx: &mut Tx<'_>, id: i64, reason: &str) -> Result<()> {
    let sql = "UPDATE outbox SET attempts = attempts + 1, last_error = ?2 WHERE id = ?1";
    tx.execute(sql, params![id, clipped(reason, REASON_BYTES_MAX)]).map(drop)
}

/// How many lines wait, in all homes.
pub fn count(tx: &mut Tx<'_>) -> Result<u64> {
    Ok(tx.find("SELECT COUNT(*) FROM outbox", &[], |row| row.get(0))?.unwrap_or_default())
}
