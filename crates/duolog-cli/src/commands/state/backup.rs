//! `duolog state backup`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::Context;
use crate::args;
use crate::failure::{Ended, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state backup /backups/today
  duolog --home /backups/today doctor

A state on a server is not copied by this: copy the database first, then the home's directory.
  pg_dump --format=custom --file=state.dump 'postgres://USER@HOST/DATABASE'
  cp -a HOME /backups/today

Exit code: 4 if a log or a blob could not be copied; all others are copied

JSON:
  {\"path\": path, \"logs\": 3, \"bytes\": 45678, \"blobs\": 1, \"failed\": [{\"session\", \"reason\"}],
   \"blobs_failed\": [{\"blob\", \"reason\"}]}
  blobs_failed are damaged, or named by a line or a row and missing";

/// Copy the home to a new directory, while writers run
///
/// The copy opens as a home: no row of it names bytes that it lacks. A copied state.db alone would lose data.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Backup {
    /// A directory that does not exist yet, or is empty
    #[arg(value_name = "DEST")]
    destination: PathBuf,
}

#[derive(Serialize)]
struct Answer<'a> {
    path: &'a Path,
    logs: u64,
    bytes: u64,
    blobs: u64,
    failed: Vec<Failed<'a>>,
    blobs_failed: Vec<FailedBlob<'a>>,
}

#[derive(Serialize)]
struct Failed<'a> {
    session: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct FailedBlob<'a> {
    blob: &'a str,
    reason: &'a str,
}

impl Backup {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let destination = args::here()?.join(&self.destination);
        let store = context.open_to_read()?;
        let total = if context.out.shows_progress() { store.state().stats().ok() } else { None };
        let total = total.map(|stats| stats.logs.bytes);
        let progress = context.out.progress("copying");
        let copied = store.state().backup(&destination, |done| {
            progress.set(done.bytes, total);
            progress.at(&figures::things(done.logs, "log"));
        })?;
        drop(progress);
        let failed = copied.failed.iter().map(|(session, reason)| Failed { session: session.as_str(), reason });
        let answer = Answer {
            path: &copied.path,
            logs: copied.logs,
            bytes: copied.bytes,
            blobs: copied.blobs,
            failed: failed.collect(),
            blobs_failed: copied.blobs_failed.iter().map(|(blob, reason)| FailedBlob { blob, reason }).collect(),
        };
        context.out.answer(&answer, |text| {
            let (logs, bytes) = (figures::things(copied.logs, "log"), figures::size(copied.bytes));
            text.line(format_args!("copied the state and {logs} ({bytes}) to {}", copied.path.display()));
        })?;
        context.out.note(format_args!("look at it with: duolog --home {} doctor", copied.path.display()));
        for Failed { session, reason } in &answer.failed {
            context.out.alert(format_args!("{session} could not be copied: {reason}"));
        }
        for FailedBlob { blob, reason } in &answer.blobs_failed {
            context.out.alert(format_args!("blob {blob} could not be copied: {reason}"));
        }
        Ok(if answer.failed.is_empty() && answer.blobs_failed.is_empty() { Ended::Done } else { Ended::Damaged })
    }
}
