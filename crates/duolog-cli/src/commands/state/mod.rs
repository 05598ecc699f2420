//! `duolog state`.

mod backup;
mod blobs;
mod checkpoint;
mod migrate;
mod rebuild;
mod stats;
mod vacuum;

use clap::Subcommand;

use super::Context;
use crate::failure::Outcome;

/// What to do with the state store.
#[derive(Subcommand)]
pub enum State {
    Stats(stats::Stats),
    Rebuild(rebuild::Rebuild),
    Migrate(migrate::Migrate),
    Checkpoint(checkpoint::Checkpoint),
    Vacuum(vacuum::Vacuum),
    Blobs(blobs::Blobs),
    Backup(backup::Backup),
}

impl State {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        match self {
            Self::Stats(command) => command.run(context),
            Self::Rebuild(command) => command.run(context),
            Self::Migrate(command) => command.run(context),
            Self::Checkpoint(command) => command.run(context),
            Self::Vacuum(command) => command.run(context),
            Self::Blobs(command) => command.run(context),
            Self::Backup(command) => command.run(context),
        }
    }
}
