//! What the workers did and saw in one round.
//!
//! Every command has a span of ticks: one tick is taken before its process starts, another after it ended. A command
//! whose end is below the start of another happened before it; all else is concurrent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::command::Outcome;
use super::domain::shared::Facts;

/// When a command ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// A tick before its process started.
    pub start: u64,
    /// A tick after its process ended.
    pub end: u64,
}

impl Span {
    /// Returns true if this one ended before the other started.
    pub fn before(self, other: Self) -> bool {
        self.end < other.start
    }
}

/// A line of a log, without its newline.
pub type Line = Arc<str>;

/// A command that was run, for the report.
#[derive(Clone, Debug)]
pub struct Step {
    /// The worker that ran it.
    pub worker: usize,
    /// Its number among the commands of the worker.
    pub number: usize,
    /// When.
    pub span: Span,
    /// The command line.
    pub text: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What it answered, shortened.
    pub answer: String,
}

/// Where an acknowledged batch ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The session that the answer names.
    pub session: String,
    /// The epoch of its log.
    pub epoch: u64,
    /// The position behind the last line.
    pub end: u64,
}

/// An attempt to append one batch.
#[derive(Clone, Debug)]
pub struct Append {
    /// The command.
    pub step: usize,
    /// When.
    pub span: Span,
    /// The session as it was named: an id or a thread name.
    pub target: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// The operation id.
    pub operation: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Where the lines are, as the answer says.
    pub place: Option<Place>,
    /// Returns true if the lines came with a document that was imported, and not as one batch.
    pub imported: bool,
}

/// An attempt to delete a session, or only its log.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The command.
    pub step: usize,
    /// When; with an operation id from the first attempt on.
    pub span: Span,
    /// The session as it was named.
    pub target: String,
    /// The session that was deleted, as the answer says.
    pub session: Option<String>,
    /// Returns true if the session goes too, not only its log.
    pub whole: bool,
    /// How it ended.
    pub outcome: Outcome,
}

/// An attempt to make a session: new, or from a document.
#[derive(Clone, Debug)]
pub struct Create {
    /// The command.
    pub step: usize,
    /// When.
    pub span: Span,
    /// The id that was asked for, or that the answer names.
    pub id: Option<String>,
    /// The name that was asked for.
    pub name: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
}

/// An attempt to rename a session.
#[derive(Clone, Debug)]
pub struct Rename {
    /// The command.
    pub step: usize,
    /// When.
    pub span: Span,
    /// The session as it was named.
    pub target: String,
    /// The session that was renamed, as the answer says.
    pub session: Option<String>,
    /// The new name.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// All lines of a log as somebody read them.
#[derive(Clone, Debug)]
pub struct Look {
    /// The command.
    pub step: usize,
    /// When the reading began, or for a copy when the copying began; and when it ended.
    pub span: Span,
    /// The session.
    pub session: String,
    /// How it was read.
    pub how: &'static str,
    /// The lines of this tester, in their order.
    pub lines: Vec<Line>,
    /// Operations that were tried again in the copy that is looked at, all acknowledged there.
    pub retried: Vec<usize>,
}

/// A piece of a log that a follower was given.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The command.
    pub step: usize,
    /// The session.
    pub session: String,
    /// The epoch of its log.
    pub epoch: u64,
    /// Where the piece begins.
    pub from: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The sessions that a home or a copy of it has.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The command.
    pub step: usize,
    /// When the reading or copying began and ended.
    pub span: Span,
    /// How it was read.
    pub how: &'static str,
    /// Ids and names.
    pub sessions: Vec<(String, Option<String>)>,
    /// Sessions that the command itself reported as missing.
    pub reported: Vec<String>,
}

/// A rule that did not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// What was found.
    pub what: String,
    /// The commands that it is about.
    pub steps: Vec<usize>,
    /// The session that it is about.
    pub session: Option<String>,
}

/// Everything of one round.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Every command.
    pub steps: Vec<Step>,
    /// Appends.
    pub appends: Vec<Append>,
    /// Deletions.
    pub deletes: Vec<Delete>,
    /// Creations.
    pub creates: Vec<Create>,
    /// Renames.
    pub renames: Vec<Rename>,
    /// Logs that were read whole.
    pub looks: Vec<Look>,
    /// Sessions that were listed, all of them.
    pub listings: Vec<Listing>,
    /// Pieces of logs with their positions.
    pub seen: Vec<Seen>,
    /// Rules that were found broken on the way.
    pub violations: Vec<Violation>,
    /// What all workers share of runs, chats and schedules.
    pub facts: Facts,
    /// Commands by noun and verb: done, refused, unknown.
    pub verbs: BTreeMap<String, [u64; 3]>,
}

impl Events {
    /// The operation of an append, if every attempt under it had the same content: then a retry must be acknowledged.
    pub fn retriable<'a>(&self, append: &'a Append) -> Option<&'a str> {
        let operation = append.operation.as_deref()?;
        let mut attempts = self.appends.iter().filter(|other| other.operation.as_deref() == Some(operation));
        attempts.all(|other| other.lines == append.lines || other.outcome == Outcome::Refused).then_some(operation)
    }

    /// The operation of an append whose end is unknown, if no other attempt under it was acknowledged.
    pub fn undecided<'a>(&self, append: &'a Append) -> Option<&'a str> {
        let operation = self.retriable(append)?;
        let mut attempts = self.appends.iter().filter(|other| other.operation.as_deref() == Some(operation));
        let open = append.outcome == Outcome::Unknown && attempts.all(|other| other.outcome != Outcome::Done);
        open.then_some(operation)
    }
}

/// What all workers write to.
#[derive(Debug, Default)]
pub struct History {
    ticks: AtomicU64,
    events: Mutex<Events>,
}

impl History {
    /// Takes the next tick.
    pub fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    /// Lends the events.
    pub fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a broken rule.
    pub fn violation(&self, rule: &'static str, what: String, step: usize, session: Option<&str>) {
        let session = session.map(str::to_owned);
        self.events().violations.push(Violation { rule, what, steps: vec![step], session });
    }

    /// Gives the events out, at the end of the round.
    pub fn take(&self) -> Events {
        std::mem::take(&mut self.events())
    }
}
