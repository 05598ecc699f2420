//! `duolog runs history`.

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;

use clap::Args;
use duolog::errors::NotFound;
use duolog::log::{Entry, ReadFrom};
use duolog::runs::RunSummary;
use duolog::{Error, ErrorKind, Loss, RecordedLoss, Store, limits};
use duolog_wire as wire;
use serde::Deserialize;

use super::Context;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Column, Table, plain};

const AFTER: &str = "\
Examples:
  duolog runs history 019364
  duolog runs history \"$run\" --json | jq -r '.history[].status'

JSON:
  {\"history\": [{\"occurred_at\", \"event\", \"previous_status\", \"status\", \"phase\", \"actor\", \"reason\",
     \"lease_owner\", \"fence\"}], \"rejected_lines\": 0, \"complete\": true|false, \"lost_bytes\": 0}
  rejected_lines is the number of lines that contradict the state of the run; they are not shown
  complete is false if there are more entries than --limit, or lines are unreadable, lost or rejected";

/// The maximum number of lines about a run that are read, counted from the end of the log.
const LINES_MAX: usize = 10_000;

/// The subtype of a line about a run.
const SUBTYPE: &str = "duolog.run";

/// Show the status changes and claims of a run
///
/// The order is oldest first. The entries are read from the run's log. Any program can append similar lines there, so
/// each line is checked against the state, starting at the run's current status.
///
/// A line is rejected if its status is not the previous status of the line after it, if it repeats an earlier line, or
/// if it is a claim whose fence is not lower than that of the claim after it.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct History {
    /// Run id or a unique prefix
    #[arg(value_name = "RUN")]
    run: String,
    /// Maximum number of results, newest first [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
}

/// The fields that identify a line about a run.
#[derive(Deserialize)]
struct HistoryLine {
    subtype: String,
    run: String,
}

/// A status change or a claim, as recorded in the log.
#[derive(Clone, Deserialize, Eq, Hash, PartialEq)]
#[serde(rename_all = "camelCase")]
struct HistoryEntry {
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

impl From<&HistoryEntry> for wire::RunChange {
    fn from(change: &HistoryEntry) -> Self {
        Self {
            occurred_at: change.timestamp.clone(),
            event: change.event.clone(),
            previous_status: change.previous_status.clone(),
            status: change.status.clone(),
            phase: change.phase.clone(),
            actor: change.actor.clone(),
            reason: change.reason.clone(),
            lease_owner: change.lease_owner.clone(),
            fence: change.fence,
        }
    }
}

impl History {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let mut run = store.runs().summary(&store.runs().resolve(&self.run)?)?;
        let (mut entries, complete, lost_bytes) = loop {
            let entries = read(&store, &run)?;
            // The log is compared with the row, so both must have the same status.
            let now = store.runs().summary(&run.id)?;
            if now.status == run.status {
                break entries;
            }
            run = now;
        };
        let fence = store.runs().get(&run.id)?.fence.0;
        let left_out = leave_out(&mut entries, run.status.as_str(), fence);
        let more = entries.len().saturating_sub(self.limit as usize);
        let history = entries.split_off(more);
        let complete = complete && more == 0 && left_out == 0;
        let shape = wire::RunHistory {
            history: history.iter().map(wire::RunChange::from).collect(),
            rejected_lines: left_out as u64,
            complete,
            lost_bytes,
        };
        context.out.answer(&shape, |text| text.table(&table(&history)))?;
        if left_out > 0 {
            let lines = figures::things(left_out as u64, "line");
            context.out.warn(format_args!("{lines} rejected because of a conflict with the state of the run"));
        }
        if lost_bytes > 0 {
            context
                .out
                .alert(format_args!("the history is incomplete: {} of the log are lost", figures::size(lost_bytes)));
        } else if !complete {
            context.out.alert("the history is incomplete: the log has more entries, or unreadable lines");
        }
        Ok(Ended::Done)
    }
}

/// Reads the last entries about a run from its log.
///
/// The second value is false if there are more entries, unreadable lines or lost bytes. The third is the number of lost
/// bytes.
fn read(store: &Store, run: &RunSummary) -> Result<(VecDeque<HistoryEntry>, bool, u64), Failure> {
    let session = run.session_id.clone().ok_or_else(|| Error::NotFound(NotFound::Session(run.id.to_string())))?;
    let (mut history, mut complete, mut lost_bytes) = (VecDeque::new(), true, 0);
    let read = store.log(&session).read(ReadFrom::Start, |entry| {
        match entry {
            // Only lines about this run are decoded.
            Entry::Line(line) if is_about_run(line.bytes, run.id.as_str()) => {
                match serde_json::from_slice(line.bytes) {
                    Ok(change) => history.push_back(change),
                    Err(_) => complete = false,
                }
            }
            Entry::Line(_) => return ControlFlow::Continue(()),
            Entry::Damaged { .. } => complete = false,
            Entry::Lost(Loss { bytes, .. }) | Entry::LostEarlier(RecordedLoss { bytes }) => {
                (complete, lost_bytes) = (false, lost_bytes + bytes);
            }
        }
        if history.len() > LINES_MAX {
            history.pop_front();
            complete = false;
        }
        ControlFlow::Continue(())
    });
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure::Absent {
            message: format!(
                "cannot show the history of run {}: its session {session} was deleted together with its log",
                run.id
            ),
            hint: Some(format!("duolog runs show {} shows the current state of the run", run.id)),
        }),
        read => read.map(|_| (history, complete, lost_bytes)).map_err(Failure::from),
    }
}

/// Removes the entries that contradict the state, and returns their number.
///
/// Going back from the current status, the status of each entry must be the previous status of the entry after it. A
/// run starts once, no entry is repeated, and fences increase.
fn leave_out(entries: &mut VecDeque<HistoryEntry>, status: &str, fence: u64) -> usize {
    let (count, mut status) = (entries.len(), status.to_owned());
    let (mut all, mut known) = (std::mem::take(entries), HashSet::new());
    // Two lines with the same fields and different uuids are one change.
    all.retain(|change| known.insert(change.clone()));
    let is_start = |change: &HistoryEntry| change.event.as_deref() == Some("start");
    let first_start = all.iter().position(is_start);
    let mut fence = fence.saturating_add(1);
    for (at, change) in all.into_iter().enumerate().rev() {
        let is_again =
            is_start(&change) && first_start != Some(at) || change.fence.is_some_and(|stated| stated >= fence);
        if is_again || change.status.as_deref() != Some(&*status) {
            continue;
        }
        fence = change.fence.unwrap_or(fence);
        if let Some(previous) = &change.previous_status {
            status.clone_from(previous);
        }
        entries.push_front(change);
    }
    count - entries.len()
}

/// Returns true if a line is about this run.
fn is_about_run(line: &[u8], run: &str) -> bool {
    let may_be = line.windows(SUBTYPE.len()).any(|bytes| bytes == SUBTYPE.as_bytes());
    may_be
        && serde_json::from_slice::<HistoryLine>(line).is_ok_and(|entry| entry.subtype == SUBTYPE && entry.run == run)
}

fn table(history: &VecDeque<HistoryEntry>) -> Table {
    let mut table = Table::new(&[
        (Column::Word, "OCCURRED_AT"),
        (Column::Word, "EVENT"),
        (Column::Word, "PREVIOUS_STATUS"),
        (Column::Word, "STATUS"),
        (Column::Text, "ACTOR"),
        (Column::Text, "LEASE_OWNER"),
        (Column::Text, "REASON"),
    ])
    .dropping(&["PREVIOUS_STATUS", "LEASE_OWNER", "REASON", "ACTOR"]);
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
