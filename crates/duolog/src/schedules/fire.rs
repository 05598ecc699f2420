//! Firing a schedule: starting its run.

use duolog_types::{CronRunId, Timestamp, TriggerType};

use super::model::{BaseSchedule, Due, FiringResult};
use crate::error::{Conflict, Error, Result};
use crate::runs::{NewRun, check_new_run};
use crate::store::Store;

/// Fires a schedule, and returns the result.
pub fn fire(store: &Store, due: &Due) -> FiringResult {
    match &due.workflow {
        Some(workflow) => start(store, due, workflow),
        None => FiringResult::nothing("no workflow"),
    }
}

/// Returns an error if the schedule can never start a run. The check is made when the configuration is read.
pub(crate) fn check(base: &BaseSchedule) -> Result<()> {
    let due = Due::of(base, CronRunId::new(), Timestamp::from_micros(0), 0);
    due.workflow.as_deref().map_or(Ok(()), |workflow| check_new_run(&new_run(&due, workflow)))
}

fn new_run(due: &Due, workflow: &str) -> NewRun {
    NewRun {
        context: due.context.clone(),
        triggered_by: Some(format!("schedule {}", due.name)),
        ..NewRun::new(workflow, TriggerType::Cron, &due.trigger_id)
    }
}

/// Starts a run of the workflow, unless a run of the same trigger is active.
fn start(store: &Store, due: &Due, workflow: &str) -> FiringResult {
    match store.runs().start(&new_run(due, workflow)) {
        Ok(started) if started.existed => {
            let detail = format!("run {} of an earlier time is still active", started.run.id);
            FiringResult { workflow_run_id: Some(started.run.id.to_string()), ..FiringResult::skipped(detail) }
        }
        Ok(started) => FiringResult::started(started.run.id.to_string()),
        Err(error @ Error::Conflict(Conflict::WorkflowDisabled { .. })) => FiringResult::skipped(error.to_string()),
        Err(error) => FiringResult::failed(error.to_string()),
    }
}
