//! The meaning of log lines, for replay, search, usage and the dashboard. The log store itself does not interpret
//! lines.
//!
//! Each dialect is one file that renders lines to [`TimelineItem`]s, and writes lines if Duolog is the writer. Reading
//! never fails and hides nothing: an unknown line becomes a note, a bad member affects only itself, and memory is
//! bounded. Lines that Duolog writes about rows (`duolog.*`) are understood in every dialect, and in a mixed file each
//! line is rendered by its own dialect.
//!
//! This module does no I/O and knows no rows.

pub mod call;
mod claude;
mod codex;
pub mod detect;
pub mod digest;
pub mod envelope;
mod exec;
mod message;
pub mod money;
mod object;
mod own;
mod plain;
pub mod prices;
pub mod recorder;
mod scene;
mod stream;
pub mod summary;
pub mod text;
pub mod timeline;
pub mod transcript;
pub mod turn;
pub mod turns;
pub mod usage;

use std::fmt;
use std::str::FromStr;

use duolog_types::Position;

use object::{Object, repair_json};
use scene::Scene;
pub use timeline::{Boundary, ItemKind, TimelineItem};

/// Maximum number of bytes of an unknown line that are shown; its position leads to the rest.
const UNKNOWN_BYTES_MAX: usize = 16 * 1024;

/// The line format of one agent program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Last Light, in the shape of the Claude SDK.
    Envelope,
    /// Skillet.
    Turns,
    /// AgentryLab.
    Transcript,
    /// Claude Code.
    Claude,
    /// Codex rollouts.
    Codex,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 5] = [Self::Envelope, Self::Turns, Self::Transcript, Self::Claude, Self::Codex];

    /// Returns its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::Turns => "turns",
            Self::Transcript => "transcript",
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The error for an unknown name of a dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dialect {0:?}; expected envelope, turns, transcript, claude or codex")]
pub struct UnknownDialect(String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.word() == text);
        found.ok_or_else(|| UnknownDialect(text.chars().take(64).collect()))
    }
}

/// Renders a log line by line, live or in a replay.
#[derive(Debug)]
pub struct Interpreter {
    dialect: Dialect,
    scene: Scene,
}

impl Interpreter {
    /// Creates an interpreter for a log that is mostly in `dialect`.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, scene: Scene::default() }
    }

    /// Continues in another dialect, if most lines turn out to be in that.
    pub fn set_dialect(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    /// Renders the line at `position`, without its newline.
    ///
    /// A blank line gives no item, nor does a line that repeats an item of a Codex rollout; every other line gives at
    /// least one.
    pub fn line(&mut self, position: Position, line: &str, out: &mut Vec<TimelineItem>) {
        let start = out.len();
        let text = line.trim();
        if text.is_empty() {
            return;
        }
        let repaired;
        let object = match Object::parse(text) {
            Some(object) => Some(object),
            None if text.starts_with('{') => {
                repaired = repair_json(text);
                Object::parse(&repaired)
            }
            None => None,
        };
        match object {
            Some(object) => self.object(&object, text, out),
            None => out.push(TimelineItem { failed: true, ..TimelineItem::note("unreadable", shown(text)) }),
        }
        for (part, item) in (0..).zip(&mut out[start..]) {
            (item.position, item.part) = (position, part);
        }
        // Repeated items are numbered before they are removed, so that an item has the same number wherever reading
        // began.
        for repeated in self.scene.take_repeated() {
            out.remove(repeated);
        }
    }

    /// Renders a line like [`Interpreter::line`]; bytes that are not UTF-8 are replaced.
    pub fn bytes(&mut self, position: Position, line: &[u8], out: &mut Vec<TimelineItem>) {
        self.line(position, &String::from_utf8_lossy(line), out);
    }

    /// Returns its memory of the lines so far as bytes, to resume later. They are bounded.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.scene).unwrap_or_default()
    }

    /// Resumes from bytes; `None` if they are not from [`Interpreter::to_bytes`].
    pub fn from_bytes(dialect: Dialect, bytes: &[u8]) -> Option<Self> {
        Some(Self { dialect, scene: serde_json::from_slice(bytes).ok()? })
    }

    fn object(&mut self, line: &Object<'_>, text: &str, out: &mut Vec<TimelineItem>) {
        let start = out.len();
        if detect::is_own(line) {
            out.push(own::render(line));
        } else if !self.render(self.dialect, line, out) {
            let known = detect::of_object(line).filter(|other| *other != self.dialect);
            let is_known = known.is_some_and(|other| self.render(other, line, out));
            if !is_known {
                out.truncate(start);
            }
            if !is_known && !plain::render(line, out) {
                let what = ["type", "kind", "role"].iter().find_map(|name| line.word(name));
                out.push(TimelineItem::note(what.unwrap_or_else(|| "unknown".to_owned()), shown(text)));
            }
        }
        let at = line.instant("timestamp");
        out[start..].iter_mut().for_each(|item| item.at = item.at.or(at));
        self.scene.track_turn(&out[start..]);
    }

    fn render(&mut self, dialect: Dialect, line: &Object<'_>, out: &mut Vec<TimelineItem>) -> bool {
        match dialect {
            Dialect::Envelope => envelope::render(line, &mut self.scene, out),
            Dialect::Turns => turns::render(line, out),
            Dialect::Transcript => transcript::render(line, out),
            Dialect::Claude => claude::render(line, &mut self.scene, out),
            Dialect::Codex => codex::render(line, &mut self.scene, out),
        }
    }
}

/// Returns the beginning of a text, cut at a character boundary.
fn shown(text: &str) -> &str {
    let end = text.floor_char_boundary(UNKNOWN_BYTES_MAX.min(text.len()));
    &text[..end]
}
