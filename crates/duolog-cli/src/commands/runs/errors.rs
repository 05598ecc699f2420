//! `duolog runs errors`.

use clap::Args;
use duolog::runs::{Execution, ExecutionList};
use duolog::{Clock as _, SystemClock, Timestamp};
use duolog_wire as wire;

use super::{Context, repository};
use crate::args;
use crate::commands::sessions::one_line;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog runs errors timeout
  duolog runs errors acme/web --limit 50
  duolog runs errors '' --json | jq -r '.executions[].error_message'

JSON:
  {\"executions\": [{… as runs phase end …}], \"next\": token|null}";

/// Search the errors of executions
///
/// The order is newest first. The text is searched in the error, in workflow:phase and in the repository, without
/// regard to case. One call reads a limited number of executions, so a page can be short and still have a next page.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Errors {
    /// Text to search for; an empty text matches every error
    #[arg(value_name = "TEXT")]
    text: String,
    #[command(flatten)]
    page: args::Paging,
}

impl Errors {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let list = match context.open_if_there()? {
            Some(store) => {
                store.runs().executions().search_errors(&self.text, self.page.limit, self.page.after.as_ref())?
            }
            None => ExecutionList { executions: Vec::new(), next: None },
        };
        let page: wire::Page<wire::Execution> = wire::Page::of(&list.executions, list.next);
        context.out.page(&page, "no error matches", || table(&list.executions, SystemClock.now()))?;
        Ok(Ended::Done)
    }
}

fn table(executions: &[Execution], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        (Column::Id, "WORKFLOW_RUN_ID"),
        (Column::Word, "SKILL"),
        (Column::Text, "REPO"),
        (Column::Word, "STOP_REASON"),
        (Column::Text, "ERROR_MESSAGE"),
        (Column::Word, "STARTED_AT"),
    ])
    .dropping(&["REPO", "STARTED_AT", "STOP_REASON"]);
    for execution in executions {
        let stop = execution.end.as_ref().and_then(|end| end.finish.stop_reason.clone());
        table.row(vec![
            execution.run_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            execution.skill.clone(),
            repository(execution.owner.as_deref(), execution.repo.as_deref(), execution.issue_number),
            stop.unwrap_or_default(),
            one_line(execution.error().unwrap_or_default()),
            figures::age(execution.started_at, now),
        ]);
    }
    table.without_empty("WORKFLOW_RUN_ID").without_empty("REPO").without_empty("STOP_REASON")
}
