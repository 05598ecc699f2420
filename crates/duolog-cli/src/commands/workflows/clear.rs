//! `duolog workflows clear`.

use clap::Args;

use super::{Context, switched};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog workflows clear build

Exit code: 6 if nothing changed

JSON:
  {… as workflows enable …}";

/// Reset a workflow to its default (enabled)
///
/// This removes the setting of workflows enable or disable.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Clear {
    /// Workflow name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
}

impl Clear {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let changed = store.workflows().clear(&self.workflow)?;
        let ended = switched(context, &self.workflow, true, changed)?;
        context.close(store);
        Ok(ended)
    }
}
