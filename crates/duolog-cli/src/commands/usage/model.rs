//! `duolog usage model`.

use clap::Args;

use super::{Asked, Context, Outcome, Report};
use crate::out::Column;

const AFTER: &str = "\
Examples:
  duolog usage model
  duolog usage model --since 2026-01-01
  duolog usage model --json | jq '.total.unpriced'

JSON:
  {\"models\": [{\"model\", \"responses\", \"input_tokens\", \"output_tokens\", \"cache_read_tokens\",
                \"cache_write_5m_tokens\", \"cache_write_1h_tokens\", \"reasoning_tokens\", \"total_tokens\",
                \"cost_usd\", \"unpriced\": [model, …]}],
   \"total\": {… of all pages, without \"model\" …}, \"next\": token|null}
  model is null where the log names none.
  cost_usd is what the logs state, and else what the prices in force say; null where nothing has a price.
  unpriced names the models whose tokens are not in it. output_tokens holds reasoning_tokens";

/// Show what each model was used for
///
/// Models are named as in the logs. Prices are built in, and can be set: duolog config show --help
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Model {
    #[command(flatten)]
    asked: Asked,
}

const REPORT: Report =
    Report { list: "models", key: "model", column: (Column::Text, "MODEL"), name: false, none: "(no name)" };

impl Model {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        REPORT.run(self.asked, None, context, |store, filter| store.usage().model(filter))
    }
}
