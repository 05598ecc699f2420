//! `duolog log tail`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use duolog::log::{Entry, ReadFrom};
use duolog::sessions::Session;
use duolog::{Cursor, Limits, Position, Seen, Store};
use signal_hook::consts::SIGINT;

use super::{Context, Pretty, Printer, cursor_of, tell_reset};
use crate::args::{self, Start, Which};
use crate::failure::{Ended, Failure, Outcome};

/// How soon after a line the next is looked for, and how seldom while none comes.
const LOOK_SOON: Duration = Duration::from_millis(5);
const LOOK_SELDOM: Duration = Duration::from_millis(100);

const AFTER: &str = "\
Examples:
  duolog log tail demo
  duolog log tail demo -n 0 --follow | jq -r .text
  duolog log tail demo --from 0:1234 --follow --show-cursor

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
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let reference = self.which.reference()?;
        let limits = context.config()?.limits();
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let is_ended = Arc::new(AtomicBool::new(false));
        if self.follow {
            // From here on Ctrl-C only asks: what is being printed is printed whole.
            signal_hook::flag::register(SIGINT, Arc::clone(&is_ended))
                .map_err(Failure::file("listen for", std::path::Path::new("Ctrl-C")))?;
        }
        let from = match self.from {
            Some(start) => cursor_of(context.out, &store, &session, start)?,
            None => start_of_last(&store, &session, self.lines)?,
        };
        let begin = if from.position == Position::ZERO { ReadFrom::Start } else { ReadFrom::Position(from.position) };
        let mut printer = Printer::of(context.out, &self.pretty, &store.log(&session.id), begin)?;
        let ended = go_on(&mut printer, &store, &session, from, &limits, self.follow.then_some(&*is_ended))?;
        printer.finish()?;
        if self.show_cursor {
            context.out.tell("cursor", ended);
        }
        Ok(Ended::Done)
    }
}

/// Where the last lines begin. Whoever follows from there has seen them, and knows them again after a reset.
fn start_of_last(store: &Store, session: &Session, count: u64) -> Result<Cursor, Failure> {
    let mut first = None;
    let end = store.log(&session.id).read(ReadFrom::Last(count), |entry| {
        first = Some(match entry {
            Entry::Line(line) => line.start,
            Entry::Damaged { start, .. } => start,
        });
        ControlFlow::Break(())
    })?;
    Ok(Cursor { epoch: session.log_epoch, position: first.unwrap_or(end) })
}

/// Prints what comes after a cursor: up to the end, or on and on until `is_ended`. Says where it stopped.
fn go_on(
    printer: &mut Printer<'_>,
    store: &Store,
    session: &Session,
    from: Cursor,
    limits: &Limits,
    is_ended: Option<&AtomicBool>,
) -> Result<Cursor, Failure> {
    let mut follow = store.log(&session.id).follow(Some(from))?;
    let mut pause = LOOK_SOON;
    loop {
        if is_ended.is_some_and(|is_ended| is_ended.load(Ordering::Relaxed)) {
            return Ok(follow.cursor());
        }
        let mut result = Ok(());
        let seen = follow.poll(&mut |item| {
            if result.is_ok() {
                result = printer.print(Entry::of(item, limits.line_bytes_max));
            }
        });
        let seen = seen.map_err(duolog::Error::from)?;
        result?;
        match seen {
            Seen::Reset(cursor) => tell_reset(printer.out, cursor),
            Seen::Delivered => {
                printer.out.flush()?;
                pause = LOOK_SOON;
            }
            Seen::Idle if is_ended.is_none() || printer.out.is_closed() => return Ok(follow.cursor()),
            Seen::Idle => {
                printer.out.flush()?;
                follow.wait(pause);
                pause = (pause * 2).min(LOOK_SELDOM);
            }
        }
    }
}
