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

Exit code: 3 where a reader or writer kept it from finishing

JSON:
  {\"busy\": true|false, \"wal_frames\": 12|null, \"moved_frames\": 12|null,
   \"performed_by\": \"duolog\"|\"server\"}";

/// Move the write-ahead log into the database, and empty it
///
/// Where the state is on a server there is nothing to do, and this says so.
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
            Done::Servers => text.line("nothing to do: the server makes its own checkpoints"),
        })?;
        if answer.busy {
            context.out.alert("a reader or writer kept the checkpoint from finishing; try again");
        }
        context.close(store);
        Ok(if answer.busy { Ended::Busy } else { Ended::Done })
    }
}
