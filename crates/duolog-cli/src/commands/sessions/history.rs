//! `duolog sessions history`.

use clap::Args;
use duolog::limits;
use duolog::sessions::StatusTransition;
use duolog_wire as wire;

use super::Context;
use crate::args::Which;
use crate::failure::{CommandResult, Ended};
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog sessions history demo
  duolog sessions history demo --json | jq -r '.transitions[0].reason'

JSON:
  {\"transitions\": [{\"previous_status\": status|null, \"status\", \"reason_code\", \"reason\", \"actor\",
                    \"evidence\": … as given …|null, \"created_at\"}], \"complete\": true|false}
  The newest change comes first. complete is false if there are more than --limit";

/// Show the status history of a session
///
/// The newest change comes first.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct History {
    #[command(flatten)]
    which: Which,
    /// Maximum number of results [max: 199]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX - 1)))]
    limit: u32,
}

impl History {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let mut found = store.sessions().status(&session.id).transitions(self.limit + 1)?;
        let complete = found.len() <= self.limit as usize;
        found.truncate(self.limit as usize);
        let transitions = found.iter().map(wire::StatusTransition::from).collect();
        let answer = wire::StatusHistory { transitions, complete };
        context.out.answer(&answer, |text| {
            if !found.is_empty() {
                text.table(&table(&found));
            }
        })?;
        if found.is_empty() {
            context.out.note("the status of this session was never set");
        }
        if !complete {
            context.out.note("there are more: use --limit to show them");
        }
        Ok(Ended::Done)
    }
}

fn table(found: &[StatusTransition]) -> Table {
    let mut table = Table::new(&[
        (Column::Word, "CREATED_AT"),
        (Column::Word, "PREVIOUS_STATUS"),
        (Column::Word, "STATUS"),
        (Column::Text, "ACTOR"),
        (Column::Text, "REASON_CODE"),
        (Column::Text, "REASON"),
    ])
    .dropping(&["PREVIOUS_STATUS", "REASON_CODE", "ACTOR"]);
    for one in found {
        table.row(vec![
            one.created_at.to_string(),
            one.previous_status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
            one.status.to_string(),
            one.actor.clone().unwrap_or_default(),
            one.reason_code.clone().unwrap_or_default(),
            one.reason.clone().unwrap_or_default(),
        ]);
    }
    table.without_empty("ACTOR").without_empty("REASON_CODE").without_empty("REASON")
}
