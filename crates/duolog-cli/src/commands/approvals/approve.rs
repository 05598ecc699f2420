//! `duolog approvals approve`.

use clap::Args;

use super::{Asked, Context, answered};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog approvals approve \"$gate\" --by ada
  duolog approvals approve --run \"$run\" --gate ship --hash \"$(sha256sum < plan.md)\"

Exit code: 1 if the gate is no longer pending

JSON:
  {\"approval\": {… as approvals list …}, \"run\": {… as runs list …}}";

/// Approve a gate
///
/// The run is then ready to claim. The answer and the run's status change in one transaction, and only the first answer
/// counts.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Approve {
    #[command(flatten)]
    asked: Asked,
    /// Reason to record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Approve {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let (id, answer) = self.asked.answer(&store, self.reason)?;
        let done = store.approvals().approve(&id, &answer)?;
        let ended = answered(context, &done)?;
        context.close(store);
        Ok(ended)
    }
}
