//! `duolog runs retry`.

use clap::Args;
use duolog::runs::Admission;

use super::{Changed, Context, Doing, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs retry \"$run\"
  duolog runs retry \"$run\" --queue --reason \"the network is back\"

Exit code: 6 if the run already has this status

JSON:
  {… as runs pause …}";

/// Retry a failed or cancelled run
///
/// Phases that succeeded are not run again. The number of takeovers starts at 0 again.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Retry {
    #[command(flatten)]
    run: Changed,
    /// Queue the run even if a slot is free
    #[arg(long)]
    queue: bool,
    #[command(flatten)]
    doing: Doing,
}

impl Retry {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let admission = if self.queue { Admission::Queue } else { Admission::IfFree };
        let turned = self.run.open(&store)?.retry(admission, &self.doing.act())?;
        let ended = answer_turned(context, &turned)?;
        context.close(store);
        Ok(ended)
    }
}
