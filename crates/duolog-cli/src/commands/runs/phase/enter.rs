//! `duolog runs phase enter`.

use clap::Args;

use super::super::{OwnedNamed, answer_run};
use super::Context;
use crate::args;
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
#[command(after_help = AFTER, override_usage = "duolog runs phase enter [OPTIONS] [RUN] <PHASE>")]
#[command(mut_arg(args::SECOND_NAME, |name| name.value_name("PHASE").help("Phase name")))]
pub struct Enter {
    #[command(flatten)]
    names: OwnedNamed,
}

impl Enter {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (run, phase) = self.names.split("phase")?;
        let store = context.open_to_write()?;
        let run = run.open(&store)?.enter_phase(&phase)?;
        let ended = answer_run(context, &run, &format!("now in phase {phase}"))?;
        context.close(store);
        Ok(ended)
    }
}
