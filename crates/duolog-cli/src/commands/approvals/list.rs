//! `duolog approvals list`.

use clap::Args;
use duolog::approvals::{Approval, ApprovalFilter, ApprovalList};
use duolog::runs::RunPage;
use duolog::{ApprovalStatus, Clock as _, SystemClock, Timestamp};
use duolog_wire as wire;

use super::{Context, tone};
use crate::args;
use crate::commands::sessions::one_line;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog approvals list
  duolog approvals list --all --run 019364
  duolog approvals list --json | jq -r '.approvals[].id'

JSON:
  {\"approvals\": [{\"id\", \"workflow_run_id\", \"gate\", \"kind\", \"status\", \"summary\", \"requested_by\",
     \"responded_by\", \"response\", \"content_hash\", \"loop_key\", \"iteration\", \"output_execution_id\",
     \"created_at\", \"expires_at\", \"responded_at\", \"consumed_at\"}], \"next\": token|null}";

/// List gates
///
/// The order is newest first. With --run and --all the pending gate comes first: a run waits only at its newest gate.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct List {
    #[command(flatten)]
    page: args::Paging,
    /// Filter by status [default: pending]
    #[arg(long, conflicts_with = "all", value_parser = args::word(ApprovalStatus::ALL, ApprovalStatus::as_str))]
    status: Option<ApprovalStatus>,
    /// List gates of every status
    #[arg(long)]
    all: bool,
    /// Run id or a unique prefix [default: all runs]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

impl List {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let status = if self.all { None } else { Some(self.status.unwrap_or(ApprovalStatus::Pending)) };
        let list = match (context.open_if_there()?, &self.run) {
            (Some(store), run) => {
                let run = run.as_deref().map(|run| store.runs().resolve(run)).transpose()?;
                store
                    .approvals()
                    .list(&ApprovalFilter { status, run }, &RunPage::new(self.page.limit, self.page.after))?
            }
            (None, _) => ApprovalList { approvals: Vec::new(), next: None },
        };
        let page: wire::Page<wire::Approval> = wire::Page::of(&list.approvals, list.next);
        let is_default = self.status.is_none() && !self.all;
        let nothing = if is_default { "no gate is pending" } else { "no gate matches" };
        context.out.page(&page, nothing, || table(&list.approvals, SystemClock.now()))?;
        Ok(Ended::Done)
    }
}

fn table(approvals: &[Approval], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        (Column::Id, "ID"),
        (Column::Id, "WORKFLOW_RUN_ID"),
        (Column::Word, "GATE"),
        (Column::Word, "KIND"),
        (Column::Word, "STATUS"),
        (Column::Text, "SUMMARY"),
        (Column::Text, "RESPONDED_BY"),
        (Column::Word, "CREATED_AT"),
    ])
    .dropping(&["KIND", "RESPONDED_BY", "WORKFLOW_RUN_ID", "CREATED_AT", "SUMMARY"]);
    for approval in approvals {
        table.row(vec![
            approval.id.to_string(),
            approval.workflow_run_id.to_string(),
            approval.gate.clone(),
            approval.kind.to_string(),
            approval.status.to_string(),
            first_line(&approval.summary),
            approval.responded_by.clone().unwrap_or_default(),
            figures::age(approval.created_at, now),
        ]);
        table.tone(4, tone(approval.status));
    }
    table.without_empty("RESPONDED_BY")
}

/// Returns the first line of a summary, shortened to 60 characters.
fn first_line(summary: &str) -> String {
    let line = summary.lines().next().unwrap_or_default();
    let shown: String = one_line(line).chars().take(60).collect();
    if shown.len() < summary.trim_end().len() { shown + "…" } else { shown }
}
