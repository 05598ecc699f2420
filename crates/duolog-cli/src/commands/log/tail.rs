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

Exit code: 4 if the log lacks recorded bytes; the lines that are there are printed.
  Once the loss is on record: 0, and a warning

JSON: the raw lines, byte for byte, with --json and without; with --pretty as log replay gives them.";

/// Print the last lines of a log, and go on with new ones
///
/// Only whole lines are shown that no writer can take back. Where lines that were seen are gone after all, it is told on
/// stderr, and following goes on from the last position that holds. Ctrl-C ends it.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Tail {
    #[command(flatten)]
    which: Which,
    /// How many lines to begin with
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    lines: u64,
    /// Wait for new lines and print them as they come
    #[arg(long, short)]
    follow: bool,
    /// Begin at a cursor (0:1234) or position (1234), instead of some lines before the end
    #[arg(long, value_name = "CURSOR", value_parser = args::start, conflicts_with = "lines")]
    from: Option<Start>,
    /// Say on stderr, at the end, from which cursor to go on
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
        // From here on Ctrl-C only asks: what is being printed is printed whole.
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

/// Where the last lines begin. Whoever follows from there has seen them, and knows them again after a reset.
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

/// Prints what comes: up to the end of the log, or on and on until the end of the command.
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
