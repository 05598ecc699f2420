//! `execution_bodies`: the output of an execution. A long output is stored as its tail and a blob.

use duolog_types::{ExecutionId, HomeId};

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// The output of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputRow {
    /// The text, or its tail.
    pub text: String,
    /// The length of the full text in bytes.
    pub bytes: u64,
    /// The blob with the full text and the home that has it, if the row has only the tail.
    pub blob: Option<(String, HomeId)>,
}

/// Stores the output of an execution, instead of any other.
pub fn put(tx: &mut Tx<'_>, execution: &ExecutionId, row: &OutputRow) -> Result<()> {
    let sql = "INSERT INTO execution_bodies (execution_id, output_text, output_bytes, output_blob, home_id) \
               VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (execution_id) DO UPDATE SET \
               output_text = excluded.output_text, output_bytes = excluded.output_bytes, \
               output_blob = excluded.output_blob, home_id = excluded.home_id";
    let (blob, home) = (row.blob.as_ref().map(|(blob, _)| blob), row.blob.as_ref().map(|(_, home)| home));
    tx.execute(sql, params![execution, &row.text, row.bytes, blob, home]).map(drop)
}

/// Returns the output of an execution.
pub fn find(tx: &mut Tx<'_>, execution: &ExecutionId) -> Result<Option<OutputRow>> {
    let sql = "SELECT output_text, output_bytes, output_blob, home_id FROM execution_bodies WHERE execution_id = ?1";
    tx.find(sql, params![execution], |row| {
        let blob = row.get::<Option<String>>(2)?.zip(row.get::<Option<HomeId>>(3)?);
        Ok(OutputRow { text: row.get(0)?, bytes: row.get(1)?, blob })
    })
}

/// Returns the blobs of a home with outputs of executions, after this one, in order.
pub fn blobs(tx: &mut Tx<'_>, home: &HomeId, after: &str, limit: u32) -> Result<Vec<String>> {
    let sql = "SELECT DISTINCT output_blob FROM execution_bodies WHERE output_blob > ?1 AND home_id = ?2 \
               ORDER BY output_blob LIMIT ?3";
    tx.all(sql, params![after, home, limit], |row| row.get(0))
}

/// Returns the number of executions with their output in this blob of a home.
pub fn naming_blob(tx: &mut Tx<'_>, home: &HomeId, blob: &str) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM execution_bodies WHERE output_blob = ?1 AND home_id = ?2";
    Ok(tx.find(sql, params![blob, home], |row| row.get(0))?.unwrap_or_default())
}
