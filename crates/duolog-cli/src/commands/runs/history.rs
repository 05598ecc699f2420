//! `duolog runs history`.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use clap::Args;
use duolog::log::{Entry, ReadFrom};
use duolog::runs::RunSummary;
use duolog::{Error, Store, limits};
use serde::{Deserialize, Serialize};

use super::Context;
use crate::failure::{Ended, Failure, Outcome};
use crate::figures;
use crate::out::{Column, Table, plain};

const AFTER: &str = "\
Examples:
  duolog runs history 019364
  duolog runs history \"$run\" --json | jq -r '.history[].status'

JSON:
  {\"history\": [{\"timestamp\", \"event\", \"previous_status\", \"status\", \"phase\", \"actor\", \"reason\",
     \"lease_owner\", \"fence\"}], \"left_out\": 0, \"complete\": true|false}
  complete is false where the log has more than --limit, or lines that cannot be read, are lost or were left out";

/// The lines about a run that are looked at, the last ones.
const LINES_MAX: usize = 10_000;

/// The subtype of a line about a run.
const SUBTYPE: &str = "duolog.run";

/// Show the status changes and claims of a run, oldest first
///
/// They are read from the run's log. Anybody can append a line there that looks like one of them: from the run's present
/// status back, a line that does not lead to the status after it contradicts the state and is left out.
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
    left_out: usize,
    complete: bool,
}

impl History {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = context.open_to_read()?;
        let mut run = store.runs().summary(&store.runs().resolve(&self.run)?)?;
        let (mut told, complete) = loop {
            let told = read(&store, &run)?;
            // The log is compared with the row: both are to be of one moment.
            let now = store.runs().summary(&run.id)?;
            if now.status == run.status {
                break told;
            }
            run = now;
        };
        let left_out = leave_out(&mut told, run.status.as_str());
        let more = told.len().saturating_sub(self.limit as usize);
        let history = told.split_off(more);
        let complete = complete && more == 0 && left_out == 0;
        let shape = Answer { history: &history, left_out, complete };
        context.out.answer(&shape, |text| text.table(&table(&history)))?;
        if left_out > 0 {
            let lines = figures::things(left_out as u64, "line");
            context.out.warn(format_args!("not shown: {lines} of the log that contradict the state of the run"));
        }
        if !complete {
            context.out.warn("this is not all: the log has more, or lines that cannot be read or are lost");
        }
        Ok(Ended::Done)
    }
}

/// The last lines of the log that tell of a run; false where others are there that cannot be read or are more than that.
fn read(store: &Store, run: &RunSummary) -> Result<(VecDeque<Change>, bool), Failure> {
    let session = run.session_id.clone().ok_or_else(|| Error::NoSession(run.id.to_string()))?;
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
        if history.len() > LINES_MAX {
            history.pop_front();
            complete = false;
        }
        ControlFlow::Continue(())
    })?;
    Ok((history, complete))
}

/// Removes what contradicts the state, and returns how many that were: from the present status back, each line must lead
/// to the status that the one after it begins with. A run starts once.
fn leave_out(told: &mut VecDeque<Change>, status: &str) -> usize {
    let (all, mut status) = (std::mem::take(told), status.to_owned());
    let (count, is_start) = (all.len(), |change: &Change| change.event.as_deref() == Some("start"));
    let first_start = all.iter().position(is_start);
    for (at, change) in all.into_iter().enumerate().rev() {
        let is_again = is_start(&change) && first_start != Some(at);
        if is_again || change.status.as_deref() != Some(&*status) {
            continue;
        }
        if let Some(previous) = &change.previous_status {
            status.clone_from(previous);
        }
        told.push_front(change);
    }
    count - told.len()
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
