//! `duolog usage model`.

use clap::Args;
use duolog_wire::UsageByModel;

use super::{CommandResult, Context, Report, ReportArgs};
use crate::out::Column;

const AFTER: &str = "\
Examples:
  duolog usage model
  duolog usage model --since 2026-01-01
  duolog usage model --json | jq '.totals.unpriced_models'

JSON:
  {\"models\": [{\"model\", \"responses\", \"input_tokens\", \"output_tokens\",
     \"cache_read_input_tokens\", \"cache_creation_5m_input_tokens\", \"cache_creation_1h_input_tokens\",
     \"reasoning_tokens\", \"tokens\", \"cost_usd\", \"unpriced_models\": [model, …]}],
   \"totals\": {… of all pages, from \"responses\" on …}, \"next\": token|null,
   \"complete\": true, \"missing\": {… as sessions list …}}
  model is null if the log does not name the model.
  cost_usd is the cost in the logs, or else the cost at the configured prices; null if unknown.
  The tokens of unpriced_models are not in cost_usd. output_tokens includes reasoning_tokens";

/// Show tokens and cost by model
///
/// Model names are taken from the logs. Prices are built in and can be configured: duolog config show --help
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Model {
    #[command(flatten)]
    asked: ReportArgs,
}

const REPORT: Report = Report { column: (Column::Word, "MODEL"), name: false, none: "(no name)" };

impl Model {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        REPORT.run::<UsageByModel>(self.asked, None, context, duolog::usage::Usage::model)
    }
}
