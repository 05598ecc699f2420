//! Executions by day or hour.

use duolog::runs;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Usd;

/// Executions by day or hour, and in total.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Rollups {
    /// Length of a period.
    #[schemars(extend("enum" = ["day", "hour"]))]
    pub interval: &'static str,
    /// The time zone of the periods.
    pub zone: String,
    /// The workflow filter; null for all workflows.
    pub workflow_name: Option<String>,
    /// One entry per period, oldest first; empty periods are included.
    pub rollups: Vec<Rollup>,
    /// The totals of all periods.
    pub totals: Rollup,
}

/// The executions that started in a period. Values that were not reported are not counted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Rollup {
    /// `2026-01-31`, or `2026-01-31T09:00` for an hour, in the zone; null for all periods.
    pub period: Option<String>,
    /// Started executions.
    pub started: u64,
    /// Succeeded executions.
    pub succeeded: u64,
    /// Failed executions.
    pub failed: u64,
    /// Skipped executions.
    pub skipped: u64,
    /// Deferred executions.
    pub deferred: u64,
    /// Running executions.
    pub in_flight: u64,
    /// Number of model responses.
    pub turns: u64,
    /// Total duration.
    pub duration_ms: u64,
    /// Total cost.
    pub cost_usd: Usd,
    /// Input tokens, without cache reads and writes.
    pub input_tokens: u64,
    /// Input tokens written to a cache.
    pub cache_creation_input_tokens: u64,
    /// Input tokens read from a cache.
    pub cache_read_input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
}

impl From<&runs::Rollup> for Rollup {
    fn from(rollup: &runs::Rollup) -> Self {
        Self {
            period: Some(rollup.label.clone()).filter(|label| !label.is_empty()),
            started: rollup.started,
            succeeded: rollup.succeeded,
            failed: rollup.failed,
            skipped: rollup.skipped,
            deferred: rollup.deferred,
            in_flight: rollup.in_flight,
            turns: rollup.turns,
            duration_ms: rollup.duration_ms,
            cost_usd: Usd(rollup.cost),
            input_tokens: rollup.input_tokens,
            cache_creation_input_tokens: rollup.cache_creation_input_tokens,
            cache_read_input_tokens: rollup.cache_read_input_tokens,
            output_tokens: rollup.output_tokens,
        }
    }
}
