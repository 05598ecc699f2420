//! `outbox_lines`: lines about committed transitions that must be appended to logs (R2).

use duolog_types::limits::REASON_BYTES_MAX;
use duolog_types::{Epoch, HomeId, OutboxId, Position, SessionId, Timestamp};

use super::clipped;
use crate::engine::{Sql, Tx, row};
use crate::error::Result;
use crate::params;

/// A line to append to a session's log.
#[derive(Debug, Clone, Copy)]
pub struct NewOutbox<'l> {
    /// The `uuid` of the line.
    pub uuid: OutboxId,
    /// The session of the log.
    pub session_id: &'l SessionId,
    /// The line, without its newline.
    pub line: &'l str,
    /// When the transition happened.
    pub created_at: Timestamp,
}

/// A pending line.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// The home that has the log. Only it appends the line (R9).
    pub home_id: HomeId,
    /// The session of the log.
    pub session_id: SessionId,
    /// Its order among the pending lines of that log. The number may be reused after the row is deleted.
    pub seq: i64,
    /// The `uuid` of the line.
    pub uuid: OutboxId,
    /// The log's epoch when the row was written.
    pub epoch: Epoch,
    /// The log's synced end when the row was written: the line cannot be before it.
    pub floor: Position,
    /// When the transition happened.
    pub created_at: Timestamp,
    /// The number of failed attempts.
    pub attempts: u64,
    /// The last error.
    pub last_error: Option<String>,
    /// The line, without its newline.
    pub line: String,
}

row!(OutboxRow: home_id, session_id, seq, uuid, epoch, floor, created_at, attempts, last_error, line);

/// The key of a pending line.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxKey {
    /// The home that has the log.
    pub home_id: HomeId,
    /// The session of the log.
    pub session_id: SessionId,
    /// The `uuid` of the line.
    pub uuid: OutboxId,
}

impl From<&OutboxRow> for OutboxKey {
    fn from(row: &OutboxRow) -> Self {
        Self { home_id: row.home_id, session_id: row.session_id.clone(), uuid: row.uuid }
    }
}

/// The statement of [`insert`], with each engine's expression for `seq`.
///
/// `floor` is the fold's checkpoint: it is synced, and the line does not exist yet, so the line cannot be before it.
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

/// Inserts a line, in the transaction of the row that it describes. Returns false if the session does not exist or is
/// deleted.
pub fn insert(tx: &mut Tx<'_>, row: &NewOutbox<'_>) -> Result<bool> {
    // SQLite has one writer at a time, so the next number is known. On a server it comes from a sequence, to avoid
    // conflicts.
    let counted = insert!(
        "COALESCE((SELECT o.seq + 1 FROM outbox_lines o WHERE o.home_id = s.home_id AND o.session_id = s.id \
         ORDER BY o.seq DESC LIMIT 1), 0)"
    );
    let sql = Sql::each(counted, insert!("nextval(pg_get_serial_sequence('outbox_lines', 'seq'))"));
    Ok(tx.execute(sql, params![row.session_id, row.uuid, row.created_at, row.line])? == 1)
}

/// Returns the first pending lines of a session, in order.
pub fn pending(tx: &mut Tx<'_>, session: &SessionId, home: &HomeId, limit: u32) -> Result<Vec<OutboxRow>> {
    let sql = "SELECT home_id, session_id, seq, uuid, epoch, floor, created_at, attempts, last_error, line \
               FROM outbox_lines WHERE home_id = ?1 AND session_id = ?2 ORDER BY seq LIMIT ?3";
    tx.all(sql, params![home, session, limit], OutboxRow::read)
}

/// Returns the sessions of a home with pending lines, and the number of lines.
pub fn waiting(tx: &mut Tx<'_>, home: &HomeId, limit: u32) -> Result<Vec<(SessionId, u64)>> {
    let sql = "SELECT session_id, COUNT(*) FROM outbox_lines WHERE home_id = ?1 GROUP BY session_id \
               ORDER BY session_id LIMIT ?2";
    tx.all(sql, params![home, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Deletes lines that are in their log and synced. Returns how many were deleted.
pub fn delete(tx: &mut Tx<'_>, lines: &[OutboxKey]) -> Result<usize> {
    let sql = "DELETE FROM outbox_lines WHERE home_id = ?1 AND session_id = ?2 AND uuid = ?3";
    lines
        .iter()
        .try_fold(0, |deleted, line| Ok(deleted + tx.execute(sql, params![line.home_id, &line.session_id, line.uuid])?))
}

/// Deletes the pending lines of a log that is deleted. Returns how many were deleted.
pub fn forget(tx: &mut Tx<'_>, session: &SessionId) -> Result<usize> {
    tx.execute("DELETE FROM outbox_lines WHERE session_id = ?1", params![session])
}

/// Records a failed attempt and its reason. The reason is truncated to the row's limit, so that recording it cannot
/// fail too.
pub fn note_failure(tx: &mut Tx<'_>, line: &OutboxKey, reason: &str) -> Result<()> {
    let sql = "UPDATE outbox_lines SET attempts = attempts + 1, last_error = ?4 \
               WHERE home_id = ?1 AND session_id = ?2 AND uuid = ?3";
    let reason = clipped(reason, REASON_BYTES_MAX);
    tx.execute(sql, params![line.home_id, &line.session_id, line.uuid, reason]).map(drop)
}

/// Returns the number of pending lines of all homes.
pub fn count(tx: &mut Tx<'_>) -> Result<u64> {
    Ok(tx.find("SELECT COUNT(*) FROM outbox_lines", &[], |row| row.get(0))?.unwrap_or_default())
}
