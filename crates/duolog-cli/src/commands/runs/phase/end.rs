//! `duolog runs phase end`.

use clap::Args;
use duolog::runs::{Finish, dollars};
use duolog::{Clock as _, Error, ExecutionId, SystemClock};
use serde::Serialize;

use super::super::{ExecutionShape, Owned, text_or_stdin};
use super::Context;
use crate::failure::{Ended, Outcome};

const AFTER: &str = "\
Examples:
  duolog runs phase end \"$run\" \"$execution\" --fence \"$fence\"
  duolog runs phase end \"$run\" \"$execution\" --fence \"$fence\" --error \"3 tests failed\" \\
    --turns 12 --cost-usd 0.42 --input-tokens 12000 --output-tokens 900 --stop-reason error_tool
  my-agent | duolog runs phase end \"$run\" \"$execution\" --fence \"$fence\" --output -

JSON:
  {\"execution\": {\"id\", \"workflow_run_id\", \"skill\", \"outcome\", \"trigger_type\", \"trigger_id\",
    \"owner\", \"repo\", \"issue_number\", \"session_id\", \"triggered_by\", \"started_at\", \"finished_at\",
    \"success\", \"error\", \"turns\", \"duration_ms\", \"cost_usd\", \"input_tokens\",
    \"cache_creation_input_tokens\", \"cache_read_input_tokens\", \"output_tokens\", \"api_duration_ms\",
    \"stop_reason\"}}
  outcome: succeeded, failed, skipped, deferred or in_flight; what was not said is null";

/// End an execution of a phase: well, or with an error; and say what it used
///
/// What it used is added to its run. What is not said stays unknown, which is not zero.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct End {
    #[command(flatten)]
    run: Owned,
    /// The execution, as runs phase begin printed it
    #[arg(value_name = "EXECUTION")]
    execution: ExecutionId,
    /// It failed, and this is why
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// It did not succeed; --stop-reason error_quota says that it was put off
    #[arg(long)]
    failed: bool,
    /// Why it stopped, in a word
    #[arg(long, value_name = "WORD")]
    stop_reason: Option<String>,
    /// How many turns it took
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    turns: Option<u64>,
    /// How long it took; since it was begun where it is not given
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    duration_ms: Option<u64>,
    /// How long the model took
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    api_duration_ms: Option<u64>,
    /// What it cost
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true)]
    cost_usd: Option<f64>,
    /// Tokens read anew
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    input_tokens: Option<u64>,
    /// Tokens put into the cache
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cache_creation_input_tokens: Option<u64>,
    /// Tokens read from the cache
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cache_read_input_tokens: Option<u64>,
    /// Tokens written
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    output_tokens: Option<u64>,
    /// What it said last; - reads it from stdin. Of a long text the end is kept in its row, and the whole beside it
    #[arg(long, value_name = "TEXT")]
    output: Option<String>,
    /// Note the phase in the run's history, too, with these words
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    execution: ExecutionShape<'a>,
}

impl End {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let output = self.output.map(|text| text_or_stdin(context, text)).transpose()?;
        let mut finish = Finish {
            success: self.error.is_none() && !self.failed,
            error: self.error,
            turns: self.turns,
            duration_ms: self.duration_ms,
            cost: self.cost_usd.map(dollars).transpose()?,
            input_tokens: self.input_tokens,
            cache_creation_input_tokens: self.cache_creation_input_tokens,
            cache_read_input_tokens: self.cache_read_input_tokens,
            output_tokens: self.output_tokens,
            api_duration_ms: self.api_duration_ms,
            stop_reason: self.stop_reason,
        };
        let store = context.open_to_write()?;
        let run = self.run.open(&store)?;
        let execution = store.runs().executions().get(&self.execution)?;
        if execution.run_id.as_ref() != Some(run.id()) {
            return Err(Error::NoExecution(self.execution).into());
        }
        let since = SystemClock.now().as_micros().saturating_sub(execution.started_at.as_micros());
        finish.duration_ms = finish.duration_ms.or_else(|| u64::try_from(since / 1_000).ok());
        if let Some(output) = &output {
            run.set_output(&self.execution, output)?;
        }
        // The ledger has the last word: what it says is done has its entry in the history.
        if let Some(summary) = &self.summary {
            let phase = execution.skill.rsplit_once(':').map_or(execution.skill.as_str(), |(_, phase)| phase);
            run.complete_phase(phase, finish.success, Some(summary))?;
        }
        let ended = run.end(&self.execution, &finish)?;
        context.out.confirm(&Answer { execution: (&ended).into() }, |text| {
            text.line(format_args!("{} {}: execution {}", ended.skill, ended.outcome(), ended.id));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}
