//! `duolog log verify`.

use clap::Args;
use duolog::sessions::SessionFilter;
use duolog::{Change, Damage, DamageKind, Kind, Page, SessionId, Severity, Store, Verified, limits};
use serde::Serialize;

use super::Context;
use super::repair::Record;
use crate::args::Which;
use crate::failure::{Ended, Failure, Outcome};
use crate::figures;
use crate::out::{Column, Out, Table, Tone};

const AFTER: &str = "\
Examples:
  duolog log verify demo
  duolog log verify --all --json | jq '.logs[] | select(.status != \"ok\")'

Exit code: 4 if a log is damaged or lacks a blob · 0 otherwise, with warnings

JSON:
  {\"logs\": [{\"session\", \"status\": \"ok\"|\"warning\"|\"damaged\"|\"failed\", \"epoch\", \"end\", \"events\",
             \"seals\", \"sealed_to\", \"torn_bytes\", \"damaged\", \"unsynced\", \"blobs_lost\",
             \"places\": [{\"kind\": \"line\"|\"seal\"|\"missing\"|\"blob\", \"from\", \"to\", \"first_to\",
                         \"change\": null|\"in_place\"|\"removed\"|\"inserted\"|\"cut\"|\"unclear\", \"bytes\",
                         \"line\", \"line_start\", \"line_to\", \"unchecked_from\", \"sealed\",
                         \"severity\": \"damage\"|\"unsynced_loss\", \"reason\"}],
             \"losses\": [{\"action\": \"shorter\"|\"replaced\"|\"missing\"|\"unsealed\", \"epoch\", \"position\",
                         \"bytes\", \"repaired_at\", \"detail\"}],
             \"error\": null|text}],
   \"damaged\": 0}
  places lists the first 50 lines that cannot be read or whose blob is lost, then the first 50 places that are not as
  sealed; damaged, unsynced and blobs_lost count all. The last figure counts damaged logs.
  sealed: below the last seal. severity: damage if sealed bytes changed or are gone; unsynced_loss
  if a line could not be read when it was sealed, or no seal covers it: power loss leaves such lines.
  losses lists the 50 newest losses on record, which earlier repairs or appends found.
  from, to: where it is, counted as the log was when it was sealed. The first changed byte is in
  from to first_to (at most 4 KiB, but for seals of older versions), and so in the lines line, which
  begins at line_start, to line_to.
  change says what became of what follows:
    in_place   it stands where it stood: bytes were changed or reordered
    removed    it stands so many bytes earlier
    inserted   it stands so many bytes later
    cut        it is gone, so many bytes; what stands from unchecked_from on cannot be checked
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

#[derive(Serialize)]
struct Answer {
    logs: Vec<Shape>,
    damaged: usize,
}

#[derive(Serialize)]
struct Shape {
    session: String,
    status: &'static str,
    epoch: Option<u32>,
    end: Option<u64>,
    events: Option<u64>,
    seals: Option<u64>,
    sealed_to: Option<u64>,
    torn_bytes: Option<u64>,
    damaged: Option<u64>,
    unsynced: Option<u64>,
    blobs_lost: Option<u64>,
    places: Vec<Place>,
    losses: Vec<Record>,
    error: Option<String>,
}

/// A damaged place, as every command shows it.
#[derive(Serialize)]
pub struct Place {
    kind: &'static str,
    from: u64,
    to: u64,
    first_to: u64,
    change: Option<&'static str>,
    bytes: Option<u64>,
    line: u64,
    line_start: u64,
    line_to: u64,
    unchecked_from: Option<u64>,
    sealed: bool,
    severity: &'static str,
    reason: String,
}

impl Verify {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store;
        let mut logs = Vec::new();
        if self.all {
            store = context.open_to_read()?;
            each_session(&store, |id| match verify(context.out, &store, id) {
                Ok(verified) => logs.push(shape(id, &verified)),
                // Deleted meanwhile, or the log of another home: not ours to judge.
                Err(failure) if matches!(failure.kind(), Kind::NotFound | Kind::Conflict) => {}
                // One log that cannot be read does not hide the others.
                Err(failure) => logs.push(unread(id, &failure)),
            })?;
        } else {
            let reference = self.which.reference(context.config()?)?;
            store = context.open_to_read()?;
            let session = store.sessions().resolve(&reference)?;
            logs.push(shape(&session.id, &verify(context.out, &store, &session.id)?));
        }
        let damaged = logs.iter().filter(|log| log.status == "damaged").count();
        let failed = logs.iter().filter(|log| log.status == "failed").count();
        let answer = Answer { logs, damaged };
        context.out.answer(&answer, |text| {
            if !answer.logs.is_empty() {
                text.table(&table(&answer.logs));
            }
        })?;
        if answer.logs.is_empty() {
            context.out.note("there are no logs yet");
        }
        for log in &answer.logs {
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

fn shape(id: &SessionId, verified: &Verified) -> Shape {
    let status = match verified {
        Verified { damaged: 1.., .. } | Verified { blobs_lost: 1.., .. } => "damaged",
        Verified { unsynced: 1.., .. } | Verified { torn_bytes: 1.., .. } => "warning",
        Verified { losses, .. } if !losses.is_empty() => "warning",
        _ => "ok",
    };
    Shape {
        session: id.to_string(),
        status,
        epoch: Some(verified.epoch.0),
        end: Some(verified.end.0),
        events: Some(verified.events),
        seals: Some(verified.seals),
        sealed_to: Some(verified.sealed_to.0),
        torn_bytes: Some(verified.torn_bytes),
        damaged: Some(verified.damaged),
        unsynced: Some(verified.unsynced),
        blobs_lost: Some(verified.blobs_lost),
        places: verified.places.iter().map(Place::of).collect(),
        losses: verified.losses.iter().cloned().map(Record::of).collect(),
        error: None,
    }
}

fn unread(id: &SessionId, failure: &Failure) -> Shape {
    Shape {
        session: id.to_string(),
        status: if failure.kind() == Kind::Damaged { "damaged" } else { "failed" },
        epoch: None,
        end: None,
        events: None,
        seals: None,
        sealed_to: None,
        torn_bytes: None,
        damaged: None,
        unsynced: None,
        blobs_lost: None,
        places: Vec::new(),
        losses: Vec::new(),
        error: Some(failure.message()),
    }
}

impl Place {
    pub fn of(damage: &Damage) -> Self {
        let (kind, change, bytes) = match damage.kind {
            DamageKind::Line(_) => ("line", None, None),
            DamageKind::Seal(Change::InPlace) => ("seal", Some("in_place"), None),
            DamageKind::Seal(Change::Removed { bytes }) => ("seal", Some("removed"), Some(bytes)),
            DamageKind::Seal(Change::Inserted { bytes }) => ("seal", Some("inserted"), Some(bytes)),
            DamageKind::Seal(Change::Unclear) => ("seal", Some("unclear"), None),
            DamageKind::NoBlob(_) | DamageKind::BadBlob(_) => ("blob", None, None),
            DamageKind::Missing { .. } => ("missing", Some("cut"), Some(damage.to.0 - damage.from.0)),
        };
        let unchecked_from = match damage.kind {
            DamageKind::Missing { unchecked_from } => Some(unchecked_from.0),
            _ => None,
        };
        Self {
            kind,
            from: damage.from.0,
            to: damage.to.0,
            first_to: damage.first_to.0,
            change,
            bytes,
            line: damage.line,
            line_start: damage.line_start.0,
            line_to: damage.line_to,
            unchecked_from,
            sealed: damage.sealed,
            severity: match damage.severity {
                Severity::Damage => "damage",
                Severity::UnsyncedLoss => "unsynced_loss",
            },
            reason: damage.to_string(),
        }
    }

    /// Where it is and what is wrong with it, for people.
    pub fn sentence(&self) -> String {
        let (from, to, reason) = (self.from, self.to, &self.reason);
        let side = if self.sealed { "below" } else { "above" };
        let what = if self.severity == "damage" { "" } else { "unsynced loss " };
        format!("{from} to {to}, {what}{side} the last seal: {reason}")
    }
}

fn table(logs: &[Shape]) -> Table {
    let mut table = Table::new(&[
        (Column::Id, "SESSION"),
        (Column::Word, "STATUS"),
        (Column::Figure, "EVENTS"),
        (Column::Figure, "SIZE"),
        (Column::Figure, "SEALED"),
        (Column::Figure, "DAMAGED"),
    ]);
    let figure = |number: Option<u64>, show: fn(u64) -> String| number.map_or_else(|| "-".to_owned(), show);
    for log in logs {
        table.row(vec![
            log.session.clone(),
            log.status.to_owned(),
            figure(log.events, figures::count),
            figure(log.end, figures::size),
            figure(log.sealed_to, figures::size),
            figure(log.damaged.zip(log.blobs_lost).map(|(places, blobs)| places + blobs), figures::count),
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

fn tell(out: &Out, log: &Shape) {
    let session = &log.session;
    if let Some(error) = &log.error {
        out.warn(format_args!("{session}: {error}"));
    }
    for place in &log.places {
        out.warn(format_args!("{session}: {}", place.sentence()));
    }
    for loss in &log.losses {
        out.warn(format_args!("{session}: {}", loss.loss()));
    }
    if let Some(torn @ 1..) = log.torn_bytes {
        let torn = figures::things(torn, "byte");
        out.warn(format_args!("{session}: {torn} of a torn last line; the next append mends it"));
    }
}
