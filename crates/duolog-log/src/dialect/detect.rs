//! Which dialect a log is in, told by what its lines hold and never by its name.

use serde::{Deserialize, Serialize};

use super::object::{Object, repair_json};
use super::{Dialect, claude, codex, envelope, transcript, turns};

/// How many lines are looked at. Bookkeeping comes first in some files; a conversation begins well before this.
pub const LINES_MAX: u32 = 64;

/// Looks at the first lines of a log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Detector {
    seen: u32,
    votes: [u32; Dialect::ALL.len()],
}

impl Detector {
    /// Looks at one line. Lines that say nothing (blank, damaged, our own) count for no dialect.
    pub fn line(&mut self, line: &str) {
        if self.is_done() {
            return;
        }
        self.seen += 1;
        if let Some(dialect) = of_line(line) {
            self.votes[dialect as usize] += 1;
        }
    }

    /// Whether further lines would change nothing.
    pub fn is_done(&self) -> bool {
        self.seen >= LINES_MAX
    }

    /// What most of the lines are in; none if no line was in any.
    ///
    /// A single line with Claude Code's marks makes the file one of Claude Code's: its plainer lines look like
    /// envelopes, and no envelope looks like its marked ones.
    pub fn dialect(&self) -> Option<Dialect> {
        let mut votes = self.votes;
        if votes[Dialect::Claude as usize] > 0 {
            votes[Dialect::Claude as usize] += std::mem::take(&mut votes[Dialect::Envelope as usize]);
        }
        // Of equals the first in `ALL` wins, so that the answer does not depend on the order of lines.
        let best = Dialect::ALL.into_iter().rev().max_by_key(|dialect| votes[*dialect as usize])?;
        (votes[best as usize] > 0).then_some(best)
    }
}

/// The dialect of one line by itself; none for blank, damaged and unknown lines, and for our own.
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

/// Whether a line is one that Duolog itself wrote about a row: it may stand in a log of any dialect.
pub(crate) fn is_own(line: &Object<'_>) -> bool {
    line.is("type", "system") && line.text("subtype").is_some_and(|subtype| subtype.starts_with("duolog."))
}
