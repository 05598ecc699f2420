//! The common form of all dialects, used by replay, search, usage and the dashboard.

use std::borrow::Cow;

use duolog_types::{Position, Timestamp};
use serde::{Deserialize, Serialize};

use super::object::Object;

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// A message of a person, or of the program that drives the agent.
    User,
    /// A message of the agent.
    Assistant,
    /// Thinking of the agent.
    Thinking,
    /// A tool call; the text is its arguments.
    ToolCall,
    /// A tool result; the text is its output.
    ToolResult,
    /// The end of a turn; the text is its final answer.
    Result,
    /// An error.
    Error,
    /// Anything else, unknown lines included: no line of a log is hidden.
    Note,
}

impl ItemKind {
    /// Returns the kind as a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Thinking => "thinking",
            Self::ToolCall => "tool_call",
            Self::ToolResult => "tool_result",
            Self::Result => "result",
            Self::Error => "error",
            Self::Note => "note",
        }
    }
}

/// What an item does to its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// It is part of the turn.
    #[default]
    Within,
    /// It starts a turn. A turn that was still open stays incomplete.
    Opens,
    /// It completes the turn.
    Closes,
}

/// One event of a log, in common form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineItem {
    /// The position of its line.
    pub position: Position,
    /// The index of the item in its line, from 0.
    pub part: u32,
    /// The kind.
    pub kind: ItemKind,
    /// Its effect on the turn.
    pub boundary: Boundary,
    /// The timestamp of the line.
    pub at: Option<Timestamp>,
    /// The role in the line, if it is more specific than the kind (`moderator`, `developer`).
    pub role: Option<String>,
    /// The agent.
    pub author: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The tool that was called or gave the result.
    pub tool: Option<String>,
    /// The id that links a tool result to its call.
    pub call_id: Option<String>,
    /// The line's name for it: a subtype, a step or an event.
    pub what: Option<String>,
    /// The decoded text; raw JSON if the line has a structure.
    pub text: String,
    /// The blob with the full text, if the text was shortened: `blob:<sha256>`.
    pub full: Option<String>,
    /// The iteration of a multi-agent run.
    pub round: Option<u64>,
    /// True if it belongs to a side conversation.
    pub sidechain: bool,
    /// True if it reports a failure.
    pub failed: bool,
}

/// Notes about progress; a later line has the result.
const PROGRESS: &[&str] =
    &["item.started", "item.updated", "keep_alive", "progress", "stream_event", "tool_progress", "hook_progress"];

impl TimelineItem {
    /// Returns true if it only reports progress.
    pub fn is_progress(&self) -> bool {
        self.kind == ItemKind::Note && !self.failed && self.what.as_deref().is_some_and(|what| PROGRESS.contains(&what))
    }

    pub(crate) fn new(kind: ItemKind, text: impl Into<String>) -> Self {
        Self {
            position: Position::ZERO,
            part: 0,
            kind,
            boundary: Boundary::Within,
            at: None,
            role: None,
            author: None,
            model: None,
            tool: None,
            call_id: None,
            what: None,
            text: text.into(),
            full: None,
            round: None,
            sidechain: false,
            failed: false,
        }
    }

    pub(crate) fn note(what: impl Into<String>, text: impl Into<String>) -> Self {
        Self { what: Some(what.into()), ..Self::new(ItemKind::Note, text) }
    }
}

/// Returns the text of a message's content: a string, or the text parts of a list in order, with other parts named in
/// brackets. An object that wraps such content, as tools answer, is unwrapped.
pub(crate) fn content_text(raw: &str) -> Cow<'_, str> {
    nested_text(raw, 0)
}

/// Returns the text of a tool result: as [`content_text`], but if that is JSON text of an object with a list of content
/// parts, the text of these parts. Some runtimes put such an object into a string.
pub(crate) fn answer_text(raw: &str) -> Cow<'_, str> {
    let text = content_text(raw);
    match Object::parse(&text).and_then(|answer| answer.some("content")).filter(|parts| is_parts(parts)) {
        Some(parts) => Cow::Owned(content_text(parts).into_owned()),
        None => text,
    }
}

/// Returns true if JSON is a list of content parts that all have a type.
fn is_parts(raw: &str) -> bool {
    let is_part = |part: &&str| Object::parse(part).is_some_and(|part| part.text("type").is_some());
    super::object::elements(raw).is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_part))
}

/// Maximum depth of content. Real content nests three deep (a list of messages with lists of parts); deeper content is
/// shown as raw JSON.
const CONTENT_DEPTH_MAX: u32 = 4;

fn nested_text(raw: &str, depth: u32) -> Cow<'_, str> {
    if let Some(text) = super::object::decode(raw) {
        return text;
    }
    if depth < CONTENT_DEPTH_MAX
        && let Some(content) = Object::parse(raw).and_then(|object| object.some("content"))
        && content.starts_with(['[', '"'])
    {
        return nested_text(content, depth + 1);
    }
    let parts = if depth < CONTENT_DEPTH_MAX { super::object::elements(raw) } else { None };
    let Some(parts) = parts else {
        return Cow::Borrowed(if raw == "null" { "" } else { raw });
    };
    let mut joined = String::new();
    for part in parts {
        let text = part_text(part, depth + 1);
        if !joined.is_empty() && text.starts_with('[') && !joined.ends_with(char::is_whitespace) {
            joined.push(' ');
        }
        joined.push_str(&text);
    }
    Cow::Owned(joined)
}

fn part_text(part: &str, depth: u32) -> Cow<'_, str> {
    let Some(object) = Object::parse(part) else { return nested_text(part, depth) };
    if let Some(text) = object.text("text") {
        return text;
    }
    if let Some(content) = object.some("content") {
        return nested_text(content, depth);
    }
    match object.text("type") {
        Some(kind) => Cow::Owned(format!("[{}]", kind.strip_prefix("input_").unwrap_or(&kind))),
        None => Cow::Borrowed(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_of_every_form_becomes_text() {
        assert_eq!(content_text(r#""a\nb""#), "a\nb");
        assert_eq!(content_text(r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#), "ab");
        let seen =
            r#"[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image":"x"}]}]"#;
        assert_eq!(content_text(seen), "look [image]");
        assert_eq!(content_text(r#"{"a":1}"#), r#"{"a":1}"#);
        let answer = r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"}],"details":{"n":1}}"#;
        assert_eq!(content_text(answer), "a [image]");
        assert_eq!(content_text(r#"{"content":"a"}"#), "a");
        assert_eq!(content_text(r#"{"content":{"a":1}}"#), r#"{"content":{"a":1}}"#);
        assert_eq!(content_text("null"), "");
        let light = r#""{\"content\":[{\"type\":\"text\",\"text\":\"first\\nsecond\"}],\"details\":{}}""#;
        assert_eq!(answer_text(light), "first\nsecond");
        for kept in [r#"{"content":"a"}"#, r#"{"content":[1]}"#, r#"{"content":[]}"#, "[1]"] {
            let text = serde_json::to_string(kept).expect("serialises");
            assert_eq!(answer_text(&text), kept, "tool output stays as it is");
        }
        assert_eq!(content_text(r#"["a",1]"#), "a1");
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert!(content_text(&deep).len() > 199_000, "shown as raw JSON");
    }
}
