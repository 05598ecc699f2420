//! `duolog approvals approve`.

use clap::Args;

use super::{Asked, Context, answered};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog approvals approve \"$gate\" --by ada
  duolog approvals approve --run \"$run\" --gate ship --hash \"$(sha256sum < plan.md)\"

Exit code: 1 where it was answered before, or can no longer be

JSON:
  {\"approval\": {… as approvals list …}, \"run\": {… as runs list …}}";

/// Say yes at a gate: its run goes on, for whoever claims it
///
/// The answer and the run change together, or not at all. Of two answers only the first counts.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Approve {
    #[command(flatten)]
    asked: Asked,
    /// What to add to it
    #[arg(long, visible_alias = "reason", value_name = "TEXT")]
    response: Option<String>,
}

impl Approve {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let (id, answer) = self.asked.answer(&store, self.response)?;
        let done = store.approvals().approve(&id, &answer)?;
        let ended = answered(context, &done)?;
        context.close(store);
        Ok(ended)
    }
}
