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
/// Subcommands of `duolog runs execution`.
Execution {
    Begin(begin::Begin),
    Session(session::Session),
    End(end::End),
    List(list::List),
}}

/// Returns the execution with this id or prefix.
///
/// Returns an error if it belongs to a run: only the run's owner can change it.
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
