//! `duolog runs phase end`.

use clap::Args;
use duolog_wire::ExecutionAnswer;

use super::super::OwnedNamed;
use super::super::used::{Used, with_duration};
use super::Context;
use crate::args;
use crate::commands::sessions::of_agent;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs phase end \"$run\" \"$execution\" --fence \"$fence\"
  duolog runs phase end \"$run\" \"$execution\" --fence \"$fence\" --error \"3 tests failed\" \\
    --turns 12 --cost-usd 0.42 --input-tokens 12000 --output-tokens 900 --stop-reason error_tool
  my-agent | duolog runs phase end \"$run\" \"$execution\" --fence \"$fence\" --output -

JSON:
  {\"execution\": {\"id\", \"workflow_run_id\", \"skill\", \"outcome\", \"trigger_type\", \"trigger_id\",
    \"owner\", \"repo\", \"issue_number\", \"session_id\", \"triggered_by\", \"started_at\", \"finished_at\",
    \"success\", \"error_message\", \"turns\", \"duration_ms\", \"cost_usd\", \"input_tokens\",
    \"cache_creation_input_tokens\", \"cache_read_input_tokens\", \"output_tokens\", \"api_duration_ms\",
    \"stop_reason\"}}
  outcome: succeeded, failed, skipped, deferred or in_flight; values that were not given are null";

/// End an execution of a phase
///
/// The usage is added to the run. Values that are not given stay unknown, which is not zero. The result, the output and
/// the history entry are written in one transaction. An execution that has already ended does not change.
#[derive(Args)]
#[command(after_help = AFTER, override_usage = "duolog runs phase end [OPTIONS] [RUN] <EXECUTION>")]
#[command(mut_arg(args::SECOND_NAME, |name| name.value_name("EXECUTION").help("Execution id or a unique prefix")))]
pub struct End {
    #[command(flatten)]
    names: OwnedNamed,
    #[command(flatten)]
    used: Used,
    /// Summary; also adds the phase to the run's history
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
}

impl End {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (run, execution) = self.names.split("execution")?;
        let session = self.used.session.clone();
        let mut ending = self.used.ending(context, self.summary)?;
        let store = context.open_to_write()?;
        let run = run.open(&store)?;
        ending.session_id = session.map(|text| of_agent(context, &store, &text)).transpose()?;
        let executions = store.runs().executions();
        let execution = executions.get(&executions.resolve(&execution)?)?;
        let ended = run.end(&execution.id, with_duration(ending, &execution))?;
        context.out.confirm(&ExecutionAnswer::from(&ended), |text| {
            text.line(format_args!("{} {}: execution {}", ended.skill, ended.outcome(), ended.id));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}
