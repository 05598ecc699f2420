//! `duolog approvals reject`.

use clap::Args;

use super::{Asked, Context, answered};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog approvals reject \"$gate\" --by ada --reason \"not on a Friday\"

Exit code: 1 where it was answered before, or can no longer be

JSON:
  {… as approvals approve …}";

/// Say no at a gate: its run fails, with the answer as the reason
///
/// The answer and the run change together, or not at all. Of two answers only the first counts.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Reject {
    #[command(flatten)]
    asked: Asked,
    /// Why
    #[arg(long, visible_alias = "response", value_name = "TEXT")]
    reason: Option<String>,
}

impl Reject {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let (id, answer) = self.asked.answer(&store, self.reason)?;
        let done = store.approvals().reject(&id, &answer)?;
        let ended = answered(context, &done)?;
        context.close(store);
        Ok(ended)
    }
}
