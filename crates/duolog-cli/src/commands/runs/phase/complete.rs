//! `duolog runs phase complete`.

use clap::Args;

use super::super::{OwnedNamed, answer_run, text_or_stdin};
use super::Context;
use crate::args;
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs phase complete \"$run\" plan --fence \"$fence\" --summary \"three steps\"
  duolog runs phase complete \"$run\" review --fence \"$fence\" --failed

JSON:
  {\"run\": {… as runs list …}}";

/// Add the end of a phase to a run's history
///
/// The history is for people. The executions (runs phase begin and end) decide if a phase is run again. If a phase has
/// several entries, the last one counts.
#[derive(Args)]
#[command(after_help = AFTER, override_usage = "duolog runs phase complete [OPTIONS] [RUN] <PHASE>")]
#[command(mut_arg(args::SECOND_NAME, |name| name.value_name("PHASE").help("Phase name")))]
pub struct Complete {
    #[command(flatten)]
    names: OwnedNamed,
    /// Set the result to failed
    #[arg(long)]
    failed: bool,
    /// Summary of the result; - reads it from stdin
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
}

impl Complete {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (run, phase) = self.names.split("phase")?;
        let summary = self.summary.map(|text| text_or_stdin(context, text)).transpose()?;
        let store = context.open_to_write()?;
        let run = run.open(&store)?.complete_phase(&phase, !self.failed, summary.as_deref())?;
        let how = if self.failed { "failed" } else { "completed" };
        let ended = answer_run(context, &run, &format!("phase {phase} {how}"))?;
        context.close(store);
        Ok(ended)
    }
}
