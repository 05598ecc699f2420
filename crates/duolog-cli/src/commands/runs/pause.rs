//! `duolog runs pause`.

use clap::Args;

use super::{Changed, Context, Doing, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs pause \"$run\" --reason \"the release is frozen\"

Exit code: 6 where it was so already

JSON:
  {\"run\": {… as runs list …}, \"previous_status\", \"changed\": true|false}";

/// Stop a run until somebody resumes it
///
/// Its claim and its slot end with it: writes under the old fence are refused. What is in flight stays in the ledger until
/// the run is claimed again.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Pause {
    #[command(flatten)]
    run: Changed,
    #[command(flatten)]
    doing: Doing,
}

impl Pause {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let turned = self.run.open(&store)?.pause(&self.doing.act())?;
        let ended = answer_turned(context, &turned)?;
        context.close(store);
        Ok(ended)
    }
}
