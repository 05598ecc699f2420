//! `duolog log cat`.

use std::ops::ControlFlow;

use clap::Args;
use duolog::log::ReadFrom;

use super::{Context, Pretty, Printer, cursor_of};
use crate::args::{self, Start, Which};
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog log cat demo | jq -r .text
  duolog log cat demo --last 100
  duolog log cat --user-email ada@example.com --session-name plan --from 0:1234

Exit code: 4 if the log lacks recorded bytes; the remaining lines are printed.
  After log repair has recorded the loss: 0, with a warning

JSON: the raw lines, byte for byte, with or without --json; with --pretty as in log replay";

/// Print the lines of a log
///
/// Lines are printed byte for byte. A line that is not UTF-8, contains a NUL byte or is not enclosed in braces is
/// skipped: its positions are printed to stderr, and the number of skipped lines at the end. Lines are not parsed; use
/// log verify to check them.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Cat {
    #[command(flatten)]
    which: Which,
    /// Start cursor (0:1234) or position (1234)
    #[arg(long, value_name = "CURSOR", value_parser = args::start, conflicts_with = "last")]
    from: Option<Start>,
    /// Number of lines from the end of the log
    #[arg(long, value_name = "N")]
    last: Option<u64>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    pretty: Pretty,
}

impl Cat {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let from = match (self.from, self.last) {
            (Some(start), _) => ReadFrom::Position(cursor_of(context.out, &store, &session, start)?.position),
            (None, Some(count)) => ReadFrom::Last(count),
            (None, None) => ReadFrom::Start,
        };
        let limit = self.limit.unwrap_or(u64::MAX);
        let log = store.log(&session.id);
        let mut printer = Printer::of(context.out, &self.pretty, &log, from)?;
        let mut result = Ok(());
        let mut go_on = |printed| {
            result = printed;
            if result.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if self.limit.is_none() && !self.pretty.is_on() {
            log.read_blocks(from, |entries| go_on(printer.copy(entries)))?;
        } else if limit > 0 {
            log.read(from, |entry| match go_on(printer.print(entry)) {
                ControlFlow::Continue(()) if printer.lines >= limit => ControlFlow::Break(()),
                other => other,
            })?;
        }
        result?;
        let is_lost = printer.is_lost;
        printer.finish()?;
        Ok(Printer::ended(is_lost))
    }
}
