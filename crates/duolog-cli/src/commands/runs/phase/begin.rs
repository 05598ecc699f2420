//! `duolog runs phase begin`.

use clap::Args;
use duolog::runs::Begun;
use duolog_wire::PhaseStatus;

use super::super::Owned;
use super::{Context, not_to_be_run};
use crate::commands::sessions::named;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  if execution=$(duolog runs phase begin \"$run\" build --fence \"$fence\"); then
    make && duolog runs phase end \"$run\" \"$execution\" --fence \"$fence\"
  fi

Exit code: 6 where it is done, 3 where it is being run

JSON:
  {\"workflow_run_id\", \"phase\", \"status\": \"started\"|\"running\"|\"done\", \"execution_id\"}";

/// Begin to run a phase, and print its execution; unless it is done, or being run
///
/// Looked at and entered in the ledger in one step: whatever dies, a phase that succeeded is not run again.
#[derive(Args)]
#[command(after_help = AFTER, allow_missing_positional = true)]
pub struct Begin {
    #[command(flatten)]
    run: Owned,
    /// The phase: 1 to 128 of A-Z a-z 0-9 _ . -
    #[arg(value_name = "PHASE")]
    phase: String,
    /// The session whose log tells of it, if it is known already
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

impl Begin {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let run = self.run.open(&store)?;
        let session = self.session.map(|text| named(&store, &text)).transpose()?;
        let begun = run.begin(&self.phase, session.as_ref())?;
        let status = PhaseStatus::begun(run.id(), &self.phase, &begun);
        context.out.answer(&status, |text| {
            if let Begun::Started(execution) = &begun {
                text.line(&execution.id);
            }
        })?;
        let is_started = matches!(begun, Begun::Started(_));
        let ended = if is_started { Ended::Done } else { not_to_be_run(context, &status) };
        context.close(store);
        Ok(ended)
    }
}
