//! `duolog log tail`.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use duolog::limits::LINE_BYTES_READ_MAX;
use duolog::log::Follow;
use duolog::log::{Entry, ReadFrom};
use duolog::sessions::Session;
use duolog::{Cursor, Position, Seen, Store};

use super::{Context, Pretty, Printer, cursor_of, tell_lost_earlier, tell_reset};
use crate::args::{self, Start, Which};
use crate::failure::{CommandResult, Failure};
use crate::out::Ending;

const AFTER: &str = "\
Examples:
  duolog log tail demo
  duolog log tail demo -n 0 --follow | jq -r .text
  duolog log tail demo --from 0:1234 --follow --show-cursor

Exit code: 4 if the log lacks recorded bytes; the remaining lines are printed.
  After log repair has recorded the loss: 0, with a warning

JSON: the raw lines, byte for byte, with or without --json; with --pretty as in log replay";

/// Print the last lines of a log and follow new lines
///
/// Only complete lines that no writer can roll back are printed. If lines that were printed no longer exist, a warning
/// is printed to stderr, and following continues from the last valid position. Press Ctrl-C to stop.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Tail {
    #[command(flatten)]
    which: Which,
    /// Number of lines from the end of the log
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    lines: u64,
    /// Wait for new lines and print them as they arrive
    #[arg(long, short)]
    follow: bool,
    /// Start cursor (0:1234) or position (1234)
    #[arg(long, value_name = "CURSOR", value_parser = args::start, conflicts_with = "lines")]
    from: Option<Start>,
    /// Print the cursor to continue from to stderr at the end
    #[arg(long)]
    show_cursor: bool,
    #[command(flatten)]
    pretty: Pretty,
}

impl Tail {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let (loss, recorded_loss) = (store.log(&session.id).loss()?, store.log(&session.id).recorded_loss()?);
        let from = match self.from {
            Some(start) => cursor_of(context.out, &store, &session, start)?,
            None => start_of_last(&store, &session, self.lines)?,
        };
        let begin = if from.position == Position::ZERO { ReadFrom::Start } else { ReadFrom::Position(from.position) };
        let log = store.log(&session.id);
        let mut follow = log.follow(Some(from))?;
        // From here on, Ctrl-C sets a flag: the current output is completed first.
        let ending = if self.follow { Some(context.out.ending()?) } else { None };
        if let Some(ending) = &ending {
            ending.rings(follow.bell());
        }
        let mut printer = Printer::of(context.out, &self.pretty, &log, begin)?;
        if let Some(loss) = &loss {
            printer.lost(loss);
        }
        if let Some(loss) = recorded_loss {
            tell_lost_earlier(printer.out, loss);
        }
        go_on(&mut printer, &mut follow, ending.as_ref())?;
        let ended = follow.cursor();
        printer.finish()?;
        if self.show_cursor {
            context.out.tell("cursor", ended);
        }
        Ok(Printer::ended(loss.is_some()))
    }
}

/// Returns the start of the last `count` lines. A reader that follows from there detects a reset of these lines.
fn start_of_last(store: &Store, session: &Session, count: u64) -> Result<Cursor, Failure> {
    let mut first = None;
    let end = store.log(&session.id).read(ReadFrom::Last(count), |entry| {
        first = Some(match entry {
            Entry::Line(line) => line.start,
            Entry::Damaged { start, .. } => start,
            Entry::Lost(_) | Entry::LostEarlier(_) => return ControlFlow::Continue(()),
        });
        ControlFlow::Break(())
    })?;
    Ok(Cursor { epoch: session.log_epoch, position: first.unwrap_or(end) })
}

/// Prints new lines up to the end of the log, or until the command is stopped if `ending` is given.
fn go_on(printer: &mut Printer<'_>, follow: &mut Follow, ending: Option<&Ending>) -> Result<(), Failure> {
    while !ending.is_some_and(Ending::has_come) {
        let mut result = Ok(());
        let seen = follow.poll(&mut |item| {
            if result.is_ok() {
                result = printer.print(Entry::of(item, LINE_BYTES_READ_MAX));
            }
        });
        let seen = seen?;
        result?;
        match seen {
            Seen::Reset(cursor) => tell_reset(printer.out, cursor),
            Seen::Delivered => printer.out.flush()?,
            Seen::Idle if ending.is_none() => break,
            Seen::Idle => {
                printer.out.flush()?;
                follow.wait(Duration::MAX);
            }
        }
    }
    Ok(())
}
