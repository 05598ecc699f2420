//! Detects the dialect of a log by the content of its lines, never by its name.

use serde::{Deserialize, Serialize};

use super::object::{Object, repair_json};
use super::{Dialect, claude, codex, envelope, transcript, turns};

/// Number of lines to check. Some files start with bookkeeping; a conversation starts well before this.
pub const LINES_MAX: u32 = 64;

/// Detects a dialect from the first lines of a log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Detector {
    seen: u32,
    votes: [u32; Dialect::ALL.len()],
}

impl Detector {
    /// Adds a line. Blank, damaged and Duolog's own lines count for no dialect.
    pub fn line(&mut self, line: &str) {
        if self.is_done() {
            return;
        }
        self.seen += 1;
        if let Some(dialect) = of_line(line) {
            self.votes[dialect as usize] += 1;
        }
    }

    /// Returns true if more lines change nothing.
    pub fn is_done(&self) -> bool {
        self.seen >= LINES_MAX
    }

    /// Returns the dialect of most lines; `None` if no line is in one.
    ///
    /// A single line of the claude dialect decides for it: its plain lines look like envelopes, and no envelope looks
    /// like its other lines.
    pub fn dialect(&self) -> Option<Dialect> {
        let mut votes = self.votes;
        if votes[Dialect::Claude as usize] > 0 {
            votes[Dialect::Claude as usize] += std::mem::take(&mut votes[Dialect::Envelope as usize]);
        }
        // The first in `ALL` wins a tie, so that the result does not depend on the order of lines.
        let best = Dialect::ALL.into_iter().rev().max_by_key(|dialect| votes[*dialect as usize])?;
        (votes[best as usize] > 0).then_some(best)
    }
}

/// Returns the dialect of a single line; `None` for blank, damaged, unknown and Duolog's own lines.
pub fn of_line(line: &str) -> Option<Dialect> {
    if let Some(object) = Object::parse(line) {
        return of_object(&object);
    }
    if !line.trim_start().starts_with('{') {
        return None;
    }
    of_object(&Object::parse(&repair_json(line))?)
}

type Check = fn(&Object<'_>) -> bool;

pub(crate) fn of_object(line: &Object<'_>) -> Option<Dialect> {
    if is_own(line) {
        return None;
    }
    let checks: [(Dialect, Check); 5] = [
        (Dialect::Codex, codex::recognises),
        (Dialect::Turns, turns::recognises),
        (Dialect::Transcript, transcript::recognises),
        (Dialect::Claude, claude::recognises),
        (Dialect::Envelope, envelope::recognises),
    ];
    checks.into_iter().find(|(_, recognises)| recognises(line)).map(|(dialect, _)| dialect)
}

/// Returns true if Duolog wrote the line about a row: a log of any dialect may contain it.
pub(crate) fn is_own(line: &Object<'_>) -> bool {
    line.is("type", "system") && line.text("subtype").is_some_and(|subtype| subtype.starts_with("duolog."))
}
