//! `duolog runs execution`: executions that belong to no run, such as chat turns.

mod begin;
mod end;
mod list;
mod session;

use duolog::errors::Invalid;
use duolog::runs::Execution as Row;
use duolog::{Error, Store};

use crate::failure::Failure;

commands! {
/// What to do with executions outside of runs.
Execution {
    Begin(begin::Begin),
    Session(session::Session),
    End(end::End),
    List(list::List),
}}

/// The execution with this id or prefix, if it belongs to no run: one of a run is changed by the run's owner alone.
fn alone(store: &Store, text: &str) -> Result<Row, Failure> {
    let executions = store.runs().executions();
    let row = executions.get(&executions.resolve(text)?)?;
    match &row.run_id {
        None => Ok(row),
        Some(run) => {
            Err(Error::Invalid(Invalid::ExecutionOfRun { execution: row.id.clone(), run: run.clone() }).into())
        }
    }
}
