//! The types of an import report.

use duolog_types::limits::IMPORT_TOLD_MAX;
use serde::{Deserialize, Serialize};

/// Counts by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Executions, of runs and of chats.
    pub executions: u64,
    /// Gates.
    pub approvals: u64,
    /// Overrides of schedules.
    pub schedules: u64,
    /// Overrides of workflows.
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

/// The progress of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The rows that were processed.
    pub done: Counts,
    /// The rows in total.
    pub all: Counts,
}

/// A note about one unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The unit, like `run 1234`.
    pub unit: String,
    /// The reason.
    pub reason: String,
}

/// A bounded list of notes: the first ones, and the number of further ones (I9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteList {
    /// The first notes.
    pub notes: Vec<Note>,
    /// The number of further notes.
    pub more: u64,
    max: usize,
}

impl Default for NoteList {
    fn default() -> Self {
        Self { notes: Vec::new(), more: 0, max: IMPORT_TOLD_MAX }
    }
}

impl NoteList {
    /// Returns a list that only counts, for notes that were added before.
    pub(super) fn again() -> Self {
        Self { max: 0, ..Self::default() }
    }

    /// Adds a note.
    pub fn note(&mut self, unit: &str, reason: impl Into<String>) {
        if self.notes.len() < self.max {
            self.notes.push(Note { unit: unit.to_owned(), reason: reason.into() });
        } else {
            self.more += 1;
        }
    }

    /// Adds all notes of another list.
    pub(super) fn add(&mut self, more: Self) {
        self.more += more.more;
        for note in more.notes {
            self.note(&note.unit, note.reason);
        }
    }

    /// Returns the total number of notes.
    pub fn count(&self) -> u64 {
        self.notes.len() as u64 + self.more
    }
}

/// The report of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// What was added.
    pub imported: Counts,
    /// What existed with the same content.
    pub unchanged: Counts,
    /// What has no equivalent, was truncated or was converted with a change, with the reason.
    pub left_out: NoteList,
    /// What could not be imported because it is not valid or because its id is taken.
    pub errors: NoteList,
}
