//! What is done when a schedule's time has come.

use super::model::{Due, Outcome};
use crate::store::Store;

/// Does what a schedule is for, and says what came of it.
pub fn fire(store: &Store, due: &Due) -> Outcome {
    match &due.workflow {
        Some(workflow) => start(store, due, workflow),
        None => Outcome::nothing("no workflow"),
    }
}

/// THE SEAM: where a run of the workflow begins, with `due.context`, under `due.id` so that it begins once.
fn start(_store: &Store, _due: &Due, workflow: &str) -> Outcome {
    Outcome::nothing(format!("workflow {workflow} is left to whoever reads the firings: no runs are kept here"))
}
