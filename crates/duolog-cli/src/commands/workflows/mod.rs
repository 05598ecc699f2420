//! `duolog workflows`, and how its switches answer.

mod clear;
mod disable;
mod enable;
mod list;

use duolog_wire::WorkflowSwitched;

use super::Context;
use crate::failure::{CommandResult, Ended};

commands! {
/// What to do with workflows.
Workflows {
    List(list::List),
    Enable(enable::Enable),
    Disable(disable::Disable),
    Clear(clear::Clear),
}}

/// Says how a workflow stands after its switch was moved, and whether it was.
fn switched(context: &mut Context<'_>, workflow: &str, enabled: bool, changed: bool) -> CommandResult {
    context.out.confirm(&WorkflowSwitched { workflow_name: workflow.to_owned(), enabled, changed }, |text| {
        let already = if changed { "" } else { " already" };
        text.line(format_args!("workflow {workflow} is{already} {}", if enabled { "enabled" } else { "disabled" }));
    })?;
    Ok(if changed { Ended::Done } else { Ended::AlreadyDone })
}
