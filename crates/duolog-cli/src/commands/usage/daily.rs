//! `duolog usage daily`.

use clap::Args;
use duolog_wire::UsageByDay;

use super::{Asked, CommandResult, Context, Report};
use crate::out::Column;

const AFTER: &str = "\
Examples:
  duolog usage daily
  duolog usage daily --since 2026-01-01 --until 2026-01-31
  duolog usage daily --zone Europe/Berlin
  duolog usage daily --json | jq '.days[] | [.day, .cost_usd]'

JSON:
  {\"days\": [{\"day\", \"responses\", \"input_tokens\", \"output_tokens\",
     \"cache_read_input_tokens\", \"cache_creation_5m_input_tokens\", \"cache_creation_1h_input_tokens\",
     \"reasoning_tokens\", \"tokens\", \"cost_usd\", \"unpriced_models\": [model, …]}],
   \"totals\": {… of all pages, from \"responses\" on …}, \"next\": token|null,
   \"complete\": true, \"missing\": {… as sessions list …}}
  day is null for what no line dates.
  cost_usd is what the logs state, and else what the prices in force say; null where nothing has a price.
  unpriced_models are those whose tokens are not in it. output_tokens holds reasoning_tokens";

/// Show tokens and cost by day, newest first
///
/// Days are those of --zone. A response counts once, on the day that its line names. Executions count on the day they
/// finished, unless the log of their session tells of usage: then only the log counts.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Daily {
    #[command(flatten)]
    asked: Asked,
}

const REPORT: Report = Report { column: (Column::Word, "DAY"), name: false, none: "(no day)" };

impl Daily {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        REPORT.run::<UsageByDay>(self.asked, None, context, |store, filter| store.usage().daily(filter))
    }
}
