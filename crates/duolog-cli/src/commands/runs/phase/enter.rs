//! `duolog runs phase enter`.

use clap::Args;

use super::super::{Owned, answer_run};
use super::Context;
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs phase enter \"$run\" waiting-for-ci --fence \"$fence\"

JSON:
  {\"run\": {… as runs list …}}";

/// Set the current phase of a run
///
/// No execution is recorded.
#[derive(Args)]
#[command(after_help = AFTER, allow_missing_positional = true)]
pub struct Enter {
    #[command(flatten)]
    run: Owned,
    /// Phase name
    #[arg(value_name = "PHASE")]
    phase: String,
}

impl Enter {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let run = self.run.open(&store)?.enter_phase(&self.phase)?;
        let ended = answer_run(context, &run, &format!("now in phase {}", self.phase))?;
        context.close(store);
        Ok(ended)
    }
}
