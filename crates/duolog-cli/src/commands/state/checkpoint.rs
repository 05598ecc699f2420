//! `duolog state checkpoint`.

use clap::Args;
use duolog::{CheckpointReport, WalCheckpoint as Done};
use duolog_wire::Checkpointed;

use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state checkpoint

Exit code: 3 if a reader or writer blocked the checkpoint

JSON:
  {\"busy\": true|false, \"wal_frames\": 12|null, \"moved_frames\": 12|null,
   \"performed_by\": \"duolog\"|\"server\"}";

/// Checkpoint and truncate the write-ahead log
///
/// Has no effect on a server, which makes its own checkpoints.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Checkpoint {}

impl Checkpoint {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Self {} = self;
        let store = context.open_to_write()?;
        let done = store.state().checkpoint()?;
        let answer = Checkpointed::from(&done);
        context.out.answer(&answer, |text| match done {
            Done::Done(CheckpointReport { wal_frames, moved, .. }) => {
                let (moved, frames) = (figures::count(moved), figures::count(wal_frames));
                text.line(format_args!("moved {moved} of {frames} pages into the database"));
            }
            Done::ManagedByServer => text.line("nothing to do: the server makes its own checkpoints"),
        })?;
        if answer.busy {
            context.out.alert("a reader or writer blocked the checkpoint; try again");
        }
        context.close(store);
        Ok(if answer.busy { Ended::Busy } else { Ended::Done })
    }
}
