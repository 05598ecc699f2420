//! `duolog runs phase check`.

use clap::Args;
use duolog_wire::PhaseStatus;

use super::{Context, not_to_be_run};
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs phase check \"$run\" build && echo \"build must run\"

Exit code: 3 if the phase is running · 6 if it is done

JSON:
  {\"workflow_run_id\", \"phase\", \"status\": \"run\"|\"running\"|\"done\", \"execution_id\": id|null}";

/// Check if a phase must be run
///
/// The command prints run, running or done. The executions of the phase decide, not the history of the run.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Check {
    /// Run id or a unique prefix
    #[arg(value_name = "RUN")]
    run: String,
    /// Phase name
    #[arg(value_name = "PHASE")]
    phase: String,
}

impl Check {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let run = store.runs().open(&store.runs().resolve(&self.run)?);
        let status = PhaseStatus::of(run.id(), &self.phase, &run.should_run_phase(&self.phase)?);
        context.out.answer(&status, |text| text.line(status.status))?;
        Ok(if status.execution_id.is_none() { Ended::Done } else { not_to_be_run(context, &status) })
    }
}
