//! What is done when a schedule's time has come.

use duolog_types::TriggerType;

use super::model::{Due, Outcome};
use crate::error::Error;
use crate::runs::NewRun;
use crate::store::Store;

/// Does what a schedule is for, and says what came of it.
pub fn fire(store: &Store, due: &Due) -> Outcome {
    match &due.workflow {
        Some(workflow) => start(store, due, workflow),
        None => Outcome::nothing("no workflow"),
    }
}

/// Starts a run of the workflow. The schedule is what sets it off, so a run of an earlier time that goes on still is not
/// joined by another.
fn start(store: &Store, due: &Due, workflow: &str) -> Outcome {
    let new = NewRun {
        context: due.context.clone(),
        triggered_by: Some(format!("schedule {}", due.name)),
        ..NewRun::new(workflow, TriggerType::Cron, &due.name)
    };
    match store.runs().start(&new) {
        Ok(started) if started.existed => {
            let detail = format!("run {} of an earlier time goes on", started.run.id);
            Outcome { workflow_run_id: Some(started.run.id.to_string()), ..Outcome::skipped(detail) }
        }
        Ok(started) => Outcome::started(started.run.id.to_string()),
        Err(error @ Error::WorkflowDisabled { .. }) => Outcome::skipped(error.to_string()),
        Err(error) => Outcome::failed(error.to_string()),
    }
}
