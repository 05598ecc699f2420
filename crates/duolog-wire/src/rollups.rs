//! Executions by day or hour.

use duolog::runs;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Usd;

/// Executions by day or hour, and in all.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Rollups {
    /// The length of a period.
    #[schemars(extend("enum" = ["day", "hour"]))]
    pub interval: &'static str,
    /// The time zone of the periods.
    pub zone: String,
    /// The only workflow that is counted.
    pub workflow_name: Option<String>,
    /// One for each period, oldest first; none is left out.
    pub rollups: Vec<Rollup>,
    /// The sums over all periods.
    pub totals: Rollup,
}

/// What started in a period. What was not reported counts nothing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Rollup {
    /// `2026-01-31`, or `2026-01-31T09:00` for an hour, in the zone; null for all periods.
    pub period: Option<String>,
    /// Executions that started.
    pub started: u64,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were skipped.
    pub skipped: u64,
    /// Those that were deferred.
    pub deferred: u64,
    /// Those that have not ended.
    pub in_flight: u64,
    /// How often models answered.
    pub turns: u64,
    /// How long they took, all together.
    pub duration_ms: u64,
    /// What they cost.
    pub cost_usd: Usd,
    /// Tokens read, without those from or to a cache.
    pub input_tokens: u64,
    /// Tokens written to a cache.
    pub cache_creation_input_tokens: u64,
    /// Tokens read from a cache.
    pub cache_read_input_tokens: u64,
    /// Tokens written.
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
