//! What a list says of a session: its title, its model, when it began and when something last happened.

use duolog_types::limits::TITLE_CHARS_MAX;
use duolog_types::{Position, Timestamp};
use serde::{Deserialize, Serialize};

use super::timeline::{Boundary, ItemKind, TimelineItem};
use super::usage::fact::is_model;

/// Where a title comes from, the stronger the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TitleBy {
    #[default]
    Nobody,
    Prompt,
    Summary,
    Model,
    Person,
}

/// The title that an item gives to a session whose title comes from `before`.
///
/// The first prompt names a session for good; other names are replaced by later ones as strong.
pub(super) fn title(item: &TimelineItem, before: TitleBy) -> Option<(String, TitleBy)> {
    let by = match (item.kind, item.what.as_deref()) {
        (ItemKind::Note, Some("custom-title" | "duolog.title")) => TitleBy::Person,
        (ItemKind::Note, Some("ai-title")) => TitleBy::Model,
        (ItemKind::Note, Some("summary")) => TitleBy::Summary,
        _ if is_prompt(item) => TitleBy::Prompt,
        _ => return None,
    };
    let stronger = by > before || (by == before && by != TitleBy::Prompt);
    let line = item.text.lines().map(str::trim).find(|line| !line.is_empty()).filter(|_| stronger)?;
    // A row holds no NUL, and a terminal is not to obey a title.
    let plain = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    Some((plain.take(TITLE_CHARS_MAX).collect(), by))
}

/// Whether an item is a prompt. A turn can also begin with an answer whose prompt no line tells.
fn is_prompt(item: &TimelineItem) -> bool {
    item.kind == ItemKind::User && item.boundary == Boundary::Opens
}

/// A session in short, folded from its items. Its size does not grow with the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// What it is called: as a person named it, as a model did, or how its first prompt begins.
    pub title: Option<String>,
    title_by: TitleBy,
    /// The model that answered last.
    pub model: Option<String>,
    first_at: Option<i64>,
    last_at: Option<i64>,
    last_line: Option<u64>,
    /// Lines that said something.
    pub lines: u64,
    /// Prompts.
    pub prompts: u64,
    /// Answers.
    pub answers: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Failures.
    pub errors: u64,
}

impl Summary {
    /// Takes the next item.
    pub fn item(&mut self, item: &TimelineItem) {
        if self.last_line != Some(item.position.0) {
            (self.last_line, self.lines) = (Some(item.position.0), self.lines + 1);
        }
        if let Some(at) = item.at.map(Timestamp::as_micros) {
            self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
            self.last_at = Some(self.last_at.map_or(at, |last| last.max(at)));
        }
        if let Some(model) = item.model.as_deref().filter(|model| is_model(model)) {
            self.model = Some(model.to_owned());
        }
        self.prompts += u64::from(is_prompt(item));
        self.answers += u64::from(item.kind == ItemKind::Assistant);
        self.tool_calls += u64::from(item.kind == ItemKind::ToolCall);
        self.errors += u64::from(item.kind == ItemKind::Error);
        if let Some((title, by)) = title(item, self.title_by) {
            (self.title, self.title_by) = (Some(title), by);
        }
    }

    /// When the session began, as its lines say.
    pub fn first_at(&self) -> Option<Timestamp> {
        self.first_at.map(Timestamp::from_micros)
    }

    /// When something last happened in it.
    pub fn last_at(&self) -> Option<Timestamp> {
        self.last_at.map(Timestamp::from_micros)
    }

    /// The last line that said something.
    pub fn last_line(&self) -> Option<Position> {
        self.last_line.map(Position)
    }

    /// The fold as bytes, to go on from later.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Goes on from bytes; none if they are not from [`Summary::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
