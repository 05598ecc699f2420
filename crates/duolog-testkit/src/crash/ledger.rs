//! What a workload attempted, what was acknowledged and what was read: the basis of all checks.

use std::collections::{BTreeMap, BTreeSet};

use duolog_types::{Durability, Epoch, OperationId, Position, SessionId};

use super::equal_lines::CountedSession;

/// One line to append.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) line: String,
    /// The acknowledged durability; none if it was not acknowledged.
    pub(crate) acknowledged: Option<Durability>,
}

/// A rename, which has a line in the log.
#[derive(Clone, Debug)]
pub(crate) struct Rename {
    pub(crate) name: String,
    pub(crate) acknowledged: bool,
}

/// An append with an operation id.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    pub(crate) lines: Vec<String>,
    pub(crate) acknowledged: Option<(Durability, Position)>,
}

/// The record of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionRecord {
    /// Its creation was acknowledged.
    pub(crate) created: bool,
    /// The path of its log.
    pub(crate) log_path: String,
    /// In the order of the attempts, which is also the order of the acknowledgements: the script is one thread.
    pub(crate) events: Vec<Event>,
    pub(crate) renames: Vec<Rename>,
    pub(crate) operations: Vec<Operation>,
    /// Lines that followers received, by epoch and start position.
    pub(crate) seen: BTreeMap<(Epoch, Position), String>,
    /// Lines that a follower received twice without a reset in between.
    pub(crate) seen_twice: Vec<String>,
    /// Lines that were in the file when it was changed by hand: they may be missing, but the loss must be recorded.
    pub(crate) tampered: BTreeSet<String>,
    /// Lines that were written into the file by hand.
    pub(crate) planted: BTreeSet<String>,
}

/// The record of a workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) sessions: BTreeMap<SessionId, SessionRecord>,
    /// Sessions whose lines are all equal.
    pub(crate) counted: BTreeMap<SessionId, CountedSession>,
    /// Violations in copies that were taken during the workload.
    pub(crate) broken_copies: Vec<String>,
}

impl Ledger {
    pub(crate) fn of(&mut self, session: &SessionId) -> &mut SessionRecord {
        self.sessions.entry(session.clone()).or_default()
    }

    /// Records lines that are about to be appended. Returns the index of the first.
    pub(crate) fn attempt(&mut self, session: &SessionId, lines: &[String]) -> usize {
        let events = &mut self.of(session).events;
        let first = events.len();
        events.extend(lines.iter().map(|line| Event { line: line.clone(), acknowledged: None }));
        first
    }

    pub(crate) fn acknowledge(&mut self, session: &SessionId, first: usize, count: usize, durability: Durability) {
        for event in &mut self.of(session).events[first..first + count] {
            event.acknowledged = Some(durability);
        }
    }
}
