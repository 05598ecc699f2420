//! `duolog runs resume`.

use clap::Args;

use super::{Changed, Context, Doing, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs resume \"$run\"

Exit code: 6 where it was so already

JSON:
  {… as runs pause …}";

/// Have a paused run go on, for whoever claims it
///
/// One that waits at a gate is answered there instead: duolog approvals approve, reject or reply. Without a free slot the
/// run is queued, before every run that has not begun.
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
