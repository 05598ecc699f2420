//! `duolog runs execution end`.

use clap::Args;
use duolog_wire::ExecutionAnswer;

use super::super::Context;
use super::super::used::{Used, with_duration};
use super::alone;
use crate::commands::sessions::of_agent;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs execution end \"$turn\" --turns 1 --cost-usd 0.02 --input-tokens 900 --output-tokens 120
  duolog runs execution end \"$turn\" --error \"the model refused\" --stop-reason error_model

JSON:
  {\"execution\": {… as runs phase end …}}";

/// End an execution outside of runs
///
/// Values that are not given stay unknown, which is not zero. An execution that has already ended does not change.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct End {
    /// Execution id or a unique prefix
    #[arg(value_name = "EXECUTION")]
    execution: String,
    #[command(flatten)]
    used: Used,
}

impl End {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let session = self.used.session.clone();
        let mut ending = self.used.ending(context, None)?;
        let store = context.open_to_write()?;
        ending.session_id = session.map(|text| of_agent(context, &store, &text)).transpose()?;
        let execution = alone(&store, &self.execution)?;
        let ended = store.runs().executions().finish(&execution.id, with_duration(ending, &execution), None)?;
        context.out.confirm(&ExecutionAnswer::from(&ended), |text| {
            text.line(format_args!("{} {}: execution {}", ended.skill, ended.outcome(), ended.id));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}
