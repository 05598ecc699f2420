//! `duolog runs cancel`.

use clap::Args;

use super::{Changed, Context, Doing, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs cancel \"$run\" --reason \"not needed any more\"

Exit code: 6 where it was so already

JSON:
  {… as runs pause …}";

/// End a run from outside, whoever runs it
///
/// What is in flight is closed, and the gate that it waits at can no longer be answered. Only a retry leaves this.
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
