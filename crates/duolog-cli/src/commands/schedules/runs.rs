//! `duolog schedules runs`.

use clap::Args;
use duolog::schedules::{CronRun, FiringList};
use duolog::{Clock as _, SystemClock, Timestamp};
use duolog_wire as wire;

use super::{Context, tone};
use crate::args;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog schedules runs
  duolog schedules runs nightly --limit 5
  duolog schedules runs --json | jq '.schedule_runs[] | select(.status == \"failed\" or .status == \"lost\")'

JSON:
  {\"schedule_runs\": [{\"id\", \"schedule_name\", \"workflow_name\", \"due_at\", \"started_at\",
     \"finished_at\", \"status\", \"error_message\", \"detail\", \"workflow_run_id\", \"home_id\", \"actor\"}],
   \"next\": token|null}
  status is \"ok\", \"nothing\", \"failed\" or \"skipped\"; \"running\" until the result is known; \"lost\" if
  the process that fired the schedule died. A lost time is not fired again";

/// List the history of schedules
///
/// The order is newest first.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Runs {
    /// Schedule name [default: all]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    page: args::Paging,
}

impl Runs {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let list = match context.open_if_there()? {
            Some(store) => store.schedules().runs(self.name.as_deref(), self.page.after.as_ref(), self.page.limit)?,
            None => FiringList { runs: Vec::new(), next: None },
        };
        let page: wire::Page<wire::ScheduleRun> = wire::Page::of(&list.runs, list.next);
        context.out.page(&page, "no schedule has fired yet; duolog schedules tick fires those that are due", || {
            table(&list.runs, SystemClock.now())
        })?;
        Ok(Ended::Done)
    }
}

fn table(runs: &[CronRun], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        (Column::Word, "SCHEDULE_NAME"),
        (Column::Word, "DUE_AT"),
        (Column::Word, "STATUS"),
        (Column::Text, "DETAIL"),
        (Column::Word, "STARTED_AT"),
    ])
    .dropping(&["STARTED_AT", "DETAIL"]);
    for run in runs {
        let detail = run.error.as_ref().or(run.detail.as_ref()).or(run.workflow_run_id.as_ref());
        table.row(vec![
            run.name.clone(),
            run.due_at.to_string(),
            run.standing.to_string(),
            detail.map(|detail| detail.replace(['\n', '\r'], " ")).unwrap_or_default(),
            figures::age(run.started_at, now),
        ]);
        table.tone(2, tone(run.standing));
    }
    table.without_empty("DETAIL")
}
