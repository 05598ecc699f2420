//! `duolog runs fail`.

use clap::Args;

use super::{Changed, Context, Doing, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs fail \"$run\" --reason \"its sandbox is gone\"

Exit code: 6 if the run already has this status

JSON:
  {… as runs pause …}";

/// Fail a run
///
/// This works without a claim; the owner uses runs finish --error. Executions in flight are closed. The status is
/// final unless the run is retried.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Fail {
    #[command(flatten)]
    run: Changed,
    #[command(flatten)]
    doing: Doing,
}

impl Fail {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let turned = self.run.open(&store)?.fail(&self.doing.act())?;
        let ended = answer_turned(context, &turned)?;
        context.close(store);
        Ok(ended)
    }
}
