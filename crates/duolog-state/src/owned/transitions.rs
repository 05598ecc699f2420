//! `transitions`: changes of owned rows that carry an operation id, and what they were answered.
//!
//! The row is written in the transaction of the change: it is there if the change is.

use duolog_types::{Moment, OperationId};

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// One transition that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct TransitionRow {
    /// The operation's id.
    pub operation_id: OperationId,
    /// The hash of what was asked for: the same id with another request is refused by the caller.
    pub content_hash: [u8; 32],
    /// The answer, as JSON.
    pub answer: String,
    /// When it happened.
    pub created_at: Moment,
}

/// The transition, if it happened.
pub fn find(tx: &mut Tx<'_>, operation: &OperationId) -> Result<Option<TransitionRow>> {
    let sql = "SELECT operation_id, content_hash, answer, created_at FROM transitions WHERE operation_id = ?1";
    tx.find(sql, params![operation], |row| {
        Ok(TransitionRow {
            operation_id: row.get(0)?,
            content_hash: row.get(1)?,
            answer: row.get(2)?,
            created_at: row.get(3)?,
        })
    })
}

/// Adds a transition. One that is there already is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &TransitionRow) -> Result<()> {
    let sql = "INSERT INTO transitions (operation_id, content_hash, answer, created_at) VALUES (?1, ?2, ?3, ?4)";
    let values = params![&row.operation_id, &row.content_hash, &row.answer, row.created_at];
    tx.execute(sql, values).map(drop)
}
