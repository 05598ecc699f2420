//! `duolog log`, and what its reading commands share.

mod append;
mod cat;
mod record;
mod repair;
mod replay;
mod search;
mod stream;
mod tail;
mod told;
mod verify;

use clap::{ArgGroup, Args};
use duolog::config::Config;
use duolog::log::{Entries, Entry, ReadFrom, Replay, ReplayDetail, Replayable};
use duolog::sessions::{Session, SessionRef, WriteTarget};
use duolog::{Cursor, Loss, RecordedLoss, Store};
pub(super) use replay::redraw;
use told::Teller;

use super::Context;
use crate::args::Start;
use crate::failure::{Ended, Failure};
use crate::figures;
use crate::out::{Detail, Out};

commands! {
/// What to do with the log of a session.
Log {
    Append(append::Append),
    Record(record::Record),
    Cat(cat::Cat),
    Tail(tail::Tail),
    Stream(stream::Stream),
    Replay(replay::Replay),
    Search(search::Search),
    Verify(verify::Verify),
    Repair(repair::Repair),
}}

/// The damaged places that are told one by one; more are counted.
const DAMAGE_TOLD: u64 = 20;

/// Lines on their way to stdout, byte for byte or told as a conversation, and what stood between them that is no line.
struct Printer<'o> {
    out: &'o mut Out,
    teller: Option<Teller<'o>>,
    lines: u64,
    damaged: u64,
    is_lost: bool,
}

impl<'o> Printer<'o> {
    fn new(out: &'o mut Out) -> Self {
        Self { out, teller: None, lines: 0, damaged: 0, is_lost: false }
    }

    fn telling(out: &'o mut Out, teller: Teller<'o>) -> Self {
        Self { teller: Some(teller), ..Self::new(out) }
    }

    /// A printer of what `pretty` asks for, for lines from `start` on.
    fn of(out: &'o mut Out, pretty: &Pretty, log: &impl Replayable, start: ReadFrom) -> Result<Self, Failure> {
        Ok(match pretty.teller(log, start)? {
            Some(teller) => Self::telling(out, teller),
            None => Self::new(out),
        })
    }

    /// Prints a line, or tells of bytes that are none.
    fn print(&mut self, entry: Entry<'_>) -> Result<(), Failure> {
        match entry {
            Entry::Line(line) => {
                self.lines += 1;
                if let Some(teller) = &mut self.teller {
                    return teller.line(self.out, &line);
                }
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
            Entry::Lost(loss) => {
                self.lost(&loss);
                Ok(())
            }
            Entry::LostEarlier(loss) => {
                tell_lost_earlier(self.out, loss);
                Ok(())
            }
        }
    }

    /// Prints entries byte for byte.
    fn copy(&mut self, entries: Entries<'_>) -> Result<(), Failure> {
        match entries {
            Entries::Lines { bytes, count, .. } => {
                self.lines += count;
                self.out.raw(bytes)
            }
            Entries::One(entry) => self.print(entry),
        }
    }

    /// Says that the log lacks bytes that were recorded of it.
    fn lost(&mut self, loss: &Loss) {
        self.is_lost = true;
        tell_lost(self.out, loss);
    }

    /// How a command ends that printed what is there.
    const fn ended(is_lost: bool) -> Ended {
        if is_lost { Ended::Damaged } else { Ended::Done }
    }

    /// Says how much was skipped: whoever reads the lines must know that they are not all. Gives how many whole texts
    /// are not there as they were put.
    fn finish(self) -> Result<u64, Failure> {
        let lost = match self.teller {
            Some(mut teller) => teller.finish(self.out)?,
            None => 0,
        };
        self.out.flush()?;
        if self.damaged > 0 {
            let places = figures::things(self.damaged, "damaged place");
            self.out.alert(format_args!("{places} skipped; duolog log verify shows all"));
        }
        Ok(lost)
    }
}

/// Whether lines are shown as what they mean.
#[derive(Args)]
struct Pretty {
    /// Show what the lines mean, step by step, as log replay --verbose does
    #[arg(long)]
    pretty: bool,
}

impl Pretty {
    const fn is_on(&self) -> bool {
        self.pretty
    }

    fn teller<'f>(&self, log: &impl Replayable, start: ReadFrom) -> Result<Option<Teller<'f>>, Failure> {
        if !self.pretty {
            return Ok(None);
        }
        let replay = Replay::new(log.dialect()?, ReplayDetail::Every);
        let replay = if start == ReadFrom::Start { replay } else { replay.from_within() };
        Ok(Some(Teller::new(replay, Detail::Folded)))
    }
}

/// The session that a writing command is about: where there is none that is called so, one is made.
#[derive(Args)]
#[command(group = ArgGroup::new("target").required(true).multiple(true).args(["session", "user_email", "session_name"]))]
pub(super) struct Target {
    /// The session: its whole id, or a thread name
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["user_email", "session_name"])]
    session: Option<String>,
    /// The user whose session it is: alone, a new one is made for that user
    #[arg(long, value_name = "USER")]
    user_email: Option<String>,
    /// What that user calls it: alone, the user of the configuration
    #[arg(long, value_name = "NAME")]
    session_name: Option<String>,
}

impl Target {
    /// The session that is meant; nothing where a new one is.
    pub(super) fn reference(&self, config: &Config) -> Option<SessionRef> {
        if let Some(session) = &self.session {
            return Some(SessionRef::Text(session.clone()));
        }
        let name = self.session_name.clone()?;
        let user = self.user_email.clone().unwrap_or_else(|| config.user().to_owned());
        Some(SessionRef::UserAndName { user, name })
    }

    /// The session that a write goes to.
    pub(super) fn write_target(&self, config: &Config) -> WriteTarget {
        match self.reference(config) {
            Some(reference) => WriteTarget::Named(reference),
            // The group of arguments requires one of the three.
            None => WriteTarget::NewOf(self.user_email.clone().unwrap_or_else(|| config.user().to_owned())),
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

/// Says that a log lacks bytes that were recorded of it, even with --quiet.
fn tell_lost(out: &Out, loss: &Loss) {
    out.alert(format_args!("this is not the whole log: {loss}; duolog log verify shows them, log repair records it"));
}

/// Says that a log lost bytes before, even with --quiet. It is no failure: what is there is the whole log of its epoch.
pub(super) fn tell_lost_earlier(out: &Out, loss: RecordedLoss) {
    out.alert(format_args!("this is not all that was appended: {loss}; duolog log verify shows them"));
}

/// Says that lines that were seen are gone.
fn tell_reset(out: &Out, cursor: Cursor) {
    out.alert(format_args!("reset: lines that were seen are no longer there; going on from {cursor}"));
}
