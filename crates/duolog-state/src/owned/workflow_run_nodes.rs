//! `workflow_run_nodes`: the statuses of the nodes of a run that is a graph.

use duolog_types::RunId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Sets the status of a node, as JSON. Returns by how many bytes the run's nodes grew.
pub fn put(tx: &mut Tx<'_>, run: &RunId, node: &str, status: &str) -> Result<i64> {
    let sql = "SELECT status FROM workflow_run_nodes WHERE run_id = ?1 AND node = ?2";
    let before: Option<String> = tx.find(sql, params![run, node], |row| row.get(0))?;
    let sql = "INSERT INTO workflow_run_nodes (run_id, node, status) VALUES (?1, ?2, ?3) \
               ON CONFLICT (run_id, node) DO UPDATE SET status = excluded.status";
    tx.execute(sql, params![run, node, status])?;
    let bytes = |status: &str| i64::try_from(node.len() + status.len()).unwrap_or(i64::MAX);
    Ok(bytes(status) - before.map_or(0, |status| bytes(&status)))
}

/// Returns all nodes of a run with their statuses, by name. Their total size is bounded.
pub fn all(tx: &mut Tx<'_>, run: &RunId) -> Result<Vec<(String, String)>> {
    let sql = "SELECT node, status FROM workflow_run_nodes WHERE run_id = ?1 ORDER BY node";
    tx.all(sql, params![run], |row| Ok((row.get(0)?, row.get(1)?)))
}
