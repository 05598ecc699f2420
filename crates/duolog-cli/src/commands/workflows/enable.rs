//! `duolog workflows enable`.

use clap::Args;

use super::{Context, switched};
use crate::commands::sessions::actor;
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog workflows enable build

Exit code: 6 if nothing changed

JSON:
  {\"workflow_name\", \"enabled\": true, \"changed\": true|false}";

/// Enable a workflow
///
/// New runs can start, and queued runs can be admitted.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Enable {
    /// Workflow name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Actor to record [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Enable {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let changed = store.workflows().enable(&self.workflow, actor(self.by).as_deref())?;
        let ended = switched(context, &self.workflow, true, changed)?;
        context.close(store);
        Ok(ended)
    }
}
