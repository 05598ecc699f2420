//! `execution_rollups`: executions by the quarter of an hour they began in, and by workflow.
//!
//! On a server two transactions that add to one row wait for each other, and the second runs again. So an execution adds to
//! one of several rows there, by its id.

use duolog_types::{ExecutionId, Timestamp};

use crate::engine::{Row, Tx, row};
use crate::error::Result;
use crate::params;

/// The rows that a workflow has in a quarter of an hour on a server.
const SLOTS: u64 = 64;

/// What a stretch of time saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RollupRow {
    /// How many began.
    pub started: u64,
    /// How many of those came to a good end.
    pub succeeded: u64,
    /// How many to a bad one.
    pub failed: u64,
    /// How many were left out.
    pub skipped: u64,
    /// How many were put off.
    pub deferred: u64,
    /// How many turns they took.
    pub turns: u64,
    /// How long they took together.
    pub duration_ms: u64,
    /// What they cost, in picodollars.
    pub cost_picos: u64,
    /// Tokens read anew.
    pub input_tokens: u64,
    /// Tokens put into the cache.
    pub cache_creation_input_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

row!(RollupRow, columns:
    started, succeeded, failed, skipped, deferred, turns, duration_ms, cost_picos, input_tokens,
    cache_creation_input_tokens, cache_read_input_tokens, output_tokens
);

/// Adds what an execution came to, to what a stretch of time saw of a workflow.
pub fn add(tx: &mut Tx<'_>, bucket: Timestamp, workflow: &str, of: &ExecutionId, more: &RollupRow) -> Result<()> {
    let slot = if tx.has_one_writer() { 0 } else { slot(of) };
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

/// The row that an execution adds to: of its begin and its end the same.
fn slot(of: &ExecutionId) -> u64 {
    of.as_str().bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % SLOTS
}

/// What each stretch from one instant to before another saw, of one workflow or of all, in order; a stretch in several parts
/// where it has several rows.
pub fn between(
    tx: &mut Tx<'_>,
    from: Timestamp,
    to: Timestamp,
    workflow: Option<&str>,
    each: &mut dyn FnMut(Timestamp, RollupRow),
) -> Result<()> {
    // So many rows a stretch and workflow: bounded by the time that is asked for.
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
