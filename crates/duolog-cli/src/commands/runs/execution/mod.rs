//! `duolog runs execution`: executions that belong to no run, such as chat turns.

mod begin;
mod end;
mod list;
mod session;

use duolog::errors::Invalid;
use duolog::runs::Execution as Row;
use duolog::{Error, ExecutionId, Store};

use crate::failure::Failure;

commands! {
/// What to do with executions outside of runs.
Execution {
    Begin(begin::Begin),
    Session(session::Session),
    End(end::End),
    List(list::List),
}}

/// The execution with this id, if it belongs to no run: one of a run is changed by the run's owner alone.
fn alone(store: &Store, id: &ExecutionId) -> Result<Row, Failure> {
    let row = store.runs().executions().get(id)?;
    match &row.run_id {
        None => Ok(row),
        Some(run) => Err(Error::Invalid(Invalid::ExecutionOfRun { execution: id.clone(), run: run.clone() }).into()),
    }
}
