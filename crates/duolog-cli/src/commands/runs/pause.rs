//! `duolog runs pause`.

use clap::Args;

use super::{Changed, Context, Doing, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs pause \"$run\" --reason \"the release is frozen\"

Exit code: 6 if the run already has this status

JSON:
  {\"run\": {… as runs list …}, \"previous_status\", \"changed\": true|false}";

/// Pause a run until it is resumed
///
/// The claim ends and the slot is released: writes with the old fence are refused. Executions in flight stay open until
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
