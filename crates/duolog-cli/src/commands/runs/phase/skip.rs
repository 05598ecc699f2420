//! `duolog runs phase skip`.

use clap::Args;
use duolog_wire::ExecutionAnswer;

use super::super::Owned;
use super::Context;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs phase skip \"$run\" lint --fence \"$fence\" --reason \"nothing changed there\"

JSON:
  {\"execution\": {… as runs phase end …}}";

/// Record a phase as skipped
///
/// A skipped phase is neither done nor failed: it can still be begun, for instance after the run is resumed.
#[derive(Args)]
#[command(after_help = AFTER, allow_missing_positional = true)]
pub struct Skip {
    #[command(flatten)]
    run: Owned,
    /// Phase name
    #[arg(value_name = "PHASE")]
    phase: String,
    /// Reason to record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Skip {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let skipped = self.run.open(&store)?.skip(&self.phase, self.reason.as_deref())?;
        context.out.confirm(&ExecutionAnswer::from(&skipped), |text| {
            text.line(format_args!("{} skipped: execution {}", skipped.skill, skipped.id));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}
