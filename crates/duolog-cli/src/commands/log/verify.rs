//! `duolog log verify`.

use clap::Args;
use duolog::sessions::SessionFilter;
use duolog::{ErrorKind, Page, SessionId, Store, Verified, limits};
use duolog_wire::{DamagedPlace, LogVerified, LogsVerified};

use super::Context;
use super::repair::loss as loss_of;
use crate::args::Which;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Column, Out, Table, Tone};

const AFTER: &str = "\
Examples:
  duolog log verify demo
  duolog log verify --all --json | jq '.results[] | select(.status != \"ok\")'

Exit code: 4 if a log is damaged or lacks a blob · 1 if --all cannot read a log · 0 otherwise,
  even with warnings

JSON:
  {\"results\": [{\"session_id\", \"status\": \"ok\"|\"warning\"|\"damaged\"|\"failed\", \"epoch\", \"position\",
     \"events\", \"seals\", \"sealed_position\", \"torn_bytes\", \"damaged_places\", \"unsynced_places\",
     \"lost_blobs\",
     \"places\": [{\"kind\": \"line\"|\"seal\"|\"missing\"|\"blob\", \"position\", \"end_position\",
                 \"first_end_position\",
                 \"change\": null|\"in_place\"|\"removed\"|\"inserted\"|\"cut\"|\"unclear\", \"bytes\", \"line\", \"line_position\", \"last_line\", \"unchecked_position\", \"sealed\",
                 \"severity\": \"damage\"|\"unsynced_loss\", \"reason\"}],
     \"losses\": [{\"action\": \"shorter\"|\"replaced\"|\"missing\"|\"unsealed\", \"epoch\", \"position\",
                 \"bytes\", \"repaired_at\", \"detail\"}],
     \"error_message\": null|text}],
   \"damaged_logs\": 0}
  places lists the first 50 lines that cannot be read or whose blob is lost, then the first 50 places
  that differ from their seal. damaged_places, unsynced_places and lost_blobs are totals.
  sealed is true below the last seal. severity is damage if sealed bytes changed or are gone, and
  unsynced_loss if a line could not be read when it was sealed, or no seal covers it: a power cut
  leaves such lines.
  losses lists the 50 newest recorded losses, found by earlier repairs or appends.
  position and end_position are offsets in the log as it was sealed. The first changed byte is
  between position and first_end_position (at most 4 KiB, except for seals of older versions), in
  the lines line to last_line. line_position is the start of line.
  change describes the bytes after the place; bytes is the number that was removed, inserted or cut:
    in_place   they have not moved: bytes were changed or reordered
    removed    they have moved towards the start of the log
    inserted   they have moved towards the end of the log
    cut        they are gone; bytes from unchecked_position on cannot be checked
    unclear    they were not found";

/// Verify the lines, seals and blobs of a log
///
/// Shows whether any byte below the last seal was changed, removed or reordered. For each change it shows the block of
/// 4 KiB with the first changed byte, the lines in it, and whether the bytes after it are intact.
///
/// Lines that a power cut made unreadable and recorded losses are warnings. The command changes nothing.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Verify {
    #[command(flatten)]
    which: Which,
    /// Verify every log of the home
    #[arg(long, conflicts_with_all = ["reference", "session", "user_email", "session_name"])]
    all: bool,
}

impl Verify {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store;
        let mut results = Vec::new();
        if self.all {
            store = context.open_to_read()?;
            each_session(&store, |id| match verify(context.out, &store, id) {
                Ok(verified) => results.push(LogVerified::of(id, &verified)),
                // Skip a session that was deleted meanwhile or whose log is in another home.
                Err(failure) if matches!(failure.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {}
                // Report a log that cannot be read and continue with the others.
                Err(failure) => {
                    let status = if failure.kind() == ErrorKind::Damaged { "damaged" } else { "failed" };
                    results.push(LogVerified::unread(id, status, failure.message()));
                }
            })?;
        } else {
            let reference = self.which.reference(context.config()?)?;
            store = context.open_to_read()?;
            let session = store.sessions().resolve(&reference)?;
            results.push(LogVerified::of(&session.id, &verify(context.out, &store, &session.id)?));
        }
        let damaged = results.iter().filter(|log| log.status == "damaged").count();
        let failed = results.iter().filter(|log| log.status == "failed").count();
        let answer = LogsVerified { results, damaged_logs: damaged as u64 };
        context.out.answer(&answer, |text| {
            if !answer.results.is_empty() {
                text.table(&table(&answer.results));
            }
        })?;
        if answer.results.is_empty() {
            context.out.note("there are no logs yet");
        }
        for log in &answer.results {
            tell(context.out, log);
        }
        Ok(match (damaged, failed) {
            (0, 0) => Ended::Done,
            (0, _) => Ended::No,
            _ => Ended::Damaged,
        })
    }
}

fn each_session(store: &Store, mut each: impl FnMut(&SessionId)) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let page = store.sessions().list(&SessionFilter::default(), &Page::new(limits::PAGE_MAX, after))?;
        page.sessions.iter().for_each(|session| each(&session.id));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

fn verify(out: &Out, store: &Store, id: &SessionId) -> Result<Verified, Failure> {
    let progress = out.progress("verifying");
    progress.at(&id.to_string());
    Ok(store.log(id).verify(|done, of| progress.set(done, Some(of)))?)
}

/// Describes a damaged place: its position and the reason.
pub fn sentence_of(place: &DamagedPlace) -> String {
    let (from, to, reason) = (place.position, place.end_position, &place.reason);
    let side = if place.sealed { "below" } else { "above" };
    let what = if place.severity == "damage" { "" } else { "unsynced loss " };
    format!("{from} to {to}, {what}{side} the last seal: {reason}")
}

fn table(logs: &[LogVerified]) -> Table {
    let mut table = Table::new(&[
        (Column::Id, "SESSION_ID"),
        (Column::Word, "STATUS"),
        (Column::Figure, "EVENTS"),
        (Column::Figure, "POSITION"),
        (Column::Figure, "SEALED_POSITION"),
        (Column::Figure, "DAMAGED_PLACES"),
    ])
    .dropping(&["SEALED_POSITION", "EVENTS", "POSITION"]);
    let figure = |number: Option<u64>, show: fn(u64) -> String| number.map_or_else(|| "-".to_owned(), show);
    for log in logs {
        table.row(vec![
            log.session_id.clone(),
            log.status.to_owned(),
            figure(log.events, figures::count),
            figure(log.position, figures::size),
            figure(log.sealed_position, figures::size),
            figure(log.damaged_places.zip(log.lost_blobs).map(|(places, blobs)| places + blobs), figures::count),
        ]);
        table.tone(
            1,
            match log.status {
                "ok" => Tone::Good,
                "warning" => Tone::Worth,
                _ => Tone::Bad,
            },
        );
    }
    table
}

fn tell(out: &Out, log: &LogVerified) {
    let session = &log.session_id;
    if let Some(error) = &log.error_message {
        out.warn(format_args!("{session}: {error}"));
    }
    for place in &log.places {
        out.warn(format_args!("{session}: {}", sentence_of(place)));
    }
    for loss in &log.losses {
        out.warn(format_args!("{session}: {}", loss_of(loss)));
    }
    if let Some(torn @ 1..) = log.torn_bytes {
        let torn = figures::things(torn, "byte");
        out.warn(format_args!("{session}: {torn} of a torn last line; the next append repairs it"));
    }
}
