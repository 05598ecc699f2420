//! Schedules, their overrides and their runs.

use duolog::CronOutcome;
use duolog::schedules::{self, CatchUp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Json;
use crate::page::Listed;
use crate::schema::{SCHEDULE_STATUSES, words};

/// All schedules of the configuration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleList {
    /// The schedules, in the order of the configuration.
    pub schedules: Vec<ScheduleSummary>,
    /// Always null: all schedules are on one page.
    pub next: Option<String>,
    /// Schedules that have an override but are not in the configuration.
    pub unknown_overrides: Vec<String>,
}

impl From<&schedules::ScheduleList> for ScheduleList {
    fn from(list: &schedules::ScheduleList) -> Self {
        Self {
            schedules: list.schedules.iter().map(ScheduleSummary::from).collect(),
            next: None,
            unknown_overrides: list.elsewhere.clone(),
        }
    }
}

/// A schedule in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleSummary {
    /// Name.
    pub name: String,
    /// True if the schedule is enabled.
    pub enabled: bool,
    /// Cron expression.
    pub cron: String,
    /// The time zone of the cron expression.
    pub zone: String,
    /// The workflow to start.
    pub workflow_name: Option<String>,
    /// True if the schedule has an override.
    pub overridden: bool,
    /// Next due time.
    pub next_due_at: Option<String>,
    /// Next due time in the time zone of the schedule.
    pub next_due_local: Option<String>,
    /// Reason why it cannot fire.
    pub problem: Option<String>,
    /// Number of consecutive failed runs.
    pub consecutive_failures: u32,
    /// Last run.
    pub latest_run: Option<ScheduleRun>,
}

impl From<&schedules::Schedule> for ScheduleSummary {
    fn from(schedule: &schedules::Schedule) -> Self {
        Self {
            name: schedule.base.name.clone(),
            enabled: schedule.enabled.value,
            cron: schedule.cron.value.clone(),
            zone: schedule.zone.value.clone(),
            workflow_name: schedule.base.workflow.clone(),
            overridden: schedule.overridden.is_some(),
            next_due_at: schedule.next.first().map(|time| time.at.to_string()),
            next_due_local: schedule.next.first().map(|time| time.local.clone()),
            problem: schedule.problem.clone(),
            consecutive_failures: schedule.failures,
            latest_run: schedule.latest.as_ref().map(ScheduleRun::from),
        }
    }
}

/// `{"schedule": {…}}`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleAnswer {
    /// The schedule.
    pub schedule: Schedule,
}

/// The effective schedule.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Schedule {
    /// Name.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// The workflow to start.
    pub workflow_name: Option<String>,
    /// Context of the run.
    pub context: Option<Json>,
    /// Policy for missed times.
    #[schemars(extend("enum" = words(CatchUp::ALL, CatchUp::as_str)))]
    pub catch_up: &'static str,
    /// Line in the configuration file.
    pub line: u64,
    /// True if the schedule is enabled.
    pub enabled: bool,
    /// Source of `enabled`.
    #[schemars(extend("enum" = ["config", "override"]))]
    pub enabled_source: &'static str,
    /// Cron expression.
    pub cron: String,
    /// Source of `cron`.
    #[schemars(extend("enum" = ["config", "override"]))]
    pub cron_source: &'static str,
    /// The time zone of the cron expression.
    pub zone: String,
    /// Source of `zone`.
    #[schemars(extend("enum" = ["config", "override"]))]
    pub zone_source: &'static str,
    /// Time of the override.
    pub updated_at: Option<String>,
    /// Actor of the override.
    pub updated_by: Option<String>,
    /// The next due times.
    pub next_times: Vec<ScheduleTime>,
    /// Reason why it cannot fire.
    pub problem: Option<String>,
    /// Number of consecutive failed runs.
    pub consecutive_failures: u32,
    /// Last run.
    pub latest_run: Option<ScheduleRun>,
}

impl From<&schedules::Schedule> for ScheduleAnswer {
    fn from(schedule: &schedules::Schedule) -> Self {
        let base = &schedule.base;
        let schedule = Schedule {
            name: base.name.clone(),
            description: base.description.clone(),
            workflow_name: base.workflow.clone(),
            context: base.context.as_deref().map(Json::of),
            catch_up: base.catch_up.as_str(),
            line: base.line as u64,
            enabled: schedule.enabled.value,
            enabled_source: schedule.enabled.from.as_str(),
            cron: schedule.cron.value.clone(),
            cron_source: schedule.cron.from.as_str(),
            zone: schedule.zone.value.clone(),
            zone_source: schedule.zone.from.as_str(),
            updated_at: schedule.overridden.as_ref().map(|(at, _)| at.to_string()),
            updated_by: schedule.overridden.as_ref().and_then(|(_, by)| by.clone()),
            next_times: schedule.next.iter().map(ScheduleTime::from).collect(),
            problem: schedule.problem.clone(),
            consecutive_failures: schedule.failures,
            latest_run: schedule.latest.as_ref().map(ScheduleRun::from),
        };
        Self { schedule }
    }
}

/// A due time of a schedule.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleTime {
    /// Due time.
    pub due_at: String,
    /// Due time in the time zone of the schedule.
    pub due_local: String,
}

impl From<&schedules::Time> for ScheduleTime {
    fn from(time: &schedules::Time) -> Self {
        Self { due_at: time.at.to_string(), due_local: time.local.clone() }
    }
}

/// A run of a schedule.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleRun {
    /// Id.
    pub id: String,
    /// The schedule.
    pub schedule_name: String,
    /// Workflow name.
    pub workflow_name: Option<String>,
    /// Due time.
    pub due_at: String,
    /// Firing time.
    pub started_at: String,
    /// End time.
    pub finished_at: Option<String>,
    /// Status. `lost` if the process that fired it disappeared; the time is not fired again.
    #[schemars(extend("enum" = SCHEDULE_STATUSES))]
    pub status: &'static str,
    /// Error message.
    pub error_message: Option<String>,
    /// Details of the status.
    pub detail: Option<String>,
    /// The started run.
    pub workflow_run_id: Option<String>,
    /// The home that fired it.
    pub home_id: String,
    /// Actor of the tick.
    pub actor: Option<String>,
}

impl Listed for ScheduleRun {
    const PLURAL: &'static str = "schedule_runs";
}

impl From<&schedules::CronRun> for ScheduleRun {
    fn from(run: &schedules::CronRun) -> Self {
        Self {
            id: run.id.to_string(),
            schedule_name: run.name.clone(),
            workflow_name: run.workflow.clone(),
            due_at: run.due_at.to_string(),
            started_at: run.started_at.to_string(),
            finished_at: run.finished_at.map(|at| at.to_string()),
            status: run.standing.as_str(),
            error_message: run.error.clone(),
            detail: run.detail.clone(),
            workflow_run_id: run.workflow_run_id.clone(),
            home_id: run.home_id.to_string(),
            actor: run.actor.clone(),
        }
    }
}

/// The result of a tick.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleTicked {
    /// The times that were fired or skipped, in order.
    pub fired: Vec<ScheduleFired>,
    /// Due times fired by another process.
    pub fired_elsewhere: u32,
    /// Schedules that cannot fire.
    pub problems: Vec<ScheduleProblem>,
}

impl From<&schedules::Ticked> for ScheduleTicked {
    fn from(ticked: &schedules::Ticked) -> Self {
        let problem = |(name, problem): &(String, String)| ScheduleProblem {
            schedule_name: name.clone(),
            problem: problem.clone(),
        };
        Self {
            fired: ticked.fired.iter().map(ScheduleFired::from).collect(),
            fired_elsewhere: ticked.taken,
            problems: ticked.problems.iter().map(problem).collect(),
        }
    }
}

/// A fired time and its outcome.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleFired {
    /// Id of the schedule run.
    pub id: String,
    /// The schedule.
    pub schedule_name: String,
    /// Workflow name.
    pub workflow_name: Option<String>,
    /// Due time.
    pub due_at: String,
    /// Missed times that are not fired.
    pub missed: u32,
    /// Outcome.
    #[schemars(extend("enum" = words(CronOutcome::ALL, CronOutcome::as_str)))]
    pub status: &'static str,
    /// Error message.
    pub error_message: Option<String>,
    /// Details of the status.
    pub detail: Option<String>,
    /// The started run.
    pub workflow_run_id: Option<String>,
}

impl From<&schedules::Fired> for ScheduleFired {
    fn from(fired: &schedules::Fired) -> Self {
        let schedules::Fired { due, outcome } = fired;
        Self {
            id: due.id.to_string(),
            schedule_name: due.name.clone(),
            workflow_name: due.workflow.clone(),
            due_at: due.due_at.to_string(),
            missed: due.missed,
            status: outcome.outcome.as_str(),
            error_message: outcome.error.clone(),
            detail: outcome.detail.clone(),
            workflow_run_id: outcome.workflow_run_id.clone(),
        }
    }
}

/// A schedule that cannot fire.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleProblem {
    /// The schedule.
    pub schedule_name: String,
    /// Reason.
    pub problem: String,
}

/// A schedule whose override was removed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleCleared {
    /// The schedule.
    pub schedule_name: String,
    /// False if the schedule had no override.
    pub changed: bool,
}
