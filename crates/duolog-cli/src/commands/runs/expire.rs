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
  cancelled_runs were queued for too long; the gates of failed_runs expired";

/// Expire queued runs and gates
///
/// Runs that were queued for longer than runs.queue_wait are cancelled, and runs whose gate has expired fail. Resumed
/// runs and runs of disabled workflows stay queued.
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
                text.line(format_args!("{} cancelled: it was queued for too long", run.id));
            }
            for run in &done.gates {
                text.line(format_args!("{} failed: its gate expired", run.id));
            }
        })?;
        if done.queued.is_empty() && done.gates.is_empty() {
            context.out.note("nothing has expired");
        }
        context.close(store);
        Ok(Ended::Done)
    }
}
