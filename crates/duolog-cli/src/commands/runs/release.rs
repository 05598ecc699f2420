//! `duolog runs release`.

use clap::Args;

use super::{Context, Owned, answer_run};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs release \"$run\" --fence \"$fence\"

JSON:
  {\"run\": {… as runs list …}}";

/// Release the claim of a run
///
/// The run keeps its status and is ready to claim.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Release {
    #[command(flatten)]
    run: Owned,
}

impl Release {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let run = self.run.open(&store)?.release()?;
        let ended = answer_run(context, &run, "released; ready to claim")?;
        context.close(store);
        Ok(ended)
    }
}
