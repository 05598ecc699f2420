//! `workflow_run_scratch`: data that the phases of a run share, a row per key.

use duolog_types::RunId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Sets the value of a key, as JSON. Returns by how many bytes the run's scratch grew.
pub fn put(tx: &mut Tx<'_>, run: &RunId, key: &str, value: &str) -> Result<i64> {
    let before = bytes(tx, run, key)?;
    let sql = "INSERT INTO workflow_run_scratch (run_id, key, value) VALUES (?1, ?2, ?3) \
               ON CONFLICT (run_id, key) DO UPDATE SET value = excluded.value";
    tx.execute(sql, params![run, key, value])?;
    Ok(i64::try_from(key.len() + value.len()).unwrap_or(i64::MAX) - before)
}

/// Returns the value of a key, as JSON.
pub fn get(tx: &mut Tx<'_>, run: &RunId, key: &str) -> Result<Option<String>> {
    tx.find("SELECT value FROM workflow_run_scratch WHERE run_id = ?1 AND key = ?2", params![run, key], |row| {
        row.get(0)
    })
}

/// Returns all keys and values of a run, by key. Their total size is bounded.
pub fn all(tx: &mut Tx<'_>, run: &RunId) -> Result<Vec<(String, String)>> {
    let sql = "SELECT key, value FROM workflow_run_scratch WHERE run_id = ?1 ORDER BY key";
    tx.all(sql, params![run], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn bytes(tx: &mut Tx<'_>, run: &RunId, key: &str) -> Result<i64> {
    Ok(get(tx, run, key)?.map_or(0, |value| i64::try_from(key.len() + value.len()).unwrap_or(i64::MAX)))
}
