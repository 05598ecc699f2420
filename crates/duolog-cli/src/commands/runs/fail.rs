//! `duolog runs fail`.

use clap::Args;

use super::{Changed, Context, Doing, answer_turned};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs fail \"$run\" --reason \"its sandbox is gone\"

Exit code: 6 where it was so already

JSON:
  {… as runs pause …}";

/// Fail a run from outside, whoever runs it
///
/// Its owner says runs finish --error. What is in flight is closed. Only a retry leaves this.
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
