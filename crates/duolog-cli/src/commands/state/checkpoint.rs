//! `duolog state checkpoint`.

use clap::Args;
use duolog::{Checkpoint as Done, CheckpointReport};
use serde::Serialize;

use super::Context;
use crate::failure::{Ended, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state checkpoint

Exit code: 3 where a reader or writer kept it from finishing

JSON:
  {\"busy\": true|false, \"wal_frames\": 12, \"moved\": 12}
  {\"busy\": false, \"wal_frames\": null, \"moved\": null, \"by\": \"server\"} where a server does it";

/// Move the write-ahead log into the database, and empty it
///
/// Where the state is on a server there is nothing to do, and this says so.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Checkpoint {}

#[derive(Serialize)]
struct Answer {
    busy: bool,
    wal_frames: Option<u64>,
    moved: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
}

impl Checkpoint {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let Self {} = self;
        let store = context.open_to_write()?;
        let busy = match store.state().checkpoint()? {
            Done::Done(CheckpointReport { busy, wal_frames, moved }) => {
                let answer = Answer { busy, wal_frames: Some(wal_frames), moved: Some(moved), by: None };
                context.out.answer(&answer, |text| {
                    let (moved, frames) = (figures::count(moved), figures::count(wal_frames));
                    text.line(format_args!("moved {moved} of {frames} pages into the database"));
                })?;
                busy
            }
            Done::Servers => {
                let answer = Answer { busy: false, wal_frames: None, moved: None, by: Some("server") };
                context.out.answer(&answer, |text| text.line("nothing to do: the server makes its own checkpoints"))?;
                false
            }
        };
        if busy {
            context.out.alert("a reader or writer kept the checkpoint from finishing; try again");
        }
        context.close(store);
        Ok(if busy { Ended::Busy } else { Ended::Done })
    }
}
