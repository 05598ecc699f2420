//! `duolog runs scratch`.

use clap::Args;
use duolog_wire as wire;

use super::{Context, Owned, in_argument, text_or_stdin};
use crate::commands::sessions::one_line;
use crate::failure::{CommandResult, Ended};
use crate::out::plain;

const AFTER: &str = "\
Examples:
  duolog runs scratch \"$run\"
  duolog runs scratch \"$run\" --merge '{\"branch\":\"fix-42\"}' --fence \"$fence\"
  duolog runs scratch \"$run\" --json | jq .scratch.branch

JSON:
  {\"workflow_run_id\", \"scratch\": {\"key\": value, …}}";

/// Show or update the scratch of a run
///
/// The scratch is a JSON object that the phases of a run share. --merge replaces the keys of the given object and keeps
/// the others. A value is at most 64 KiB; store longer text as the output of an execution.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Scratch {
    #[command(flatten)]
    run: Owned,
    /// JSON object to merge; - reads it from stdin
    #[arg(long, value_name = "JSON")]
    merge: Option<String>,
}

impl Scratch {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = match self.merge {
            Some(patch) => {
                let patch = text_or_stdin(context, patch)?;
                let store = context.open_to_write()?;
                self.run.open(&store)?.merge_scratch(&patch).map_err(in_argument("--merge"))?;
                store
            }
            None => context.open_to_read()?,
        };
        let run = store.runs().get(&self.run.id(&store)?)?;
        let workflow_run_id = run.summary.id.to_string();
        let shape = wire::Scratch { workflow_run_id, scratch: wire::Members::of(&run.scratch) };
        context.out.answer(&shape, |text| {
            for (key, value) in &run.scratch {
                text.line(plain(&format!("{key} {}", one_line(value))));
            }
        })?;
        if run.scratch.is_empty() {
            context.out.note("the scratch is empty");
        }
        context.close(store);
        Ok(Ended::Done)
    }
}
