//! `operations`: appends that carry an operation id, so that a retry finds what the first try did.

use duolog_types::{Epoch, HomeId, Moment, OperationId, Position, SessionId};

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// One operation on one session.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRow {
    /// The session.
    pub session_id: SessionId,
    /// The operation's id.
    pub operation_id: OperationId,
    /// The home whose log it is.
    pub home_id: HomeId,
    /// The hash of what it appends: the same id with other content is refused by the caller.
    pub content_hash: [u8; 32],
    /// How many lines it appends.
    pub lines: u64,
    /// How many of them are known to be in the log.
    pub done_lines: u64,
    /// The log's epoch.
    pub epoch: Epoch,
    /// Where those of its lines stand, or will stand, that are not among the done ones.
    pub position: Position,
    /// When it was first tried.
    pub created_at: Moment,
    /// When this row last changed.
    pub updated_at: Moment,
}

/// The operation, if it was ever tried.
pub fn find(tx: &mut Tx<'_>, session: &SessionId, operation: &OperationId) -> Result<Option<OperationRow>> {
    let sql = "SELECT session_id, operation_id, home_id, content_hash, lines, done_lines, epoch, position, created_at, \
               updated_at FROM operations WHERE session_id = ?1 AND operation_id = ?2";
    tx.find(sql, params![session, operation], |row| {
        Ok(OperationRow {
            session_id: row.get(0)?,
            operation_id: row.get(1)?,
            home_id: row.get(2)?,
            content_hash: row.get(3)?,
            lines: row.get(4)?,
            done_lines: row.get(5)?,
            epoch: row.get(6)?,
            position: row.get(7)?,
            created_at: row.get(8)?,
            updated_at: row.get(9)?,
        })
    })
}

/// Adds an operation. One that is there already is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &OperationRow) -> Result<()> {
    let sql = "INSERT INTO operations (session_id, operation_id, home_id, content_hash, lines, done_lines, epoch, \
               position, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let values = params![
        &row.session_id,
        &row.operation_id,
        row.home_id,
        &row.content_hash,
        row.lines,
        row.done_lines,
        row.epoch,
        row.position,
        row.created_at,
        row.updated_at,
    ];
    tx.execute(sql, values).map(drop)
}

/// Notes how far an operation came, unless another noted it since `before` was found; says whether.
pub fn place(tx: &mut Tx<'_>, before: &OperationRow, row: &OperationRow) -> Result<bool> {
    let sql = "UPDATE operations SET epoch = ?3, position = ?4, done_lines = ?5, updated_at = ?6 \
               WHERE session_id = ?1 AND operation_id = ?2 AND epoch = ?7 AND position = ?8 AND done_lines = ?9";
    let values = params![
        &row.session_id,
        &row.operation_id,
        row.epoch,
        row.position,
        row.done_lines,
        row.updated_at,
        before.epoch,
        before.position,
        before.done_lines,
    ];
    Ok(tx.execute(sql, values)? == 1)
}
