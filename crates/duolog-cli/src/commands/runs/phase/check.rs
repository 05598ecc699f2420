//! `duolog runs phase check`.

use clap::Args;
use duolog::ExecutionId;
use duolog::runs::PhaseStanding;

use super::{Context, Stands, not_to_be_run};
use crate::failure::{Ended, Outcome};

const AFTER: &str = "\
Examples:
  duolog runs phase check \"$run\" build && echo \"build is to be run\"

Exit code: 1 where it is done, 3 where it is being run

JSON:
  {\"run\": id, \"phase\", \"standing\": \"run\"|\"running\"|\"done\", \"execution\": id|null}";

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
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = context.open_to_read()?;
        let run = store.runs().open(&store.runs().resolve(&self.run)?);
        let (standing, execution) = match run.should_run_phase(&self.phase)? {
            PhaseStanding::Run => ("run", None),
            PhaseStanding::Running(execution) => ("running", Some(execution)),
            PhaseStanding::Done(execution) => ("done", Some(execution)),
        };
        let execution = execution.as_ref().map(ExecutionId::as_str);
        let stands = Stands { run: run.id().as_str(), phase: &self.phase, standing, execution };
        context.out.answer(&stands, |text| text.line(standing))?;
        Ok(if execution.is_none() { Ended::Done } else { not_to_be_run(context, &stands) })
    }
}
