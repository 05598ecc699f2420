//! `duolog approvals reject`.

use clap::Args;

use super::{Asked, Context, answered};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog approvals reject \"$gate\" --by ada --reason \"not on a Friday\"

Exit code: 1 if the gate is no longer pending

JSON:
  {… as approvals approve …}";

/// Reject a gate
///
/// The run fails. The answer and the run's status change in one transaction, and only the first answer counts.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Reject {
    #[command(flatten)]
    asked: Asked,
    /// Reason to record
    #[arg(long, value_name = "TEXT")]
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
