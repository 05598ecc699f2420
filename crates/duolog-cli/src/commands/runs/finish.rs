//! `duolog runs finish`.

use clap::Args;
use duolog::runs::End;

use super::{Context, Owned, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs finish \"$run\" --fence \"$fence\"
  duolog runs finish \"$run\" --fence \"$fence\" --error \"the tests do not pass\"

Exit code: 6 where it was so already

JSON:
  {… as runs pause …}";

/// End a run, as its owner: well, or with an error
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Finish {
    #[command(flatten)]
    run: Owned,
    /// It failed, and this is why
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// The last entry of its history, as a phase is called
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
