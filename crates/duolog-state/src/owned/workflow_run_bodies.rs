//! `workflow_run_bodies`: the context that a run was started with. It never changes.

use duolog_types::RunId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Inserts the context of a run, as JSON.
pub fn insert(tx: &mut Tx<'_>, run: &RunId, context: Option<&str>) -> Result<()> {
    tx.execute("INSERT INTO workflow_run_bodies (run_id, context) VALUES (?1, ?2)", params![run, context]).map(drop)
}

/// Returns the context of a run, if it has one.
pub fn context(tx: &mut Tx<'_>, run: &RunId) -> Result<Option<String>> {
    let sql = "SELECT context FROM workflow_run_bodies WHERE run_id = ?1";
    Ok(tx.find(sql, params![run], |row| row.get(0))?.flatten())
}
