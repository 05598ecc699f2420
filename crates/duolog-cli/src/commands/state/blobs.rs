//! `duolog state blobs`.

use clap::Args;
use duolog::limits::{BLOB_GRACE, PAGE_DEFAULT};
use duolog::state::{BlobCount, CountedBlobs};
use duolog::{Clock as _, SystemClock, Timestamp};
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Column, Out, Table, Tone};

/// The minutes that an unreferenced blob is kept.
const GRACE_MINUTES: u64 = BLOB_GRACE.as_secs() / 60;

const AFTER: &str = "\
Examples:
  duolog state blobs
  duolog state blobs --limit 1000 --json | jq '.blobs[] | select(.reference_count == 0)'
  duolog state blobs --prune --yes

Exit code: 1 if you answer no

JSON:
  {\"blob_count\": 3, \"bytes\": 300000, \"unreferenced_count\": 1, \"unreferenced_bytes\": 100000,
   \"complete\": true,
   \"blobs\": [{\"id\": sha256, \"bytes\", \"reference_count\", \"stored_at\", \"prunable\": true|false}],
   \"pruned\": null|{\"blob_ids\": [sha256, …], \"bytes\", \"leftover_files\": temporary
             files of unfinished writes}}
  blobs lists the largest blobs, up to --limit
  complete is false if there are too many blobs to count at once";

/// List blobs and remove unreferenced ones
///
/// A blob is the full text of a log line that was shortened. The command reads all logs to count the references.
///
/// --prune removes unreferenced blobs that are older than an hour, so a recording that is running is safe.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Blobs {
    /// Maximum number of results, largest first
    #[arg(long, short = 'n', value_name = "N", default_value_t = PAGE_DEFAULT as usize)]
    limit: usize,
    /// Remove unreferenced blobs
    #[arg(long)]
    prune: bool,
    /// Skip the confirmation prompt
    #[arg(long, short, requires = "prune")]
    yes: bool,
}

impl Blobs {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = if self.prune { context.open_to_write()? } else { context.open_to_read()? };
        let now = SystemClock.now();
        // Without a total the bar only counts; that is no reason to fail.
        let total =
            if context.out.shows_progress() { store.state().stats_within(duolog::Wait::Briefly).ok() } else { None };
        let total = total.map(|stats| stats.logs.bytes);
        let progress = context.out.progress("reading logs");
        let counted = store.state().count_blobs(|done| progress.set(done, total))?;
        drop(progress);
        let mut answer = answer(&counted, self.limit, now);
        let mut ended = Ended::Done;
        if self.prune {
            if self.yes || ask(context.out, &counted, now)? {
                answer.pruned = Some((&counted.prune()?).into());
            } else {
                ended = Ended::No;
            }
        }
        context.out.answer(&answer, |text| {
            if !answer.blobs.is_empty() {
                text.table(&table(&answer.blobs, now));
            }
            text.line(sum(&answer));
            if let Some(pruned) = &answer.pruned {
                text.line(removed(pruned, answer.unreferenced_count));
            }
        })?;
        if !answer.complete {
            context.out.warn(format_args!(
                "the list is incomplete: only {} blobs were counted",
                figures::count(answer.blob_count)
            ));
        }
        if self.prune {
            context.close(store);
        } else if answer.unreferenced_count > 0 {
            context.out.note("to remove unreferenced blobs, run: duolog state blobs --prune");
        }
        Ok(ended)
    }
}

fn answer(counted: &CountedBlobs, limit: usize, now: Timestamp) -> wire::Blobs {
    let mut all: Vec<&BlobCount> = counted.blobs().collect();
    let sum = |blobs: &[&BlobCount]| blobs.iter().map(|blob| blob.bytes).sum();
    let unnamed: Vec<&BlobCount> = all.iter().copied().filter(|blob| blob.named == 0).collect();
    let (blob_count, bytes) = (all.len() as u64, sum(&all));
    all.sort_by_key(|blob| std::cmp::Reverse(blob.bytes));
    wire::Blobs {
        blob_count,
        bytes,
        unreferenced_count: unnamed.len() as u64,
        unreferenced_bytes: sum(&unnamed),
        complete: counted.is_whole(),
        blobs: all.into_iter().take(limit).map(|blob| wire::Blob::of(blob, now)).collect(),
        pruned: None,
    }
}

/// Asks whether to remove the unreferenced blobs.
fn ask(out: &Out, counted: &CountedBlobs, now: Timestamp) -> Result<bool, Failure> {
    let prunable: Vec<u64> = counted.blobs().filter(|blob| blob.is_prunable(now)).map(|blob| blob.bytes).collect();
    if prunable.is_empty() {
        return Ok(true);
    }
    let blobs = figures::things(prunable.len() as u64, "blob");
    let what = format!("{blobs} without references ({})", figures::size(prunable.iter().sum()));
    out.ask(&format!("remove {what}?")).ok_or_else(|| Failure::Given {
        message: format!("cannot remove {what}: stdin is not a terminal, so nobody can confirm"),
        hint: Some("add --yes".to_owned()),
    })
}

fn sum(answer: &wire::Blobs) -> String {
    let all = format!("{}, {}", figures::things(answer.blob_count, "blob"), figures::size(answer.bytes));
    if answer.unreferenced_count == 0 {
        return all;
    }
    let (unnamed, bytes) = (figures::count(answer.unreferenced_count), figures::size(answer.unreferenced_bytes));
    format!("{all}; {unnamed} unreferenced, {bytes}")
}

fn removed(pruned: &wire::BlobsPruned, unnamed: u64) -> String {
    let removed = pruned.blob_ids.len() as u64;
    let text = format!("removed {}, {}", figures::things(removed, "blob"), figures::size(pruned.bytes));
    match unnamed.saturating_sub(removed) {
        0 => text,
        kept => format!("{text}; kept {} stored within the last {} minutes", figures::count(kept), GRACE_MINUTES),
    }
}

fn table(blobs: &[wire::Blob], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        (Column::Id, "ID"),
        (Column::Figure, "BYTES"),
        (Column::Figure, "REFERENCE_COUNT"),
        (Column::Word, "STORED_AT"),
    ])
    .dropping(&["STORED_AT"]);
    for blob in blobs {
        let stored_at = blob.stored_at.as_ref().and_then(|at| at.parse::<Timestamp>().ok());
        let age = stored_at.map_or_else(|| "-".to_owned(), |at| figures::age(at, now));
        table.row(vec![blob.id.clone(), figures::size(blob.bytes), figures::count(blob.reference_count), age]);
        if blob.reference_count == 0 {
            table.tone(2, Tone::Worth);
        }
    }
    table
}
