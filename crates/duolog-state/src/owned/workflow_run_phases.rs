//! `workflow_run_phases`: the phases of a run that ended, in order. Rows are added and never changed.

use duolog_types::RunId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Adds an entry, as JSON. A place that is taken is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, run: &RunId, ord: u64, entry: &str) -> Result<()> {
    let sql = "INSERT INTO workflow_run_phases (run_id, ord, entry) VALUES (?1, ?2, ?3)";
    tx.execute(sql, params![run, ord, entry]).map(drop)
}

/// All entries of a run, as JSON, in order. Together they are bounded.
pub fn all(tx: &mut Tx<'_>, run: &RunId) -> Result<Vec<String>> {
    let sql = "SELECT entry FROM workflow_run_phases WHERE run_id = ?1 ORDER BY ord";
    tx.all(sql, params![run], |row| row.get(0))
}
