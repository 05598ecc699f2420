//! The commands of all workers in one round, and what they read.
//!
//! Every command has a span of ticks: one tick is taken before its process starts, another after it ended. A command
//! happened before another if its end is below the start of the other; all else is concurrent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::command::Outcome;
use super::domain::shared::Facts;

/// The ticks of a command.
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
    /// Its ticks.
    pub span: Span,
    /// The command line.
    pub text: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// Its answer, shortened.
    pub answer: String,
}

/// The position of an acknowledged batch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The session in the answer.
    pub session: String,
    /// The epoch of its log.
    pub epoch: u64,
    /// The position after the last line.
    pub end: u64,
}

/// An attempt to append one batch.
#[derive(Clone, Debug)]
pub struct Append {
    /// The command.
    pub step: usize,
    /// Its ticks.
    pub span: Span,
    /// The session in the command: an id or a name.
    pub target: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// The operation id.
    pub operation: Option<String>,
    /// Its outcome.
    pub outcome: Outcome,
    /// The position of the lines in the answer.
    pub place: Option<Place>,
    /// True if the lines came with an imported document, and not as one batch.
    pub imported: bool,
}

/// An attempt to delete a session, or only its log.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The command.
    pub step: usize,
    /// Its ticks; with an operation id, from the first attempt on.
    pub span: Span,
    /// The session in the command.
    pub target: String,
    /// The deleted session in the answer.
    pub session: Option<String>,
    /// True if the session is deleted too, not only its log.
    pub with_session: bool,
    /// Its outcome.
    pub outcome: Outcome,
}

/// An attempt to create a session: new, or from a document.
#[derive(Clone, Debug)]
pub struct Create {
    /// The command.
    pub step: usize,
    /// Its ticks.
    pub span: Span,
    /// The id in the command or in the answer.
    pub id: Option<String>,
    /// The name in the command.
    pub name: Option<String>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// An attempt to rename a session.
#[derive(Clone, Debug)]
pub struct Rename {
    /// The command.
    pub step: usize,
    /// Its ticks.
    pub span: Span,
    /// The session in the command.
    pub target: String,
    /// The renamed session in the answer.
    pub session: Option<String>,
    /// The new name.
    pub name: String,
    /// Its outcome.
    pub outcome: Outcome,
}

/// All lines of a log, as a command read them.
#[derive(Clone, Debug)]
pub struct Look {
    /// The command.
    pub step: usize,
    /// The ticks of the read, or of the backup for a copy.
    pub span: Span,
    /// The session.
    pub session: String,
    /// The kind of the read.
    pub how: &'static str,
    /// The lines of this tester, in order.
    pub lines: Vec<Line>,
    /// Operations that were retried and acknowledged in the copy.
    pub retried: Vec<usize>,
}

/// A range of a log that a follower received.
#[derive(Clone, Debug)]
pub struct ReadRange {
    /// The command.
    pub step: usize,
    /// The session.
    pub session: String,
    /// The epoch of its log.
    pub epoch: u64,
    /// The position of the first byte.
    pub from: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The sessions of a home or of a copy.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The command.
    pub step: usize,
    /// The ticks of the read, or of the backup for a copy.
    pub span: Span,
    /// The kind of the read.
    pub how: &'static str,
    /// Ids and names.
    pub sessions: Vec<(String, Option<String>)>,
    /// Sessions that the command reported as missing.
    pub reported: Vec<String>,
}

/// A violation of a rule.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// What was found.
    pub what: String,
    /// Its commands.
    pub steps: Vec<usize>,
    /// Its session.
    pub session: Option<String>,
}

/// The record of one round.
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
    /// Logs that were read completely.
    pub looks: Vec<Look>,
    /// Complete lists of sessions.
    pub listings: Vec<Listing>,
    /// Ranges of logs with their positions.
    pub seen: Vec<ReadRange>,
    /// Violations that were found during the round.
    pub violations: Vec<Violation>,
    /// Records of shared runs, chats and schedules.
    pub facts: Facts,
    /// Commands by noun and verb: acknowledged, refused, unknown.
    pub verbs: BTreeMap<String, [u64; 3]>,
}

impl Events {
    /// Returns the operation of an append if every attempt had the same content: then a retry must be acknowledged.
    pub fn retriable<'a>(&self, append: &'a Append) -> Option<&'a str> {
        let operation = append.operation.as_deref()?;
        let mut attempts = self.appends.iter().filter(|other| other.operation.as_deref() == Some(operation));
        attempts.all(|other| other.lines == append.lines || other.outcome == Outcome::Refused).then_some(operation)
    }

    /// Returns the operation of an append of unknown outcome if no other attempt was acknowledged.
    pub fn undecided<'a>(&self, append: &'a Append) -> Option<&'a str> {
        let operation = self.retriable(append)?;
        let mut attempts = self.appends.iter().filter(|other| other.operation.as_deref() == Some(operation));
        let open = append.outcome == Outcome::Unknown && attempts.all(|other| other.outcome != Outcome::Done);
        open.then_some(operation)
    }
}

/// The record that all workers write to.
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

    /// Locks and returns the events.
    pub fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a violation.
    pub fn violation(&self, rule: &'static str, what: String, step: usize, session: Option<&str>) {
        let session = session.map(str::to_owned);
        self.events().violations.push(Violation { rule, what, steps: vec![step], session });
    }

    /// Takes the events at the end of the round.
    pub fn take(&self) -> Events {
        std::mem::take(&mut self.events())
    }
}
