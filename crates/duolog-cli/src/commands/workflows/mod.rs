//! `duolog workflows`, and how its switches answer.

mod clear;
mod disable;
mod enable;
mod list;

use clap::Subcommand;
use duolog_wire::WorkflowSwitched;

use super::Context;
use crate::failure::{Ended, Outcome};

/// What to do with workflows.
#[derive(Subcommand)]
pub enum Workflows {
    List(list::List),
    Enable(enable::Enable),
    Disable(disable::Disable),
    Clear(clear::Clear),
}

impl Workflows {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        match self {
            Self::List(command) => command.run(context),
            Self::Enable(command) => command.run(context),
            Self::Disable(command) => command.run(context),
            Self::Clear(command) => command.run(context),
        }
    }
}

/// Says how a workflow stands after its switch was moved, and whether it was.
fn switched(context: &mut Context<'_>, workflow: &str, enabled: bool, changed: bool) -> Outcome {
    context.out.confirm(&WorkflowSwitched { workflow_name: workflow.to_owned(), enabled, changed }, |text| {
        let already = if changed { "" } else { " already" };
        text.line(format_args!("workflow {workflow} is{already} {}", if enabled { "enabled" } else { "disabled" }));
    })?;
    Ok(if changed { Ended::Done } else { Ended::AlreadyDone })
}
