//! `workflow_run_phases`: the finished phases of a run, in order. Rows are inserted and never changed.

use duolog_types::RunId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Inserts an entry, as JSON. A position that is taken is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, run: &RunId, ord: u64, entry: &str) -> Result<()> {
    let sql = "INSERT INTO workflow_run_phases (run_id, ord, entry) VALUES (?1, ?2, ?3)";
    tx.execute(sql, params![run, ord, entry]).map(drop)
}

/// Returns all entries of a run, as JSON, in order. Their total size is bounded.
pub fn all(tx: &mut Tx<'_>, run: &RunId) -> Result<Vec<String>> {
    let sql = "SELECT entry FROM workflow_run_phases WHERE run_id = ?1 ORDER BY ord";
    tx.all(sql, params![run], |row| row.get(0))
}
