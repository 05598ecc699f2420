//! `workflow_queue`: one row that whoever starts or admits a run writes first, and that knows the next place.

use crate::engine::Tx;
use crate::error::{Error, Result};

/// Enters the queue: from here to the end of the transaction nobody else counts the running or takes a place.
///
/// Returns a place behind all that were given out before.
pub fn enter(tx: &mut Tx<'_>) -> Result<u64> {
    let sql = "UPDATE workflow_queue SET next_ord = next_ord + 1 WHERE id = 1 RETURNING next_ord - 1";
    let missing = || Error::Damaged { what: "workflow_queue".to_owned(), detail: "its one row is missing".to_owned() };
    tx.find(sql, &[], |row| row.get(0))?.ok_or_else(missing)
}
