//! `duolog state`.

mod backup;
mod blobs;
mod checkpoint;
mod migrate;
mod rebuild;
mod stats;
mod vacuum;

use super::Context;

commands! {
/// The commands of `duolog state`.
State {
    Stats(stats::Stats),
    Rebuild(rebuild::Rebuild),
    Migrate(migrate::Migrate),
    Checkpoint(checkpoint::Checkpoint),
    Vacuum(vacuum::Vacuum),
    Blobs(blobs::Blobs),
    Backup(backup::Backup),
}}
