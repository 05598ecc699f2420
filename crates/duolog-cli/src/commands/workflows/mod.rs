//! `duolog workflows`, and the output that its commands share.

mod clear;
mod disable;
mod enable;
mod list;

use duolog_wire::WorkflowSwitched;

use super::Context;
use crate::failure::{CommandResult, Ended};

commands! {
/// Subcommands of `duolog workflows`.
Workflows {
    List(list::List),
    Enable(enable::Enable),
    Disable(disable::Disable),
    Clear(clear::Clear),
}}

/// Prints the setting of a workflow, and notes if it did not change.
fn switched(context: &mut Context<'_>, workflow: &str, enabled: bool, changed: bool) -> CommandResult {
    context.out.confirm(&WorkflowSwitched { workflow_name: workflow.to_owned(), enabled, changed }, |text| {
        let already = if changed { "" } else { " already" };
        text.line(format_args!("workflow {workflow} is{already} {}", if enabled { "enabled" } else { "disabled" }));
    })?;
    Ok(if changed { Ended::Done } else { Ended::AlreadyDone })
}
