//! What an import gives back.

use duolog_types::limits::IMPORT_TOLD_MAX;
use serde::{Deserialize, Serialize};

/// How many of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Executions, of runs and of chats.
    pub executions: u64,
    /// Gates.
    pub approvals: u64,
    /// What is said over schedules.
    pub schedules: u64,
    /// What is said of workflows.
    pub workflows: u64,
    /// Chats.
    pub chats: u64,
    /// Messages of chats.
    pub messages: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.runs += more.runs;
        self.executions += more.executions;
        self.approvals += more.approvals;
        self.schedules += more.schedules;
        self.workflows += more.workflows;
        self.chats += more.chats;
        self.messages += more.messages;
    }
}

/// How far an import is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The rows that were looked at.
    pub done: Counts,
    /// The rows that there are.
    pub all: Counts,
}

/// Something that is told of one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Of what, like `run 1234`.
    pub unit: String,
    /// What there is to tell.
    pub reason: String,
}

/// What is told: the first of it, and how much more there was (I9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxLine {
    /// The first.
    pub notes: Vec<Note>,
    /// How many more there were.
    pub more: u64,
    max: usize,
}

impl Default for OutboxLine {
    fn default() -> Self {
        Self { notes: Vec::new(), more: 0, max: IMPORT_TOLD_MAX }
    }
}

impl OutboxLine {
    /// For what was told before: it only counts.
    pub(super) fn again() -> Self {
        Self { max: 0, ..Self::default() }
    }

    /// Tells something.
    pub fn say(&mut self, unit: &str, reason: impl Into<String>) {
        if self.notes.len() < self.max {
            self.notes.push(Note { unit: unit.to_owned(), reason: reason.into() });
        } else {
            self.more += 1;
        }
    }

    /// Adds what was told elsewhere.
    pub(super) fn add(&mut self, more: Self) {
        self.more += more.more;
        for note in more.notes {
            self.say(&note.unit, note.reason);
        }
    }

    /// How much is told in all.
    pub fn count(&self) -> u64 {
        self.notes.len() as u64 + self.more
    }
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// What is here now and was not.
    pub imported: Counts,
    /// What was here already, just so.
    pub unchanged: Counts,
    /// What has no place here, was cut or read otherwise than it stands there, and why.
    pub left_out: OutboxLine,
    /// What could not be taken: it cannot be what it should be, or something else here is called so.
    pub errors: OutboxLine,
}
