//! `duolog usage workflow`.

use clap::Args;
use duolog_wire::UsageByWorkflow;

use super::{CommandResult, Context, Report, ReportArgs};
use crate::out::Column;

const AFTER: &str = "\
Examples:
  duolog usage workflow
  duolog usage workflow --since 2026-01-01 --json

JSON:
  {\"workflows\": [{\"workflow_name\", \"responses\", \"input_tokens\", \"output_tokens\",
     \"cache_read_input_tokens\", \"cache_creation_5m_input_tokens\", \"cache_creation_1h_input_tokens\",
     \"reasoning_tokens\", \"tokens\", \"cost_usd\", \"unpriced_models\": [model, …]}],
   \"totals\": {… of all pages, from \"responses\" on …}, \"next\": token|null,
   \"complete\": true, \"missing\": {… as sessions list …}}
  workflow_name is null for sessions without a workflow, playbook or agent.
  cost_usd is the cost in the logs, or else the cost at the configured prices; null if unknown.
  The tokens of unpriced_models are not in cost_usd. output_tokens includes reasoning_tokens";

/// Show tokens and cost by workflow
///
/// A session counts for the workflow of the execution that refers to it, or else for its playbook or its agent. An
/// execution without its own log counts for the workflow of its run.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Workflow {
    #[command(flatten)]
    asked: ReportArgs,
}

const REPORT: Report = Report { column: (Column::Word, "WORKFLOW_NAME"), name: false, none: "(none)" };

impl Workflow {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        REPORT.run::<UsageByWorkflow>(self.asked, None, context, duolog::usage::Usage::workflow)
    }
}
