//! `duolog workflows disable`.

use clap::Args;

use super::{Context, switched};
use crate::commands::sessions::actor;
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog workflows disable build --by ada

Exit code: 6 if nothing changed

JSON:
  {… as workflows enable …}";

/// Disable a workflow
///
/// New runs are refused, and queued runs stay queued. Running runs continue.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Disable {
    /// Workflow name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Actor to record [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Disable {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let changed = store.workflows().disable(&self.workflow, actor(self.by).as_deref())?;
        let ended = switched(context, &self.workflow, false, changed)?;
        context.close(store);
        Ok(ended)
    }
}
