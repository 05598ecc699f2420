//! `duolog sessions compact`.

use std::fs;
use std::io::{Read as _, stdin};
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use duolog::sessions::{Compaction, CompactionInfo};
use duolog_wire as wire;

use super::{Context, OnBranch};
use crate::args::Which;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions compact demo --info
  duolog sessions compact demo --summary-file summary.json --to 120
  duolog sessions compact demo --undo

Exit code: 1 if there is no summary to undo

JSON:
  {\"branch_id\", \"from_ord\": 0, \"to_ord\": 120, \"message_id\"}
  --info: {\"item_count\", \"uncompacted\", \"threshold\", \"due\", \"summaries\": [{… as above …}]}";

/// Summarise a range of items, show the summaries, or undo one
///
/// No item is deleted: sessions items --full shows all of them.
///
/// You write the summary: read the items, summarise them, and pass the number of items that you read as --to. Items
/// that are added meanwhile are not covered by the summary.
#[derive(Args)]
#[command(after_help = AFTER)]
#[command(group = ArgGroup::new("what").required(true).args(["summary_file", "info", "undo"]))]
pub struct Compact {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    branch: OnBranch,
    /// File with the summary, one item; - for stdin
    #[arg(long, value_name = "FILE")]
    summary_file: Option<PathBuf>,
    /// Ordinal of the first item of the range
    #[arg(long, value_name = "N", default_value_t = 0, requires = "summary_file")]
    from: u64,
    /// Ordinal after the last item of the range [default: end of the branch]
    #[arg(long, value_name = "N", requires = "summary_file")]
    to: Option<u64>,
    /// Show the summaries, the number of items without a summary, and whether a summary is due
    #[arg(long)]
    info: bool,
    /// Number of items without a summary above which a summary is due
    #[arg(long, value_name = "N", requires = "info")]
    threshold: Option<u64>,
    /// Undo the last summary
    #[arg(long)]
    undo: bool,
}

impl Compact {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let durability = context.config()?.durability();
        if self.info {
            let store = context.open_to_read()?;
            let session = store.sessions().resolve(&reference)?;
            let info = store.sessions().compaction(&session.id, self.branch.reference()).info(self.threshold)?;
            return tell(context, &info);
        }
        let summary = self.summary_file.as_deref().map(read).transpose()?;
        context.has_read(summary.as_deref().unwrap_or_default());
        let store = context.open_to_write()?;
        let session = store.sessions().resolve(&reference)?;
        let compaction = store.sessions().compaction(&session.id, self.branch.reference());
        let (done, verb) = match summary {
            Some(summary) => {
                let to = self.to.map_or_else(|| end(&compaction), Ok)?;
                (compaction.compact(Some(self.from..to), summary.trim(), durability)?, "summarised")
            }
            None => (compaction.undo(durability)?, "undid the summary of"),
        };
        context.out.confirm(&wire::Compacted::from(&done), |text| {
            text.line(format_args!("{verb} {}..{}", done.range.start, done.range.end));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

fn end(compaction: &Compaction) -> Result<u64, Failure> {
    Ok(compaction.info(None)?.items)
}

fn read(path: &Path) -> Result<String, Failure> {
    if path == Path::new("-") {
        let mut text = String::new();
        stdin().lock().read_to_string(&mut text).map_err(Failure::file("read", Path::new("stdin")))?;
        return Ok(text);
    }
    fs::read_to_string(path).map_err(Failure::file("read", path))
}

fn tell(context: &mut Context<'_>, info: &CompactionInfo) -> CommandResult {
    context.out.answer(&wire::CompactionInfo::from(info), |text| {
        text.field("items", figures::count(info.items));
        text.field("uncompacted", figures::count(info.uncompacted));
        text.field("threshold", figures::count(info.threshold));
        text.field("due", if info.is_due() { "yes" } else { "no" });
        for one in &info.summaries {
            text.field("summary", format_args!("{}..{}", one.range.start, one.range.end));
        }
    })?;
    Ok(Ended::Done)
}
