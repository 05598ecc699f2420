//! `duolog runs resume`.

use clap::Args;

use super::{Changed, Context, Doing, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs resume \"$run\"

Exit code: 6 if the run already has this status

JSON:
  {… as runs pause …}";

/// Resume a paused run
///
/// The run is then ready to claim. If no slot is free, it is queued before all runs that have not started. To resume a
/// run that waits at a gate, answer the gate: duolog approvals approve, reject or reply.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Resume {
    #[command(flatten)]
    run: Changed,
    #[command(flatten)]
    doing: Doing,
}

impl Resume {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let turned = self.run.open(&store)?.resume(&self.doing.act())?;
        let ended = answer_turned(context, &turned)?;
        context.close(store);
        Ok(ended)
    }
}
