//! `execution_bodies`: the last text of an execution; of one that is too long the tail, and the whole as a blob.

use duolog_types::{ExecutionId, HomeId};

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// What an execution said last.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputRow {
    /// The text, or the end of it.
    pub text: String,
    /// The bytes of the whole.
    pub bytes: u64,
    /// The blob that holds the whole, and the home that has it, where the row does not.
    pub blob: Option<(String, HomeId)>,
}

/// Keeps what an execution said, in place of what it said before.
pub fn put(tx: &mut Tx<'_>, execution: &ExecutionId, row: &OutputRow) -> Result<()> {
    let sql = "INSERT INTO execution_bodies (execution_id, output_text, output_bytes, output_blob, home_id) \
               VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (execution_id) DO UPDATE SET \
               output_text = excluded.output_text, output_bytes = excluded.output_bytes, \
               output_blob = excluded.output_blob, home_id = excluded.home_id";
    let (blob, home) = (row.blob.as_ref().map(|(blob, _)| blob), row.blob.as_ref().map(|(_, home)| home));
    tx.execute(sql, params![execution, &row.text, row.bytes, blob, home]).map(drop)
}

/// What an execution said.
pub fn find(tx: &mut Tx<'_>, execution: &ExecutionId) -> Result<Option<OutputRow>> {
    let sql = "SELECT output_text, output_bytes, output_blob, home_id FROM execution_bodies WHERE execution_id = ?1";
    tx.find(sql, params![execution], |row| {
        let blob = row.get::<Option<String>>(2)?.zip(row.get::<Option<HomeId>>(3)?);
        Ok(OutputRow { text: row.get(0)?, bytes: row.get(1)?, blob })
    })
}

/// The blobs of a home that hold what executions said, in their order, after this one.
pub fn blobs(tx: &mut Tx<'_>, home: &HomeId, after: &str, limit: u32) -> Result<Vec<String>> {
    let sql = "SELECT DISTINCT output_blob FROM execution_bodies WHERE output_blob > ?1 AND home_id = ?2 \
               ORDER BY output_blob LIMIT ?3";
    tx.all(sql, params![after, home, limit], |row| row.get(0))
}

/// How many executions have what they said in this blob of a home.
pub fn naming_blob(tx: &mut Tx<'_>, home: &HomeId, blob: &str) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM execution_bodies WHERE output_blob = ?1 AND home_id = ?2";
    Ok(tx.find(sql, params![blob, home], |row| row.get(0))?.unwrap_or_default())
}
