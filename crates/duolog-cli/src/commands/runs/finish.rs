//! `duolog runs finish`.

use clap::Args;
use duolog::runs::End;

use super::{Context, Owned, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs finish \"$run\" --fence \"$fence\"
  duolog runs finish \"$run\" --fence \"$fence\" --error \"the tests do not pass\"

Exit code: 6 if the run already has this status

JSON:
  {… as runs pause …}";

/// Finish a run as its owner
///
/// The run succeeds, or fails if --error is given.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Finish {
    #[command(flatten)]
    run: Owned,
    /// Error of the run; its status is then failed
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Name of a last phase entry for the run's history
    #[arg(long, value_name = "PHASE")]
    marker: Option<String>,
}

impl Finish {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let end = self.error.map_or(End::Succeeded, End::Failed);
        let turned = self.run.open(&store)?.finish(&end, self.marker.as_deref())?;
        let ended = answer_turned(context, &turned)?;
        context.close(store);
        Ok(ended)
    }
}
