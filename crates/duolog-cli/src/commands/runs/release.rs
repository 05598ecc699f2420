//! `duolog runs release`.

use clap::Args;

use super::{Context, Owned, answer_run};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs release \"$run\" --fence \"$fence\"

JSON:
  {\"run\": {… as runs list …}}";

/// Give a claim up: the run goes on, for whoever claims it next
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
        let ended = answer_run(context, &run, "given up, for whoever claims it next")?;
        context.close(store);
        Ok(ended)
    }
}
