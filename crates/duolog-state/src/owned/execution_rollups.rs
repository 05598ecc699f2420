//! `execution_rollups`: totals of executions by the quarter hour of their start and by workflow.
//!
//! On a server, two transactions that update one row conflict, and the second is retried. So there an execution adds to
//! one of several rows, chosen by its id.

use duolog_types::{ExecutionId, Timestamp};

use crate::engine::{Row, Tx, row};
use crate::error::Result;
use crate::params;

/// The number of rows per workflow and quarter hour on a server.
const SLOTS: u64 = 64;

/// The totals of a quarter hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RollupRow {
    /// The number of executions that started.
    pub started: u64,
    /// The number that succeeded.
    pub succeeded: u64,
    /// The number that failed.
    pub failed: u64,
    /// The number that was skipped.
    pub skipped: u64,
    /// The number that was deferred.
    pub deferred: u64,
    /// The number of turns.
    pub turns: u64,
    /// The total duration.
    pub duration_ms: u64,
    /// The total cost in picodollars.
    pub cost_picos: u64,
    /// Input tokens that were not cached.
    pub input_tokens: u64,
    /// Tokens written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
}

row!(RollupRow, columns:
    started, succeeded, failed, skipped, deferred, turns, duration_ms, cost_picos, input_tokens,
    cache_creation_input_tokens, cache_read_input_tokens, output_tokens
);

/// Adds the counts of an execution to the totals of a quarter hour and workflow.
pub fn add(tx: &mut Tx<'_>, bucket: Timestamp, workflow: &str, id: &ExecutionId, more: &RollupRow) -> Result<()> {
    let slot = if tx.has_one_writer() { 0 } else { slot(id) };
    let sql = concat!(
        "INSERT INTO execution_rollups AS r (bucket, workflow, slot, ",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
         ON CONFLICT (bucket, workflow, slot) DO UPDATE SET started = r.started + excluded.started, \
         succeeded = r.succeeded + excluded.succeeded, failed = r.failed + excluded.failed, \
         skipped = r.skipped + excluded.skipped, deferred = r.deferred + excluded.deferred, \
         turns = r.turns + excluded.turns, duration_ms = r.duration_ms + excluded.duration_ms, \
         cost_picos = r.cost_picos + excluded.cost_picos, \
         input_tokens = r.input_tokens + excluded.input_tokens, \
         cache_creation_input_tokens = r.cache_creation_input_tokens + excluded.cache_creation_input_tokens, \
         cache_read_input_tokens = r.cache_read_input_tokens + excluded.cache_read_input_tokens, \
         output_tokens = r.output_tokens + excluded.output_tokens"
    );
    let values = [params![bucket, workflow, slot].to_vec(), more.values()].concat();
    tx.execute(sql, &values).map(drop)
}

/// Returns the slot of an execution: the same for its start and its end.
fn slot(id: &ExecutionId) -> u64 {
    id.as_str().bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % SLOTS
}

/// Calls `each` for the totals of every quarter hour from `from` to before `to`, of one workflow or of all, in order. A
/// quarter hour with several rows comes in several calls.
pub fn between(
    tx: &mut Tx<'_>,
    from: Timestamp,
    to: Timestamp,
    workflow: Option<&str>,
    each: &mut dyn FnMut(Timestamp, RollupRow),
) -> Result<()> {
    // Bounded by the time range: a fixed number of rows per quarter hour and workflow.
    const ALL: &str = concat!(
        "SELECT bucket, ",
        columns!(),
        " FROM execution_rollups WHERE bucket >= ?1 AND bucket < ?2 ORDER BY bucket, workflow"
    );
    const ONE: &str = concat!(
        "SELECT bucket, ",
        columns!(),
        " FROM execution_rollups WHERE bucket >= ?1 AND bucket < ?2 AND workflow = ?3 ORDER BY bucket"
    );
    let mut read = |row: &Row<'_>| {
        each(row.get(0)?, RollupRow::read_at(row, &mut 1)?);
        Ok(())
    };
    match workflow {
        None => tx.query_each(ALL, params![from, to], &mut read),
        Some(workflow) => tx.query_each(ONE, params![from, to, workflow], &mut read),
    }
}
