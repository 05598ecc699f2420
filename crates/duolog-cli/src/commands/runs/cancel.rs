//! `duolog runs cancel`.

use clap::Args;

use super::{Changed, Context, Doing, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs cancel \"$run\" --reason \"not needed any more\"

Exit code: 6 if the run already has this status

JSON:
  {… as runs pause …}";

/// Cancel a run
///
/// This works without a claim. Executions in flight are closed, and a pending gate can no longer be answered. The
/// status is final unless the run is retried.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Cancel {
    #[command(flatten)]
    run: Changed,
    #[command(flatten)]
    doing: Doing,
}

impl Cancel {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let turned = self.run.open(&store)?.cancel(&self.doing.act())?;
        let ended = answer_turned(context, &turned)?;
        context.close(store);
        Ok(ended)
    }
}
