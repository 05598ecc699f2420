//! `duolog runs phase skip`.

use clap::Args;
use duolog_wire::ExecutionAnswer;

use super::super::OwnedNamed;
use super::Context;
use crate::args;
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
#[command(after_help = AFTER, override_usage = "duolog runs phase skip [OPTIONS] [RUN] <PHASE>")]
#[command(mut_arg(args::SECOND_NAME, |name| name.value_name("PHASE").help("Phase name")))]
pub struct Skip {
    #[command(flatten)]
    names: OwnedNamed,
    /// Reason to record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Skip {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (run, phase) = self.names.split("phase")?;
        let store = context.open_to_write()?;
        let skipped = run.open(&store)?.skip(&phase, self.reason.as_deref())?;
        context.out.confirm(&ExecutionAnswer::from(&skipped), |text| {
            text.line(format_args!("{} skipped: execution {}", skipped.skill, skipped.id));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}
