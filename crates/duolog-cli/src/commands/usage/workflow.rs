//! `duolog usage workflow`.

use clap::Args;

use super::{Asked, Context, Outcome, Report};
use crate::out::Column;

const AFTER: &str = "\
Examples:
  duolog usage workflow
  duolog usage workflow --since 2026-01-01 --json

JSON:
  {\"workflows\": [{\"workflow\", \"responses\", \"input_tokens\", \"output_tokens\", \"cache_read_tokens\",
                   \"cache_write_5m_tokens\", \"cache_write_1h_tokens\", \"reasoning_tokens\", \"total_tokens\",
                   \"cost_usd\", \"unpriced\": [model, …]}],
   \"total\": {… of all pages, without \"workflow\" …}, \"next\": token|null}
  workflow is null for sessions with neither playbook nor agent.
  cost_usd is what the logs state, and else what the prices in force say; null where nothing has a price.
  unpriced names the models whose tokens are not in it. output_tokens holds reasoning_tokens";

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

const REPORT: Report =
    Report { list: "workflows", key: "workflow", column: (Column::Text, "WORKFLOW"), name: false, none: "(none)" };

impl Workflow {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        REPORT.run(self.asked, None, context, |store, filter| store.usage().workflow(filter))
    }
}
