//! `duolog runs phase check`.

use clap::Args;
use duolog_wire::PhaseStatus;

use super::{Context, not_to_be_run};
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs phase check \"$run\" build && echo \"build is to be run\"

Exit code: 6 where it is done, 3 where it is being run

JSON:
  {\"workflow_run_id\", \"phase\", \"status\": \"run\"|\"running\"|\"done\", \"execution_id\": id|null}";

/// Tell whether a phase is to be run, is being run or is done, as the ledger says
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Check {
    /// The run: its id, or the beginning of one
    #[arg(value_name = "RUN")]
    run: String,
    /// The phase
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
