//! The types that callers pass and get.

use std::fmt;

use duolog_state::PageToken;
use duolog_state::owned::cron_runs::CronRunRow;
use duolog_types::limits::{REASON_BYTES_MAX, SCHEDULE_LEASE};
use duolog_types::{CronOutcome, CronRunId, HomeId, ProcessId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::Error;

duolog_types::words!(
/// The handling of times that passed while no process ticked.
#[derive(Default)]
CatchUp, "way to catch up", {
    /// Only the last of them is fired.
    #[default]
    Latest = "latest",
    /// The last [`duolog_types::limits::CATCH_UP_MAX`] of them are fired, and each has its own run.
    All = "all",
    /// Times older than [`duolog_types::limits::SCHEDULE_GRACE`] are not fired.
    None = "none",
});

/// A schedule in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseSchedule {
    /// The name.
    pub name: String,
    /// The cron expression.
    pub cron: String,
    /// The time zone of the expression.
    pub zone: String,
    /// True if it fires.
    pub enabled: bool,
    /// The workflow to start.
    pub workflow: Option<String>,
    /// The context of the run, as a JSON object.
    pub context: Option<String>,
    /// The handling of missed times.
    pub catch_up: CatchUp,
    /// The description.
    pub description: Option<String>,
    /// The line of the file, counted from 1.
    pub line: usize,
}

duolog_types::words!(
/// The origin of a value.
Origin, "origin of a value", {
    /// The configuration.
    Base = "config",
    /// The override.
    Override = "override",
});

/// A value in force and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce<T> {
    /// The value.
    pub value: T,
    /// The origin.
    pub from: Origin,
}

/// A future time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// The timestamp.
    pub at: Timestamp,
    /// The local time in the schedule's time zone.
    pub local: String,
}

/// A schedule with the values in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The schedule in the configuration.
    pub base: BaseSchedule,
    /// The cron expression.
    pub cron: InForce<String>,
    /// The time zone.
    pub zone: InForce<String>,
    /// True if it fires.
    pub enabled: InForce<bool>,
    /// The time of the override and its actor.
    pub overridden: Option<(Timestamp, Option<String>)>,
    /// The next times; empty if it is disabled.
    pub next: Vec<Time>,
    /// The reason why it cannot fire, if its override is not valid.
    pub problem: Option<String>,
    /// The last firing.
    pub latest: Option<CronRun>,
    /// The number of consecutive failures until now.
    pub failures: u32,
    /// The time of the first of these failures.
    pub failing_since: Option<Timestamp>,
}

/// A change of a schedule's override. `None` keeps a field; `Some(None)` clears its override.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleChange {
    /// True to enable it, false to disable it.
    pub enabled: Option<Option<bool>>,
    /// The cron expression.
    pub cron: Option<Option<String>>,
    /// The time zone.
    pub zone: Option<Option<String>>,
}

/// A due time that this caller claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// The firing.
    pub id: CronRunId,
    /// The schedule.
    pub name: String,
    /// The workflow to start.
    pub workflow: Option<String>,
    /// The context of the run, as a JSON object.
    pub context: Option<String>,
    /// The due time.
    pub due_at: Timestamp,
    /// The number of earlier times that were missed and are not fired, up to a limit.
    pub missed: u32,
    /// The trigger id of its run. With `catch_up = "all"` it contains the due time, so each time has its own run;
    /// otherwise it is the schedule's name, and a time is skipped while the run of an earlier time is active.
    pub trigger_id: String,
}

impl Due {
    pub(super) fn of(base: &BaseSchedule, id: CronRunId, due_at: Timestamp, missed: u32) -> Self {
        let trigger_id = match base.catch_up {
            CatchUp::All => format!("{}@{due_at}", base.name),
            CatchUp::Latest | CatchUp::None => base.name.clone(),
        };
        Self {
            id,
            name: base.name.clone(),
            workflow: base.workflow.clone(),
            context: base.context.clone(),
            due_at,
            missed,
            trigger_id,
        }
    }
}

/// The result of a firing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiringResult {
    /// The outcome.
    pub outcome: CronOutcome,
    /// The error.
    pub error: Option<String>,
    /// More details.
    pub detail: Option<String>,
    /// The run that was started.
    pub workflow_run_id: Option<String>,
}

impl FiringResult {
    /// Returns the result of a firing that started a run.
    pub fn started(workflow_run_id: impl Into<String>) -> Self {
        Self { workflow_run_id: Some(workflow_run_id.into()), ..Self::of(CronOutcome::Ok) }
    }

    /// Returns the result of a firing that is done.
    pub fn done() -> Self {
        Self::of(CronOutcome::Ok)
    }

    /// Returns the result of a firing that had nothing to do, with the reason.
    pub fn nothing(detail: impl AsRef<str>) -> Self {
        Self { detail: Some(clipped(detail.as_ref())), ..Self::of(CronOutcome::Nothing) }
    }

    /// Returns the result of a firing that was skipped, with the reason.
    pub fn skipped(detail: impl AsRef<str>) -> Self {
        Self { detail: Some(clipped(detail.as_ref())), ..Self::of(CronOutcome::Skipped) }
    }

    /// Returns the result of a firing that failed.
    pub fn failed(error: impl AsRef<str>) -> Self {
        Self { error: Some(clipped(error.as_ref())), ..Self::of(CronOutcome::Failed) }
    }

    const fn of(outcome: CronOutcome) -> Self {
        Self { outcome, error: None, detail: None, workflow_run_id: None }
    }
}

/// Truncates a text to the limit of its column and removes NUL bytes, which PostgreSQL cannot store. An empty text gets
/// a default.
fn clipped(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
    if text.is_empty() { "no reason was given".to_owned() } else { text }
}

/// A time that was fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The time.
    pub due: Due,
    /// The result.
    pub outcome: FiringResult,
}

/// The result of a tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticked {
    /// The times that were fired or skipped, in order.
    pub fired: Vec<Fired>,
    /// The number of due times that another process fired.
    pub taken: u32,
    /// Schedules that cannot fire, with the reason.
    pub problems: Vec<(String, String)>,
}

/// An error that stopped a tick, with the result up to then. The remaining times stay due.
#[derive(Debug)]
pub struct Interrupted {
    /// The result so far.
    pub ticked: Ticked,
    /// The error.
    pub error: Error,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot fire the remaining due times after {} times: {}", self.ticked.fired.len(), self.error)
    }
}

impl std::error::Error for Interrupted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The status of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FiringStatus {
    /// It has ended.
    Ended(CronOutcome),
    /// It is running.
    Running,
    /// Its process died: it started long ago and has no result. It is not fired again.
    Lost,
}

impl FiringStatus {
    pub(super) fn of(started_at: Timestamp, outcome: Option<CronOutcome>, now: Timestamp) -> Self {
        let lease = i64::try_from(SCHEDULE_LEASE.as_micros()).unwrap_or(i64::MAX);
        match outcome {
            Some(outcome) => Self::Ended(outcome),
            None if now.as_micros().saturating_sub(started_at.as_micros()) > lease => Self::Lost,
            None => Self::Running,
        }
    }

    /// Returns the word in JSON and in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended(outcome) => outcome.as_str(),
            Self::Running => "running",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for FiringStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A firing of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct CronRun {
    /// The id.
    pub id: CronRunId,
    /// The schedule.
    pub name: String,
    /// The workflow.
    pub workflow: Option<String>,
    /// The due time.
    pub due_at: Timestamp,
    /// The time at which it was fired.
    pub started_at: Timestamp,
    /// The time at which it ended.
    pub finished_at: Option<Timestamp>,
    /// The status.
    pub standing: FiringStatus,
    /// The error.
    pub error: Option<String>,
    /// More details.
    pub detail: Option<String>,
    /// The run that it started.
    pub workflow_run_id: Option<String>,
    /// The home that fired it.
    pub home_id: HomeId,
    /// The process that fired it.
    pub process_id: ProcessId,
    /// The actor.
    pub actor: Option<String>,
}

impl CronRun {
    pub(super) fn of(row: CronRunRow, now: Timestamp) -> Self {
        Self {
            id: row.id,
            name: row.name,
            workflow: row.workflow,
            due_at: row.due_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            standing: FiringStatus::of(row.started_at, row.outcome, now),
            error: row.error,
            detail: row.detail,
            workflow_run_id: row.workflow_run_id,
            home_id: row.home_id,
            process_id: row.process_id,
            actor: row.actor,
        }
    }
}

/// A page of firings, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct FiringList {
    /// The firings.
    pub runs: Vec<CronRun>,
    /// The token of the next page; `None` if this is the last page.
    pub next: Option<PageToken>,
}

/// All schedules.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleList {
    /// The schedules of the configuration, in its order.
    pub schedules: Vec<Schedule>,
    /// The names of overrides whose schedule is not in this home's configuration.
    pub elsewhere: Vec<String>,
}
