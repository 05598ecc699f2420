//! `workflow_queue`: one row with the next queue number. A transaction that starts or admits a run updates it first.

use crate::engine::Tx;
use crate::error::{Error, Result};

/// Locks the queue: until the end of the transaction no other one can count running runs or take a queue number.
///
/// Returns a number above all earlier ones.
pub fn enter(tx: &mut Tx<'_>) -> Result<u64> {
    let sql = "UPDATE workflow_queue SET next_ord = next_ord + 1 WHERE id = 1 RETURNING next_ord - 1";
    let missing = || Error::Damaged { what: "workflow_queue".to_owned(), detail: "its one row is missing".to_owned() };
    tx.find(sql, &[], |row| row.get(0))?.ok_or_else(missing)
}
