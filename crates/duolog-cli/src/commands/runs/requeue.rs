//! `duolog runs requeue`.

use clap::Args;

use super::{Context, Doing, Owned, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs requeue \"$run\" --fence \"$fence\" --reason \"quota\"

Exit code: 6 if the run already has this status

JSON:
  {… as runs pause …}";

/// Put a run back into the queue as its owner
///
/// The run releases its slot and goes to the end of the queue, for instance because a quota is used up. Phases that
/// succeeded stay done.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Requeue {
    #[command(flatten)]
    run: Owned,
    #[command(flatten)]
    doing: Doing,
}

impl Requeue {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let turned = self.run.open(&store)?.requeue(&self.doing.act())?;
        let ended = answer_turned(context, &turned)?;
        context.close(store);
        Ok(ended)
    }
}
