//! `duolog state checkpoint`.

use clap::Args;
use serde::Serialize;

use super::Context;
use crate::failure::{Ended, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state checkpoint

Exit code: 3 where a reader or writer kept it from finishing

JSON:
  {\"busy\": true|false, \"wal_frames\": 12, \"moved\": 12}";

/// Move the write-ahead log into the database, and empty it
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Checkpoint {}

#[derive(Serialize)]
struct Answer {
    busy: bool,
    wal_frames: u64,
    moved: u64,
}

impl Checkpoint {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let Self {} = self;
        let store = context.open_to_write()?;
        let report = store.state().checkpoint()?;
        let answer = Answer { busy: report.busy, wal_frames: report.wal_frames, moved: report.moved };
        context.out.answer(&answer, |text| {
            let frames = figures::count(report.wal_frames);
            text.line(format_args!("moved {} of {frames} pages into the database", figures::count(report.moved)));
        })?;
        if report.busy {
            context.out.alert("a reader or writer kept the checkpoint from finishing; try again");
        }
        context.close(store);
        Ok(if report.busy { Ended::Busy } else { Ended::Done })
    }
}
