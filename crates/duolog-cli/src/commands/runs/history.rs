//! `duolog runs history`.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use clap::Args;
use duolog::log::{Entry, ReadFrom};
use duolog::{Error, limits};
use serde::{Deserialize, Serialize};

use super::Context;
use crate::failure::{Ended, Outcome};
use crate::out::{Column, Table, plain};

const AFTER: &str = "\
Examples:
  duolog runs history 019364
  duolog runs history \"$run\" --json | jq -r '.history[].status'

JSON:
  {\"history\": [{\"timestamp\", \"event\", \"previous_status\", \"status\", \"phase\", \"actor\", \"reason\",
     \"lease_owner\", \"fence\"}], \"complete\": true|false}
  complete is false where the log has more than --limit, or lines that cannot be read or are lost";

/// The subtype of a line about a run.
const SUBTYPE: &str = "duolog.run";

/// Show the status changes and claims of a run, oldest first
///
/// They are read from the run's log.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct History {
    /// The run: its id, or the beginning of one
    #[arg(value_name = "RUN")]
    run: String,
    /// Maximum number of results, the newest
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
}

/// Which line this is, and of which run.
#[derive(Deserialize)]
struct Told {
    subtype: String,
    run: String,
}

/// A status change or a claim, as programs get it.
#[derive(Deserialize, Serialize)]
#[serde(rename_all(deserialize = "camelCase"))]
struct Change {
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    event: Option<String>,
    #[serde(default)]
    previous_status: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    actor: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    lease_owner: Option<String>,
    #[serde(default)]
    fence: Option<u64>,
}

#[derive(Serialize)]
struct Answer<'a> {
    history: &'a VecDeque<Change>,
    complete: bool,
}

impl History {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = context.open_to_read()?;
        let run = store.runs().summary(&store.runs().resolve(&self.run)?)?;
        let session = run.session_id.ok_or_else(|| Error::NoSession(run.id.to_string()))?;
        let (mut history, mut complete) = (VecDeque::new(), true);
        store.log(&session).read(ReadFrom::Start, |entry| {
            match entry {
                // Only what may be of this run is decoded: a log may hold much else.
                Entry::Line(line) if is_told(line.bytes, run.id.as_str()) => match serde_json::from_slice(line.bytes) {
                    Ok(change) => history.push_back(change),
                    Err(_) => complete = false,
                },
                Entry::Line(_) => return ControlFlow::Continue(()),
                Entry::Damaged { .. } | Entry::Lost(_) => complete = false,
            }
            if history.len() > self.limit as usize {
                history.pop_front();
                complete = false;
            }
            ControlFlow::Continue(())
        })?;
        context.out.answer(&Answer { history: &history, complete }, |text| text.table(&table(&history)))?;
        if !complete {
            context.out.warn("this is not all: the log has more, or lines that cannot be read or are lost");
        }
        Ok(Ended::Done)
    }
}

/// True if a line tells of a change of this run.
fn is_told(line: &[u8], run: &str) -> bool {
    let may_be = line.windows(SUBTYPE.len()).any(|bytes| bytes == SUBTYPE.as_bytes());
    may_be && serde_json::from_slice::<Told>(line).is_ok_and(|told| told.subtype == SUBTYPE && told.run == run)
}

fn table(history: &VecDeque<Change>) -> Table {
    let mut table = Table::new(&[
        (Column::Word, "TIMESTAMP"),
        (Column::Word, "EVENT"),
        (Column::Word, "PREVIOUS_STATUS"),
        (Column::Word, "STATUS"),
        (Column::Text, "ACTOR"),
        (Column::Text, "LEASE_OWNER"),
        (Column::Text, "REASON"),
    ]);
    for change in history {
        let fields = [
            &change.timestamp,
            &change.event,
            &change.previous_status,
            &change.status,
            &change.actor,
            &change.lease_owner,
            &change.reason,
        ];
        table.row(fields.map(|field| field.as_deref().map(plain).unwrap_or_default()).to_vec());
    }
    ["PREVIOUS_STATUS", "ACTOR", "LEASE_OWNER", "REASON"].into_iter().fold(table, Table::without_empty)
}
