//! `duolog log`, and what its reading commands share.

mod append;
mod cat;
mod repair;
mod tail;
mod verify;

use clap::Subcommand;
use duolog::log::Entry;
use duolog::sessions::Session;
use duolog::{Cursor, Store};

use super::Context;
use crate::args::Start;
use crate::failure::{Failure, Outcome};
use crate::figures;
use crate::out::Out;

/// What to do with the log of a session.
#[derive(Subcommand)]
pub enum Log {
    Append(append::Append),
    Cat(cat::Cat),
    Tail(tail::Tail),
    Verify(verify::Verify),
    Repair(repair::Repair),
}

impl Log {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        match self {
            Self::Append(command) => command.run(context),
            Self::Cat(command) => command.run(context),
            Self::Tail(command) => command.run(context),
            Self::Verify(command) => command.run(context),
            Self::Repair(command) => command.run(context),
        }
    }
}

/// The damaged places that are told one by one; more are counted.
const DAMAGE_TOLD: u64 = 20;

/// Lines on their way to stdout, byte for byte, and what stood between them that is not a line.
struct Printer<'o> {
    out: &'o mut Out,
    lines: u64,
    damaged: u64,
}

impl<'o> Printer<'o> {
    fn new(out: &'o mut Out) -> Self {
        Self { out, lines: 0, damaged: 0 }
    }

    /// Prints a line, or tells of bytes that are none.
    fn print(&mut self, entry: Entry<'_>) -> Result<(), Failure> {
        match entry {
            Entry::Line(line) => {
                self.lines += 1;
                self.out.raw(line.bytes)?;
                self.out.raw(b"\n")
            }
            Entry::Damaged { start, end, reason } => {
                self.damaged += 1;
                if self.damaged <= DAMAGE_TOLD {
                    // After the lines that stand before it.
                    self.out.flush()?;
                    self.out.warn(format_args!("skipped {start} to {end}: {reason}"));
                }
                Ok(())
            }
        }
    }

    /// Says how much was skipped: whoever reads the lines must know that they are not all.
    fn finish(self) {
        if self.damaged > 0 {
            let places = figures::things(self.damaged, "damaged place");
            self.out.alert(format_args!("{places} skipped; duolog log verify shows all"));
        }
    }
}

/// The cursor that a start means. One of an older epoch is reset to the last position that still holds, and it is said.
fn cursor_of(out: &Out, store: &Store, session: &Session, start: Start) -> Result<Cursor, Failure> {
    let cursor = match start {
        Start::Position(position) => return Ok(Cursor { epoch: session.log_epoch, position }),
        Start::Cursor(cursor) => cursor,
    };
    if cursor.epoch == session.log_epoch {
        return Ok(cursor);
    }
    let now = store.log(&session.id).follow(Some(cursor))?.cursor();
    tell_reset(out, now);
    Ok(now)
}

/// Says that lines that were seen are gone.
fn tell_reset(out: &Out, cursor: Cursor) {
    out.alert(format_args!("reset: lines that were seen are no longer there; going on from {cursor}"));
}
