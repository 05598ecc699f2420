//! `outbox_lines`: lines that committed transitions owe to logs (R2).

use duolog_types::limits::REASON_BYTES_MAX;
use duolog_types::{Epoch, HomeId, OutboxId, Position, SessionId, Timestamp};

use super::clipped;
use crate::engine::{Sql, Tx, row};
use crate::error::Result;
use crate::params;

/// A line to be copied to a session's log.
#[derive(Debug, Clone, Copy)]
pub struct NewOutbox<'l> {
    /// The line's own `uuid`.
    pub uuid: OutboxId,
    /// Whose log.
    pub session_id: &'l SessionId,
    /// The line, without its newline.
    pub line: &'l str,
    /// When the transition happened.
    pub created_at: Timestamp,
}

/// A line that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// The home that owns the log, and alone drains to it (R9).
    pub home_id: HomeId,
    /// Whose log.
    pub session_id: SessionId,
    /// Its place among those that wait for that log. It may come again once the line is gone.
    pub seq: i64,
    /// The line's own `uuid`.
    pub uuid: OutboxId,
    /// The log's epoch when the row was written.
    pub epoch: Epoch,
    /// The log's synced end when the row was written: the line cannot be before it.
    pub floor: Position,
    /// When the transition happened.
    pub created_at: Timestamp,
    /// How often copying failed.
    pub attempts: u64,
    /// Why it failed last.
    pub last_error: Option<String>,
    /// The line, without its newline.
    pub line: String,
}

row!(OutboxRow: home_id, session_id, seq, uuid, epoch, floor, created_at, attempts, last_error, line);

/// What a line that waits is known by.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxKey {
    /// The home that owns the log.
    pub home_id: HomeId,
    /// Whose log.
    pub session_id: SessionId,
    /// The line's own `uuid`.
    pub uuid: OutboxId,
}

impl From<&OutboxRow> for OutboxKey {
    fn from(row: &OutboxRow) -> Self {
        Self { home_id: row.home_id, session_id: row.session_id.clone(), uuid: row.uuid }
    }
}

/// The statement of [`insert`], with the place in the order as each engine gives it.
///
/// The checkpoint of the fold is synced, and so the line, which does not exist yet, cannot stand before it.
macro_rules! insert {
    ($seq:literal) => {
        concat!(
            "INSERT INTO outbox_lines (home_id, session_id, seq, uuid, epoch, floor, created_at, line) \
             SELECT s.home_id, s.id, ",
            $seq,
            ", ?2, s.log_epoch, CASE WHEN c.epoch = s.log_epoch THEN c.position ELSE 0 END, ?3, ?4 \
             FROM sessions s LEFT JOIN catalog c ON c.session_id = s.id WHERE s.id = ?1 AND s.deleted_at IS NULL"
        )
    };
}

/// Adds a line, in the transaction of the row that it tells of. False where there is no such session, or no longer.
pub fn insert(tx: &mut Tx<'_>, row: &NewOutbox<'_>) -> Result<bool> {
    // One writer at a time: the last place is known. On a server it would be fought for, and a number is drawn.
    let counted = insert!(
        "COALESCE((SELECT o.seq + 1 FROM outbox_lines o WHERE o.home_id = s.home_id AND o.session_id = s.id \
         ORDER BY o.seq DESC LIMIT 1), 0)"
    );
    let sql = Sql::each(counted, insert!("nextval(pg_get_serial_sequence('outbox_lines', 'seq'))"));
    Ok(tx.execute(sql, params![row.session_id, row.uuid, row.created_at, row.line])? == 1)
}

/// The first lines that wait for a session, in order.
pub fn pending(tx: &mut Tx<'_>, session: &SessionId, home: &HomeId, limit: u32) -> Result<Vec<OutboxRow>> {
    let sql = "SELECT home_id, session_id, seq, uuid, epoch, floor, created_at, attempts, last_error, line \
               FROM outbox_lines WHERE home_id = ?1 AND session_id = ?2 ORDER BY seq LIMIT ?3";
    tx.all(sql, params![home, session, limit], OutboxRow::read)
}

/// The sessions of a home for which lines wait, and how many.
pub fn waiting(tx: &mut Tx<'_>, home: &HomeId, limit: u32) -> Result<Vec<(SessionId, u64)>> {
    let sql = "SELECT session_id, COUNT(*) FROM outbox_lines WHERE home_id = ?1 GROUP BY session_id \
               ORDER BY session_id LIMIT ?2";
    tx.all(sql, params![home, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Forgets lines that are in their log and synced. Returns how many there were.
pub fn delete(tx: &mut Tx<'_>, lines: &[OutboxKey]) -> Result<usize> {
    let sql = "DELETE FROM outbox_lines WHERE home_id = ?1 AND session_id = ?2 AND uuid = ?3";
    lines
        .iter()
        .try_fold(0, |gone, line| Ok(gone + tx.execute(sql, params![line.home_id, &line.session_id, line.uuid])?))
}

/// Forgets the lines that wait for a log which is taken away. Returns how many there were.
pub fn forget(tx: &mut Tx<'_>, session: &SessionId) -> Result<usize> {
    tx.execute("DELETE FROM outbox_lines WHERE session_id = ?1", params![session])
}

/// Notes that copying a line failed, and why, cut to what a row holds: a long reason must not make the note fail too.
pub fn note_failure(tx: &mut Tx<'_>, line: &OutboxKey, reason: &str) -> Result<()> {
    let sql = "UPDATE outbox_lines SET attempts = attempts + 1, last_error = ?4 \
               WHERE home_id = ?1 AND session_id = ?2 AND uuid = ?3";
    let reason = clipped(reason, REASON_BYTES_MAX);
    tx.execute(sql, params![line.home_id, &line.session_id, line.uuid, reason]).map(drop)
}

/// How many lines wait, in all homes.
pub fn count(tx: &mut Tx<'_>) -> Result<u64> {
    Ok(tx.find("SELECT COUNT(*) FROM outbox_lines", &[], |row| row.get(0))?.unwrap_or_default())
}
