//! `duolog log`: the list of its commands, and the printer and arguments that they share.

mod append;
mod cat;
mod conversation;
mod record;
mod repair;
mod replay;
mod search;
mod stream;
mod tail;
mod verify;

use clap::{ArgGroup, Args};
use conversation::ConversationPrinter;
use duolog::config::Config;
use duolog::log::{Entries, Entry, ReadFrom, Replay, ReplayDetail, Replayable};
use duolog::sessions::{Session, SessionRef, WriteTarget};
use duolog::{Cursor, Loss, RecordedLoss, Store};
pub(super) use replay::redraw;

use super::Context;
use crate::args::Start;
use crate::failure::{Ended, Failure};
use crate::figures;
use crate::out::{Detail, Out};

commands! {
/// Subcommands of `duolog log`.
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

/// Maximum number of damaged places that are reported one by one; all are counted.
const DAMAGE_SHOWN_MAX: u64 = 20;

/// Prints the lines of a log to stdout, byte for byte or as a conversation, and counts damaged places.
struct Printer<'o> {
    out: &'o mut Out,
    conversation: Option<ConversationPrinter<'o>>,
    lines: u64,
    damaged: u64,
    is_lost: bool,
}

impl<'o> Printer<'o> {
    fn new(out: &'o mut Out) -> Self {
        Self { out, conversation: None, lines: 0, damaged: 0, is_lost: false }
    }

    fn conversation(out: &'o mut Out, conversation: ConversationPrinter<'o>) -> Self {
        Self { conversation: Some(conversation), ..Self::new(out) }
    }

    /// Returns a printer for lines from `start` on, in the format that `pretty` selects.
    fn of(out: &'o mut Out, pretty: &Pretty, log: &impl Replayable, start: ReadFrom) -> Result<Self, Failure> {
        Ok(match pretty.conversation(log, start)? {
            Some(conversation) => Self::conversation(out, conversation),
            None => Self::new(out),
        })
    }

    /// Prints a line, or warns of damaged or lost bytes.
    fn print(&mut self, entry: Entry<'_>) -> Result<(), Failure> {
        match entry {
            Entry::Line(line) => {
                self.lines += 1;
                if let Some(conversation) = &mut self.conversation {
                    return conversation.line(self.out, &line);
                }
                self.out.raw(line.bytes)?;
                self.out.raw(b"\n")
            }
            Entry::Damaged { start, end, reason } => {
                self.damaged += 1;
                if self.damaged <= DAMAGE_SHOWN_MAX {
                    // Print the warning after the lines that come before it.
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
            Entries::Single(entry) => self.print(entry),
        }
    }

    /// Warns that the log lacks recorded bytes.
    fn lost(&mut self, loss: &Loss) {
        self.is_lost = true;
        tell_lost(self.out, loss);
    }

    /// Returns how a command ends after it printed all readable lines.
    const fn ended(is_lost: bool) -> Ended {
        if is_lost { Ended::Damaged } else { Ended::Done }
    }

    /// Flushes the output and warns of the number of damaged places that were skipped. Returns the number of whole
    /// texts that are missing or damaged.
    fn finish(self) -> Result<u64, Failure> {
        let lost = match self.conversation {
            Some(mut conversation) => conversation.finish(self.out)?,
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

/// Selects the output format of a reading command.
#[derive(Args)]
struct Pretty {
    /// Show the lines as a conversation, as log replay --verbose does
    #[arg(long)]
    pretty: bool,
}

impl Pretty {
    const fn is_on(&self) -> bool {
        self.pretty
    }

    fn conversation<'f>(
        &self,
        log: &impl Replayable,
        start: ReadFrom,
    ) -> Result<Option<ConversationPrinter<'f>>, Failure> {
        if !self.pretty {
            return Ok(None);
        }
        let replay = Replay::new(log.dialect()?, ReplayDetail::All);
        let replay = if start == ReadFrom::Start { replay } else { replay.from_within() };
        Ok(Some(ConversationPrinter::new(replay, Detail::Folded)))
    }
}

/// Session that a command writes to. If the session does not exist, it is created.
#[derive(Args)]
#[command(group = ArgGroup::new("target").required(true).multiple(true).args(["session", "user_email", "session_name"]))]
pub(super) struct Target {
    /// Session id or thread name; no prefix
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["user_email", "session_name"])]
    session: Option<String>,
    /// User of the session [default: user of the configuration]
    ///
    /// Without --session-name a new session is created for the user.
    #[arg(long, value_name = "USER")]
    user_email: Option<String>,
    /// Name of the user's session
    #[arg(long, value_name = "NAME")]
    session_name: Option<String>,
}

impl Target {
    /// Returns the reference of the session. `None` if a new session is to be created.
    pub(super) fn reference(&self, config: &Config) -> Option<SessionRef> {
        if let Some(session) = &self.session {
            return Some(SessionRef::Text(session.clone()));
        }
        let name = self.session_name.clone()?;
        let user = self.user_email.clone().unwrap_or_else(|| config.user().to_owned());
        Some(SessionRef::UserAndName { user, name })
    }

    /// Returns the target of a write.
    pub(super) fn write_target(&self, config: &Config) -> WriteTarget {
        match self.reference(config) {
            Some(reference) => WriteTarget::Named(reference),
            // The argument group requires one of the three.
            None => WriteTarget::NewOf(self.user_email.clone().unwrap_or_else(|| config.user().to_owned())),
        }
    }
}

/// Returns the cursor of a start. A cursor of an older epoch is reset to the last valid position, with a warning.
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

/// Warns that a log lacks recorded bytes, even with --quiet.
fn tell_lost(out: &Out, loss: &Loss) {
    out.alert(format_args!(
        "the log is incomplete: {loss}; duolog log verify shows the loss, duolog log repair records it"
    ));
}

/// Warns that a log has a recorded loss, even with --quiet. This is no failure: the log of the current epoch is
/// complete.
pub(super) fn tell_lost_earlier(out: &Out, loss: RecordedLoss) {
    out.alert(format_args!("the log does not contain all appended lines: {loss}; duolog log verify shows the loss"));
}

/// Warns that lines that were read before no longer exist.
fn tell_reset(out: &Out, cursor: Cursor) {
    out.alert(format_args!("reset: lines that were read before no longer exist; continuing from {cursor}"));
}
