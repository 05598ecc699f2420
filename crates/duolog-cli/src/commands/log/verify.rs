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

Exit code: 4 if a log is damaged or lacks a blob · 0 otherwise, with warnings

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
  places lists the first 50 lines that cannot be read or whose blob is lost, then the first 50 places that are not as
  sealed; damaged_places, unsynced_places and lost_blobs count all.
  sealed: below the last seal. severity: damage if sealed bytes changed or are gone; unsynced_loss
  if a line could not be read when it was sealed, or no seal covers it: power loss leaves such lines.
  losses lists the 50 newest losses on record, which earlier repairs or appends found.
  position, end_position: where it is, counted as the log was when it was sealed. The first changed
  byte is in position to first_end_position (at most 4 KiB, but for seals of older versions), and so
  in the lines line, which begins at line_position, to last_line.
  change says what became of what follows:
    in_place   it stands where it stood: bytes were changed or reordered
    removed    it stands so many bytes earlier
    inserted   it stands so many bytes later
    cut        it is gone, so many bytes; what stands from unchecked_position on cannot be checked
    unclear    it is not known to stand anywhere";

/// Check every line and every seal of a log, and the blobs that it names
///
/// Shows whether any byte below the last seal was changed, removed or reordered, and where: the first changed byte to a
/// block of 4 KiB, its lines, and whether what follows still stands. Lines that power loss left unreadable, and losses on
/// record, are warnings. Changes nothing.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Verify {
    #[command(flatten)]
    which: Which,
    /// Every log of the home
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
                // Deleted meanwhile, or the log of another home: not ours to judge.
                Err(failure) if matches!(failure.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {}
                // One log that cannot be read does not hide the others.
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

/// Where it is and what is wrong with it, for people.
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
        out.warn(format_args!("{session}: {torn} of a torn last line; the next append mends it"));
    }
}
