//! `duolog state blobs`.

use clap::Args;
use duolog::limits::{BLOB_GRACE, PAGE_DEFAULT};
use duolog::state::{BlobCount, CountedBlobs, PrunedBlobs};
use duolog::{Clock as _, Moment, SystemClock};
use serde::Serialize;

use super::Context;
use crate::failure::{Ended, Failure, Outcome};
use crate::figures;
use crate::out::{Column, Out, Table, Tone};

/// How long a blob that nothing names is kept, as people say it.
const GRACE_MINUTES: u64 = BLOB_GRACE.as_secs() / 60;

const AFTER: &str = "\
Examples:
  duolog state blobs
  duolog state blobs --limit 1000 --json | jq '.blobs[] | select(.named == 0)'
  duolog state blobs --prune --yes

Exit code: 1 where the question is answered with no

JSON:
  {\"count\": 3, \"bytes\": 300000, \"unnamed\": 1, \"unnamed_bytes\": 100000, \"whole\": true,
   \"blobs\": [{\"blob\": sha256, \"bytes\", \"named\": how often, \"put_at\", \"prunable\": true|false}],
   \"pruned\": null|{\"removed\": [sha256, …], \"bytes\", \"leftovers\": files of puts that never ended}}
  blobs lists the largest, up to --limit. whole is false where more are there than are counted at once.";

/// List what is kept whole beside the logs, and remove what no line names
///
/// A blob is the whole of a text that was shortened in its line. The logs are read to count how often each is named.
/// --prune removes those that nothing names, but for the ones put within the last hour; a recording that runs is safe.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Blobs {
    /// List at most N, the largest first
    #[arg(long, value_name = "N", default_value_t = PAGE_DEFAULT as usize)]
    limit: usize,
    /// Remove the blobs that nothing names
    #[arg(long)]
    prune: bool,
    /// Do not ask
    #[arg(long, short, requires = "prune")]
    yes: bool,
}

#[derive(Serialize)]
struct Answer {
    count: u64,
    bytes: u64,
    unnamed: u64,
    unnamed_bytes: u64,
    whole: bool,
    blobs: Vec<Blob>,
    pruned: Option<Pruned>,
}

#[derive(Serialize)]
struct Blob {
    #[serde(rename = "blob")]
    id: String,
    bytes: u64,
    named: u64,
    put_at: Option<String>,
    prunable: bool,
    #[serde(skip)]
    age: String,
}

#[derive(Serialize)]
struct Pruned {
    removed: Vec<String>,
    bytes: u64,
    leftovers: u64,
}

impl Blobs {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = if self.prune { context.open_to_write()? } else { context.open_to_read()? };
        let now = SystemClock.now();
        // Without a total the bar only counts; that is no reason to fail.
        let total = if context.out.shows_progress() { store.state().stats().ok() } else { None };
        let total = total.map(|stats| stats.logs.bytes);
        let progress = context.out.progress("reading logs");
        let counted = store.state().count_blobs(|done| progress.set(done, total))?;
        drop(progress);
        let mut answer = answer(&counted, self.limit, now);
        let mut ended = Ended::Done;
        if self.prune {
            if self.yes || ask(context.out, &counted, now)? {
                answer.pruned = Some(pruned(&counted.prune().map_err(duolog::Error::from)?));
            } else {
                ended = Ended::No;
            }
        }
        context.out.answer(&answer, |text| {
            if !answer.blobs.is_empty() {
                text.table(&table(&answer.blobs));
            }
            text.line(sum(&answer));
            if let Some(pruned) = &answer.pruned {
                text.line(removed(pruned, answer.unnamed));
            }
        })?;
        if !answer.whole {
            context.out.warn(format_args!("there are more: only {} were counted", figures::count(answer.count)));
        }
        if self.prune {
            context.close(store);
        } else if answer.unnamed > 0 {
            context.out.note("duolog state blobs --prune removes what nothing names");
        }
        Ok(ended)
    }
}

fn answer(counted: &CountedBlobs<'_>, limit: usize, now: Moment) -> Answer {
    let mut all: Vec<&BlobCount> = counted.blobs().collect();
    let sum = |blobs: &[&BlobCount]| blobs.iter().map(|blob| blob.bytes).sum();
    let unnamed: Vec<&BlobCount> = all.iter().copied().filter(|blob| blob.named == 0).collect();
    let (count, bytes) = (all.len() as u64, sum(&all));
    all.sort_by_key(|blob| std::cmp::Reverse(blob.bytes));
    Answer {
        count,
        bytes,
        unnamed: unnamed.len() as u64,
        unnamed_bytes: sum(&unnamed),
        whole: counted.is_whole(),
        blobs: all.into_iter().take(limit).map(|blob| shape(blob, now)).collect(),
        pruned: None,
    }
}

fn shape(blob: &BlobCount, now: Moment) -> Blob {
    Blob {
        id: blob.id.to_string(),
        bytes: blob.bytes,
        named: blob.named,
        put_at: blob.put_at.map(|at| at.to_string()),
        prunable: blob.is_prunable(now),
        age: blob.put_at.map_or_else(|| "-".to_owned(), |at| figures::age(at, now)),
    }
}

fn pruned(pruned: &PrunedBlobs) -> Pruned {
    let removed = pruned.removed.iter().map(ToString::to_string).collect();
    Pruned { removed, bytes: pruned.bytes, leftovers: pruned.leftovers }
}

/// Asks a person whether what nothing names shall go.
fn ask(out: &Out, counted: &CountedBlobs<'_>, now: Moment) -> Result<bool, Failure> {
    let prunable: Vec<u64> = counted.blobs().filter(|blob| blob.is_prunable(now)).map(|blob| blob.bytes).collect();
    if prunable.is_empty() {
        return Ok(true);
    }
    let blobs = figures::things(prunable.len() as u64, "blob");
    let what = format!("{blobs}, {}, that nothing names", figures::size(prunable.iter().sum()));
    out.ask(&format!("remove {what}?")).ok_or_else(|| Failure::Given {
        message: format!("{what} would be removed, and nobody is there to ask"),
        hint: Some("say --yes".to_owned()),
    })
}

fn sum(answer: &Answer) -> String {
    let all = format!("{}, {}", figures::things(answer.count, "blob"), figures::size(answer.bytes));
    if answer.unnamed == 0 {
        return all;
    }
    let (unnamed, bytes) = (figures::count(answer.unnamed), figures::size(answer.unnamed_bytes));
    format!("{all}; {unnamed} that nothing names, {bytes}")
}

fn removed(pruned: &Pruned, unnamed: u64) -> String {
    let removed = pruned.removed.len() as u64;
    let text = format!("removed {}, {}", figures::things(removed, "blob"), figures::size(pruned.bytes));
    match unnamed.saturating_sub(removed) {
        0 => text,
        kept => format!("{text}; kept {} that came within the last {} minutes", figures::count(kept), GRACE_MINUTES),
    }
}

fn table(blobs: &[Blob]) -> Table {
    let mut table =
        Table::new(&[(Column::Id, "BLOB"), (Column::Figure, "SIZE"), (Column::Figure, "NAMED"), (Column::Word, "PUT")]);
    for blob in blobs {
        table.row(vec![blob.id.clone(), figures::size(blob.bytes), figures::count(blob.named), blob.age.clone()]);
        if blob.named == 0 {
            table.tone(2, Tone::Worth);
        }
    }
    table
}
