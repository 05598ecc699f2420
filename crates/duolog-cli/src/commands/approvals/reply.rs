//! `duolog approvals reply`.

use clap::Args;

use super::{Asked, Context, answered};
use crate::commands::runs::text_or_stdin;
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog approvals reply \"$gate\" \"blue, and no gradients\" --by ada
  duolog approvals reply --run \"$run\" --gate design --response - < answer.txt

Exit code: 1 if the gate is no longer pending

JSON:
  {… as approvals approve …}";

/// Reply to a gate with a text
///
/// The run is then ready to claim. The answer and the run's status change in one transaction, and only the first answer
/// counts.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Reply {
    #[command(flatten)]
    asked: Asked,
    /// Text of the reply; - reads it from stdin
    #[arg(value_name = "TEXT", required_unless_present = "response", conflicts_with = "response")]
    text: Option<String>,
    /// Text of the reply, as a flag; - reads it from stdin
    #[arg(long, value_name = "TEXT")]
    response: Option<String>,
}

impl Reply {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let response = text_or_stdin(context, self.text.or(self.response).unwrap_or_default())?;
        let store = context.open_to_write()?;
        let (id, answer) = self.asked.answer(&store, Some(response))?;
        let done = store.approvals().reply(&id, &answer)?;
        let ended = answered(context, &done)?;
        context.close(store);
        Ok(ended)
    }
}
