//! What a workload tried, what it was told, and what was seen: all that a check may hold the stores to.

use std::collections::{BTreeMap, BTreeSet};

use duolog_types::{Durability, Epoch, OperationId, Position, SessionId};

use super::alike::Counted;

/// One line that was to be appended.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) line: String,
    /// What it was acknowledged with; nothing if it never was.
    pub(crate) acknowledged: Option<Durability>,
}

/// A rename: the transition that the log tells of.
#[derive(Clone, Debug)]
pub(crate) struct Rename {
    pub(crate) name: String,
    pub(crate) acknowledged: bool,
}

/// An append under an operation id.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    pub(crate) lines: Vec<String>,
    pub(crate) acknowledged: Option<(Durability, Position)>,
}

/// One session's part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Whether its creation was acknowledged.
    pub(crate) created: bool,
    /// Where its log is.
    pub(crate) log_path: String,
    /// In the order of trying, which is the order of acknowledging: the script is one thread.
    pub(crate) events: Vec<Event>,
    pub(crate) renames: Vec<Rename>,
    pub(crate) operations: Vec<Operation>,
    /// What followers were given, by epoch and the position of its first byte.
    pub(crate) seen: BTreeMap<(Epoch, Position), String>,
    /// Lines that a follower was given twice without a reset in between.
    pub(crate) seen_twice: Vec<String>,
    /// Lines that were there when someone changed the file by hand: they may be gone, but not in silence.
    pub(crate) tampered: BTreeSet<String>,
    /// Lines that were put into the file by hand.
    pub(crate) planted: BTreeSet<String>,
}

/// Everything a workload knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) sessions: BTreeMap<SessionId, Told>,
    /// Sessions whose lines are all equal.
    pub(crate) counted: BTreeMap<SessionId, Counted>,
    /// What did not hold in copies that were taken on the way.
    pub(crate) broken_copies: Vec<String>,
}

impl Ledger {
    pub(crate) fn of(&mut self, session: &SessionId) -> &mut Told {
        self.sessions.entry(session.clone()).or_default()
    }

    /// Records that lines are about to be appended; says where they stand in the record.
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
