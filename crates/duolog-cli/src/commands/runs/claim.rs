//! `duolog runs claim`.

use std::time::Duration;

use clap::Args;
use duolog_wire as wire;

use super::{Changed, Context};
use crate::args;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  fence=$(duolog runs claim \"$run\" --owner \"$HOSTNAME\")
  duolog runs claim \"$run\" --owner worker-1 --lease 5m --json

Exit code: 3 if another owner holds the run

JSON:
  {\"run\": {… as runs list …}, \"fence\": 2, \"lease_expires_at\": instant, \"taken_over\": true|false,
   \"closed_execution_ids\": [id, …], \"unconsumed_approval_ids\": [id, …]}
  closed_execution_ids: executions that a dead owner left in flight
  unconsumed_approval_ids: gates whose answers are not acknowledged yet";

/// Claim a run and print the fence of the claim
///
/// Pass the fence to every command that writes as the owner. The run must be running and have no other owner, or its
/// owner's lease must have expired. Such a takeover is counted; after too many takeovers the run fails.
///
/// Renew the lease when a third of it has passed.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Claim {
    #[command(flatten)]
    which: Changed,
    /// Owner of the claim
    #[arg(long, value_name = "NAME")]
    owner: String,
    /// Duration of the lease [default: runs.lease]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    lease: Option<Duration>,
}

impl Claim {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let claim = self.which.open(&store)?.claim(&self.owner, self.lease)?;
        context.out.answer(&wire::Claim::from(&claim), |text| text.line(claim.fence))?;
        if claim.taken_over {
            let closed = figures::things(claim.closed.len() as u64, "execution");
            let restarts = claim.run.restart_count;
            context.out.note(format_args!("taken over from a dead owner; {closed} closed; restart {restarts}"));
        }
        for gate in &claim.unconsumed {
            let (run, fence) = (&claim.run.id, claim.fence);
            context.out.note(format_args!(
                "an answer is not acknowledged: duolog runs acknowledge {run} {gate} --fence {fence}"
            ));
        }
        context.close(store);
        Ok(Ended::Done)
    }
}
