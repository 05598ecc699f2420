//! `duolog runs expire`.

use clap::Args;
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs expire

JSON:
  {\"cancelled_runs\": [{… as runs list …}], \"failed_runs\": [{… as runs list …}]}
  cancelled_runs were queued for too long; the gates of failed_runs were not answered in time";

/// End what was waited for too long: runs in the queue are cancelled, those at a gate fail
///
/// A resumed run waits for a slot for as long as it takes, and runs of disabled workflows stay queued.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Expire {}

impl Expire {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Self {} = self;
        let store = context.open_to_write()?;
        let done = store.runs().expire()?;
        context.out.answer(&wire::Expired::from(&done), |text| {
            for run in &done.queued {
                text.line(format_args!("{} cancelled: it waited too long for a place", run.id));
            }
            for run in &done.gates {
                text.line(format_args!("{} failed: its gate was not answered in time", run.id));
            }
        })?;
        if done.queued.is_empty() && done.gates.is_empty() {
            context.out.note("nothing was waited for too long");
        }
        context.close(store);
        Ok(Ended::Done)
    }
}
