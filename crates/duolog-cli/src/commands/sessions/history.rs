//! `duolog sessions history`.

use clap::Args;
use duolog::sessions::StatusTransition;
use duolog::{SessionStatus, limits};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Context, as_json};
use crate::args::Which;
use crate::failure::{Ended, Outcome};
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog sessions history demo
  duolog sessions history demo --json | jq -r '.transitions[0].reason'

JSON:
  {\"transitions\": [{\"previous_status\": status|null, \"status\", \"reason_code\", \"reason\", \"actor\",
                    \"evidence\": … as given …|null, \"created_at\"}], \"complete\": true|false}
  newest first; complete is false if there are more than --limit";

/// Show the status history of a session
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct History {
    #[command(flatten)]
    which: Which,
    /// Maximum number of changes
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX - 1)))]
    limit: u32,
}

#[derive(Serialize)]
struct Answer<'a> {
    transitions: Vec<Shape<'a>>,
    complete: bool,
}

#[derive(Serialize)]
struct Shape<'a> {
    previous_status: Option<&'static str>,
    status: &'static str,
    reason_code: Option<&'a str>,
    reason: Option<&'a str>,
    actor: Option<&'a str>,
    evidence: Option<Box<RawValue>>,
    created_at: String,
}

impl History {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let mut found = store.sessions().status(&session.id).transitions(self.limit + 1)?;
        let complete = found.len() <= self.limit as usize;
        found.truncate(self.limit as usize);
        let answer = Answer { transitions: found.iter().map(shape).collect(), complete };
        context.out.answer(&answer, |text| {
            if !found.is_empty() {
                text.table(&table(&found));
            }
        })?;
        if found.is_empty() {
            context.out.note("the status of this session was never set");
        }
        if !complete {
            context.out.note("there are more: --limit shows them");
        }
        Ok(Ended::Done)
    }
}

fn shape(one: &StatusTransition) -> Shape<'_> {
    Shape {
        previous_status: one.previous_status.map(SessionStatus::as_str),
        status: one.status.as_str(),
        reason_code: one.reason_code.as_deref(),
        reason: one.reason.as_deref(),
        actor: one.actor.as_deref(),
        evidence: one.evidence.as_deref().map(as_json),
        created_at: one.created_at.to_string(),
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
    ]);
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
