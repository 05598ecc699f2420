//! `duolog state backup`.

use std::path::PathBuf;

use clap::Args;
use duolog_wire as wire;

use super::Context;
use crate::args;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state backup /backups/today
  duolog --home /backups/today doctor

This command does not copy a state on a server. Copy the database first, then the home:
  pg_dump --format=custom --file=state.dump 'postgres://USER@HOST/DATABASE'
  cp -a HOME /backups/today

Exit code: 4 if a log or a blob could not be copied; the others are copied

JSON:
  {\"path\": path, \"log_count\": 3, \"bytes\": 45678, \"blob_count\": 1,
   \"failures\": [{\"session_id\", \"reason\"}], \"blob_failures\": [{\"blob_id\", \"reason\"}]}
  blob_failures lists blobs that are damaged, or referenced and missing";

/// Back up the home to a new directory
///
/// Writers may run during the backup. The copy is a home: every log byte that its state refers to is in it. Do not copy
/// state.db alone: that loses data.
///
/// The backup has the state, the logs and the blobs, but not config/.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Backup {
    /// New or empty directory
    #[arg(value_name = "DEST")]
    destination: PathBuf,
}

impl Backup {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let destination = args::here()?.join(&self.destination);
        let store = context.open_to_read()?;
        let total =
            if context.out.shows_progress() { store.state().stats_within(duolog::Wait::Briefly).ok() } else { None };
        let total = total.map(|stats| stats.logs.bytes);
        let progress = context.out.progress("copying");
        let copied = store.state().backup(&destination, |done| {
            progress.set(done.bytes, total);
            progress.at(&figures::things(done.logs, "log"));
        })?;
        drop(progress);
        context.out.answer(&wire::Backup::from(&copied), |text| {
            let (logs, bytes) = (figures::things(copied.logs, "log"), figures::size(copied.bytes));
            text.line(format_args!("copied the state and {logs} ({bytes}) to {}", copied.path.display()));
        })?;
        context.out.note(format_args!("to check the copy, run: duolog --home {} doctor", copied.path.display()));
        for (session, reason) in &copied.failed {
            context.out.alert(format_args!("{session} could not be copied: {reason}"));
        }
        for (blob, reason) in &copied.blobs_failed {
            context.out.alert(format_args!("blob {blob} could not be copied: {reason}"));
        }
        Ok(if copied.failed.is_empty() && copied.blobs_failed.is_empty() { Ended::Done } else { Ended::Damaged })
    }
}
