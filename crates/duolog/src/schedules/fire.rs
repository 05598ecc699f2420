//! Firing a schedule: starting its run.

use duolog_state::owned::cron_runs;
use duolog_types::{CronRunId, Timestamp, TriggerType};

use super::model::{BaseSchedule, Due, FiringResult};
use super::rules;
use crate::error::{Conflict, Error, Result};
use crate::runs::{NewRun, Started, check_new_run};
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

/// Starts a run of the workflow, unless a run of the same trigger is active. The firing is recorded in the transaction
/// that starts the run, so a firing that is recorded as lost has started no run.
fn start(store: &Store, due: &Due, workflow: &str) -> FiringResult {
    let (clock, of) = (store.join.tx_clock(), due.clone());
    let started = store.runs().start_and(&new_run(due, workflow), move |tx, started| {
        let end = rules::end(&of, &result_of(started), clock.now(tx)?);
        cron_runs::finish(tx, of.id, &end)?;
        Ok(())
    });
    match started {
        Ok(started) => result_of(&started),
        Err(error @ Error::Conflict(Conflict::WorkflowDisabled { .. })) => FiringResult::skipped(error.to_string()),
        Err(error) => FiringResult::failed(error.to_string()),
    }
}

fn result_of(started: &Started) -> FiringResult {
    let run = started.run.id.to_string();
    if !started.existed {
        return FiringResult::started(run);
    }
    let detail = format!("run {run} of an earlier time is still active");
    FiringResult { workflow_run_id: Some(run), ..FiringResult::skipped(detail) }
}
