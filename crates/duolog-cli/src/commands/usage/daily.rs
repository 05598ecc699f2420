//! `duolog usage daily`.

use clap::Args;
use duolog_wire::UsageByDay;

use super::{CommandResult, Context, Report, ReportArgs};
use crate::out::Column;

const AFTER: &str = "\
Examples:
  duolog usage daily
  duolog usage daily --since 2026-01-01 --until 2026-01-31
  duolog usage daily --zone Europe/Berlin
  duolog usage daily --logs-dir ~/.claude/projects
  duolog usage daily --json | jq '.days[] | [.day, .cost_usd]'

JSON:
  {\"days\": [{\"day\", \"responses\", \"input_tokens\", \"output_tokens\",
     \"cache_read_input_tokens\", \"cache_creation_5m_input_tokens\", \"cache_creation_1h_input_tokens\",
     \"reasoning_tokens\", \"tokens\", \"cost_usd\", \"unpriced_models\": [model, …]}],
   \"totals\": {… of all pages, from \"responses\" on …}, \"next\": token|null,
   \"complete\": true, \"missing\": {… as sessions list …}}
  day is null for usage without a timestamp.
  cost_usd is the cost in the logs, or else the cost at the configured prices; null if unknown.
  The tokens of unpriced_models are not in cost_usd. output_tokens includes reasoning_tokens";

/// Show tokens and cost by day
///
/// The newest day comes first. Days are in the time zone of --zone. A response counts once, on the day of its line. An
/// execution counts on the day it finished; if the log of its session has usage, only the log counts.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Daily {
    #[command(flatten)]
    asked: ReportArgs,
}

const REPORT: Report = Report { column: (Column::Word, "DAY"), name: false, none: "(no day)" };

impl Daily {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        REPORT.run::<UsageByDay>(self.asked, None, context, duolog::usage::Usage::daily)
    }
}
