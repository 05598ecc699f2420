//! `duolog runs renew`.

use std::time::Duration;

use clap::Args;
use duolog_wire as wire;

use super::{Context, Owned};
use crate::args;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs renew \"$run\" --fence \"$fence\"
  while sleep 20; do duolog runs renew \"$run\" --fence \"$fence\" --quiet || break; done &

Exit code: 7 if a newer claim has replaced this one: stop working on the run

JSON:
  {\"workflow_run_id\", \"fence\": 2, \"lease_expires_at\": instant}";

/// Renew the lease of a claim
///
/// An owner whose lease has expired counts as dead. Renew the lease when a third of it has passed.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Renew {
    #[command(flatten)]
    run: Owned,
    /// Duration of the lease from now [default: runs.lease]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    lease: Option<Duration>,
}

impl Renew {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let run = self.run.open(&store)?;
        let until = run.renew(self.lease)?;
        let fence = self.run.claim.fence(run.id())?.map(|fence| fence.0);
        let shape = wire::Lease { workflow_run_id: run.id().to_string(), fence, lease_expires_at: until.to_string() };
        context.out.confirm(&shape, |text| text.line(format_args!("run {}: lease renewed until {until}", run.id())))?;
        context.close(store);
        Ok(Ended::Done)
    }
}
