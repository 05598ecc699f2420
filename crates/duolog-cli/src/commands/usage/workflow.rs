//! `duolog usage workflow`.

use clap::Args;
use duolog_wire::UsageByWorkflow;

use super::{Asked, Context, Outcome, Report};
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
  workflow_name is null for sessions with neither playbook nor agent.
  cost_usd is what the logs state, and else what the prices in force say; null where nothing has a price.
  unpriced_models are those whose tokens are not in it. output_tokens holds reasoning_tokens";

/// Show what each workflow used
///
/// There are no workflow runs yet: sessions are grouped by the playbook that they run, and where they run none, by the
/// name of their agent.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Workflow {
    #[command(flatten)]
    asked: Asked,
}

const REPORT: Report = Report { column: (Column::Word, "WORKFLOW_NAME"), name: false, none: "(none)" };

impl Workflow {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        REPORT.run::<UsageByWorkflow>(self.asked, None, context, |store, filter| store.usage().workflow(filter))
    }
}
