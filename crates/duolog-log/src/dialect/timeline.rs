//! What every dialect is rendered to, so that replay, search, usage and dashboard need to know only one shape.

use std::borrow::Cow;

use duolog_types::{Position, Timestamp};
use serde::{Deserialize, Serialize};

use super::object::Object;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// What a person (or whoever drives the agent) said.
    User,
    /// What the agent said.
    Assistant,
    /// What the agent thought.
    Thinking,
    /// A tool was called; the text is its arguments.
    ToolCall,
    /// A tool answered; the text is its output.
    ToolResult,
    /// A turn came to its end; the text is its final answer.
    Result,
    /// Something failed.
    Error,
    /// Anything else, unknown lines included: nothing that stands in a log is hidden.
    Note,
}

impl ItemKind {
    /// The kind as a word.
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

/// What an item does to the turn it stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// Nothing: it is part of the turn.
    #[default]
    Within,
    /// It begins a turn. A turn that was still open stays incomplete.
    Opens,
    /// It completes the turn.
    Closes,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineItem {
    /// The first byte of the line that tells of it.
    pub position: Position,
    /// Which item of that line it is, from 0.
    pub part: u32,
    /// What it is.
    pub kind: ItemKind,
    /// What it does to its turn.
    pub boundary: Boundary,
    /// When, as the line says.
    pub at: Option<Timestamp>,
    /// The role the line itself names, where that says more than the kind (`moderator`, `developer`).
    pub role: Option<String>,
    /// Which agent.
    pub author: Option<String>,
    /// Which model.
    pub model: Option<String>,
    /// The tool called or answering.
    pub tool: Option<String>,
    /// What ties a tool's answer to its call.
    pub call_id: Option<String>,
    /// What the line calls it: a subtype, a step, an event.
    pub what: Option<String>,
    /// Its text, decoded; JSON as it stands where the line holds a structure.
    pub text: String,
    /// Where the whole of a shortened text is: `blob:<sha256>`.
    pub full: Option<String>,
    /// The iteration of a multi-agent run.
    pub round: Option<u64>,
    /// It belongs to a side conversation, not to the main one.
    pub sidechain: bool,
    /// It tells of a failure.
    pub failed: bool,
}

/// Notes that only say that something is under way; a later line tells what came of it.
const PROGRESS: &[&str] =
    &["item.started", "item.updated", "keep_alive", "progress", "stream_event", "tool_progress", "hook_progress"];

impl TimelineItem {
    /// Whether it only says that something is under way.
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

/// The text of a message's content: a string, or the text parts of a list in their order, others named in brackets. An
/// object that holds such content, as tools answer, is as good as that.
pub(crate) fn content_text(raw: &str) -> Cow<'_, str> {
    nested_text(raw, 0)
}

/// The text of what a tool answered: as [`content_text`], but if that is itself JSON text of an object with a list of
/// content parts, the text of these parts. Runtimes put such an object into a string.
pub(crate) fn answer_text(raw: &str) -> Cow<'_, str> {
    let text = content_text(raw);
    match Object::parse(&text).and_then(|answer| answer.some("content")).filter(|parts| is_parts(parts)) {
        Some(parts) => Cow::Owned(content_text(parts).into_owned()),
        None => text,
    }
}

/// Whether JSON is a list of content parts, each of which says its type.
fn is_parts(raw: &str) -> bool {
    let is_part = |part: &&str| Object::parse(part).is_some_and(|part| part.text("type").is_some());
    super::object::elements(raw).is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_part))
}

/// Real content nests three deep (a list of messages that hold lists of parts); deeper it is shown as it stands.
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
    let mut whole = String::new();
    for part in parts {
        let text = part_text(part, depth + 1);
        if !whole.is_empty() && text.starts_with('[') && !whole.ends_with(char::is_whitespace) {
            whole.push(' ');
        }
        whole.push_str(&text);
    }
    Cow::Owned(whole)
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
    fn content_is_text_in_whatever_shape_it_comes() {
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
            assert_eq!(answer_text(&text), kept, "what a tool printed stays as it is");
        }
        assert_eq!(content_text(r#"["a",1]"#), "a1");
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert!(content_text(&deep).len() > 199_000, "shown as it stands");
    }
}
