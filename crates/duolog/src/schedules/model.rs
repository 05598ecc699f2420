//! What callers give and get.

use std::fmt;

use duolog_state::PageToken;
use duolog_state::owned::cron_runs::CronRunRow;
use duolog_types::limits::{REASON_BYTES_MAX, SCHEDULE_LEASE};
use duolog_types::{CronOutcome, CronRunId, HomeId, ProcessId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::Error;

duolog_types::words!(
/// What is done about times that passed while nobody looked.
#[derive(Default)]
CatchUp, "way to catch up", {
    /// The last of them is fired.
    #[default]
    Latest = "latest",
    /// Each is fired, the last [`duolog_types::limits::CATCH_UP_MAX`] of them, and each has a run of its own.
    All = "all",
    /// None is fired that is later than [`duolog_types::limits::SCHEDULE_GRACE`].
    None = "none",
});

/// A schedule as the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseSchedule {
    /// What it is called.
    pub name: String,
    /// When it fires.
    pub cron: String,
    /// The time zone in which that is meant.
    pub zone: String,
    /// Whether it does.
    pub enabled: bool,
    /// The workflow that it is for.
    pub workflow: Option<String>,
    /// What the workflow is given, as a JSON object.
    pub context: Option<String>,
    /// What is done about missed times.
    pub catch_up: CatchUp,
    /// What it is for, for people.
    pub description: Option<String>,
    /// Where the file says so, counted from one.
    pub line: usize,
}

duolog_types::words!(
/// Where a value of a schedule comes from.
Origin, "origin of a value", {
    /// The configuration.
    Base = "config",
    /// What was said over it.
    Override = "override",
});

/// A value in force, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce<T> {
    /// What is in force.
    pub value: T,
    /// Why.
    pub from: Origin,
}

/// A time to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// The instant.
    pub at: Timestamp,
    /// The same as a clock in the schedule's zone shows it.
    pub local: String,
}

/// A schedule as it is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// As the configuration has it.
    pub base: BaseSchedule,
    /// When it fires.
    pub cron: InForce<String>,
    /// In which zone.
    pub zone: InForce<String>,
    /// Whether it does.
    pub enabled: InForce<bool>,
    /// Since when something is said over it, and by whom.
    pub overridden: Option<(Timestamp, Option<String>)>,
    /// The next times; none where it is not enabled.
    pub next: Vec<Time>,
    /// Why it cannot fire, where what was said over it cannot be used.
    pub problem: Option<String>,
    /// What came of the last time.
    pub latest: Option<CronRun>,
    /// How many firings failed one after another until now.
    pub failures: u32,
    /// When the first of those was fired.
    pub failing_since: Option<Timestamp>,
}

/// What is to be said over a schedule. What is left out stays as it was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleChange {
    /// Whether it fires; nothing inside has it as the configuration does.
    pub enabled: Option<Option<bool>>,
    /// When it fires, likewise.
    pub cron: Option<Option<String>>,
    /// In which zone, likewise.
    pub zone: Option<Option<String>>,
}

/// A time that is due, and is this caller's to fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// The firing.
    pub id: CronRunId,
    /// The schedule.
    pub name: String,
    /// The workflow that it is for.
    pub workflow: Option<String>,
    /// What the workflow is given, as a JSON object.
    pub context: Option<String>,
    /// The time.
    pub due_at: Timestamp,
    /// How many times before it were missed and are not fired, as far as was counted.
    pub missed: u32,
    /// The trigger id of its run. With `catch_up = "all"` the due time is part of it, so each time has a run of its own;
    /// otherwise it is the schedule's name, and a time is skipped while the run of an earlier one is active.
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

/// How a firing ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiringResult {
    /// In a word.
    pub outcome: CronOutcome,
    /// What went wrong.
    pub error: Option<String>,
    /// What there is to say besides.
    pub detail: Option<String>,
    /// The run that was started.
    pub workflow_run_id: Option<String>,
}

impl FiringResult {
    /// A run was started.
    pub fn started(workflow_run_id: impl Into<String>) -> Self {
        Self { workflow_run_id: Some(workflow_run_id.into()), ..Self::of(CronOutcome::Ok) }
    }

    /// It is done.
    pub fn done() -> Self {
        Self::of(CronOutcome::Ok)
    }

    /// There was nothing to do, and why.
    pub fn nothing(detail: impl AsRef<str>) -> Self {
        Self { detail: Some(clipped(detail.as_ref())), ..Self::of(CronOutcome::Nothing) }
    }

    /// It was left out, and why.
    pub fn skipped(detail: impl AsRef<str>) -> Self {
        Self { detail: Some(clipped(detail.as_ref())), ..Self::of(CronOutcome::Skipped) }
    }

    /// It went wrong.
    pub fn failed(error: impl AsRef<str>) -> Self {
        Self { error: Some(clipped(error.as_ref())), ..Self::of(CronOutcome::Failed) }
    }

    const fn of(outcome: CronOutcome) -> Self {
        Self { outcome, error: None, detail: None, workflow_run_id: None }
    }
}

/// The start of a text that fits its row, without the NUL bytes that a server has no place for. Nothing is no text.
fn clipped(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
    if text.is_empty() { "it was not said why".to_owned() } else { text }
}

/// A time that was fired, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The time.
    pub due: Due,
    /// What came of it.
    pub outcome: FiringResult,
}

/// What a tick did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticked {
    /// What was fired or skipped, in the order in which it was.
    pub fired: Vec<Fired>,
    /// Due times that another process fired.
    pub taken: u32,
    /// Schedules that cannot fire, and why.
    pub problems: Vec<(String, String)>,
}

/// An error that stopped a tick, with what the tick did before. The times that it did not come to stay due.
#[derive(Debug)]
pub struct Interrupted {
    /// What was done.
    pub ticked: Ticked,
    /// What went wrong.
    pub error: Error,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot fire what else is due, after {} times: {}", self.ticked.fired.len(), self.error)
    }
}

impl std::error::Error for Interrupted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// How a firing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FiringStatus {
    /// It ended.
    Ended(CronOutcome),
    /// It goes on.
    Running,
    /// Whoever fired it is gone: it began long ago, and no end was told. It is not fired again.
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

    /// The word in JSON and for people.
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
    /// Its id.
    pub id: CronRunId,
    /// The schedule.
    pub name: String,
    /// The workflow that it was for.
    pub workflow: Option<String>,
    /// The time.
    pub due_at: Timestamp,
    /// When it was fired.
    pub started_at: Timestamp,
    /// When that was done.
    pub finished_at: Option<Timestamp>,
    /// How it stands.
    pub standing: FiringStatus,
    /// What went wrong.
    pub error: Option<String>,
    /// What there is to say besides.
    pub detail: Option<String>,
    /// The run that it started.
    pub workflow_run_id: Option<String>,
    /// The home that fired it.
    pub home_id: HomeId,
    /// The process that fired it.
    pub process_id: ProcessId,
    /// Who had it fired.
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

/// A page of firings, the latest time first.
#[derive(Clone, Debug, PartialEq)]
pub struct FiringList {
    /// The firings.
    pub runs: Vec<CronRun>,
    /// The token of the next page, where there is one.
    pub next: Option<PageToken>,
}

/// All schedules.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleList {
    /// Those of the configuration, in its order.
    pub schedules: Vec<Schedule>,
    /// Names over which something is said, and which this home's configuration does not have.
    pub elsewhere: Vec<String>,
}
