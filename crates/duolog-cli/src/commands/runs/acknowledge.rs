//! `duolog runs acknowledge`.

use clap::Args;
use duolog_wire as wire;

use super::{Context, OwnedNamed};
use crate::args;
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
#[command(after_help = AFTER, override_usage = "duolog runs acknowledge [OPTIONS] [RUN] <APPROVAL>")]
#[command(mut_arg(args::SECOND_NAME, |name| name.value_name("APPROVAL").help("Gate id or a unique prefix")))]
pub struct Acknowledge {
    #[command(flatten)]
    names: OwnedNamed,
}

impl Acknowledge {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (run, approval) = self.names.split("approval")?;
        let store = context.open_to_write()?;
        let approval = store.approvals().resolve(&approval)?;
        let changed = run.open(&store)?.acknowledge(&approval)?;
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
