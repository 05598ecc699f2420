//! `duolog usage session`.

use clap::Args;
use duolog::PageOrder;
use duolog_wire::UsageBySession;

use super::{CommandResult, Context, Report, ReportArgs};
use crate::args;
use crate::out::Column;

const AFTER: &str = "\
Examples:
  duolog usage session
  duolog usage session --user-email ada@example.com --limit 50
  duolog usage session --order created --limit 200
  duolog usage session --json | jq '.sessions[] | select(.cost_usd > 1) | .session_id'

JSON:
  {\"sessions\": [{\"session_id\", \"session_name\", \"responses\", \"input_tokens\", \"output_tokens\",
     \"cache_read_input_tokens\", \"cache_creation_5m_input_tokens\", \"cache_creation_1h_input_tokens\",
     \"reasoning_tokens\", \"tokens\", \"cost_usd\", \"unpriced_models\": [model, …]}],
   \"totals\": {… of all pages, from \"responses\" on …}, \"next\": token|null,
   \"complete\": true, \"missing\": {… as sessions list …}}
  session_id is null in the last line, for executions without a session. With --logs-dir it is the
  name of the file, and session_name is its path.
  cost_usd is the cost in the logs, or else the cost at the configured prices; null if unknown.
  The tokens of unpriced_models are not in cost_usd. output_tokens includes reasoning_tokens";

/// Show tokens and cost by session
///
/// With --order created, the pages list every session exactly once, even if sessions change. In the default order, a
/// session that changes between two pages may be missed or listed twice. The lines and the total of a page are read at
/// the same time.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Session {
    #[command(flatten)]
    asked: ReportArgs,
    /// Sort order: last updated first, or last created first [default: updated]
    #[arg(long, value_parser = args::page_order("updated"))]
    order: Option<PageOrder>,
}

const REPORT: Report = Report { column: (Column::Id, "SESSION_ID"), name: true, none: "(no session)" };

impl Session {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        REPORT.run::<UsageBySession>(self.asked, self.order, context, duolog::usage::Usage::session)
    }
}
