//! `duolog runs acknowledge`.

use clap::Args;
use duolog_wire as wire;

use super::{Context, Owned};
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs acknowledge \"$run\" \"$gate\" --fence \"$fence\"
  response=$(duolog runs acknowledge \"$run\" \"$gate\" --fence \"$fence\")

Exit code: 6 if the answer is already acknowledged

JSON:
  {\"approval\": {… as approvals list …}, \"changed\": true|false}";

/// Acknowledge the answer to a gate and print it
///
/// Only the owner of the run can acknowledge an answer. Until it is acknowledged, every claim of the run lists it, so
/// that it cannot be lost.
#[derive(Args)]
#[command(after_help = AFTER, allow_missing_positional = true)]
pub struct Acknowledge {
    #[command(flatten)]
    run: Owned,
    /// Gate id or a unique prefix
    #[arg(value_name = "APPROVAL")]
    approval: String,
}

impl Acknowledge {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let approval = store.approvals().resolve(&self.approval)?;
        let changed = self.run.open(&store)?.acknowledge(&approval)?;
        let approval = store.approvals().get(&approval)?;
        context.out.answer(&wire::ApprovalAcknowledged { approval: (&approval).into(), changed }, |text| {
            text.line(approval.response.as_deref().unwrap_or(approval.status.as_str()));
        })?;
        if !changed {
            context.out.note("the answer is already acknowledged");
        }
        context.close(store);
        Ok(if changed { Ended::Done } else { Ended::AlreadyDone })
    }
}
