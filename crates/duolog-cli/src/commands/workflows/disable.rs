//! `duolog workflows disable`.

use clap::Args;

use super::{Context, switched};
use crate::commands::sessions::actor;
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog workflows disable build --by ada

Exit code: 6 where nothing changed

JSON:
  {… as workflows enable …}";

/// Have a workflow refuse to be started, or to leave the queue
///
/// Runs that run go on.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Disable {
    /// The workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Who says so; the user where it is not given
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
