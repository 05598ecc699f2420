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

Exit code: 3 while another owner holds it

JSON:
  {\"run\": {… as runs list …}, \"fence\": 2, \"lease_expires_at\": instant, \"taken_over\": true|false,
   \"closed_execution_ids\": [id, …], \"unconsumed_approval_ids\": [id, …]}
  closed_execution_ids: what was in flight of an owner that died
  unconsumed_approval_ids: answers to acknowledge";

/// Claim a run, and print the fence that every write of its owner carries
///
/// It must run, and nobody may hold it: the lease of whoever claimed it before has ended. That takeover is counted, and
/// one too many fails the run. Renew the lease at a third of it.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Claim {
    #[command(flatten)]
    which: Changed,
    /// Who is to hold it
    #[arg(long, value_name = "NAME")]
    owner: String,
    /// How long it is held without being renewed; 60s where it is not given
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
            context.out.note(format_args!("taken over from an owner that died; {closed} closed; restart {restarts}"));
        }
        for gate in &claim.unconsumed {
            let (run, fence) = (&claim.run.id, claim.fence);
            context.out.note(format_args!(
                "an answer waits to be noted: duolog runs acknowledge {run} {gate} --fence {fence}"
            ));
        }
        context.close(store);
        Ok(Ended::Done)
    }
}
