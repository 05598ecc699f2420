//! Lines of no dialect that name a role and a text: `{"type":"user","text":"…"}`.
//!
//! Such lines do not decide the dialect of a file, and are read this way only if no dialect recognises them.

use super::object::Object;
use super::timeline::{Boundary, ItemKind, TimelineItem, content_text};

/// Renders a line; false if it lacks the role or the text.
pub(crate) fn render(line: &Object<'_>, out: &mut Vec<TimelineItem>) -> bool {
    let Some(text) = ["text", "content"].iter().find_map(|name| line.some(name)).map(content_text) else {
        return false;
    };
    let Some(word) = ["type", "kind", "role"].iter().find_map(|name| line.word(name)) else { return false };
    let kind = match word.as_str() {
        "user" | "human" => ItemKind::User,
        "assistant" | "agent" => ItemKind::Assistant,
        "thinking" | "reasoning" => ItemKind::Thinking,
        "tool_call" | "tool_use" => ItemKind::ToolCall,
        "tool_result" => ItemKind::ToolResult,
        "result" => ItemKind::Result,
        "error" => ItemKind::Error,
        "system" => ItemKind::Note,
        _ => return false,
    };
    out.push(TimelineItem {
        boundary: match kind {
            ItemKind::User => Boundary::Opens,
            ItemKind::Result => Boundary::Closes,
            _ => Boundary::Within,
        },
        failed: kind == ItemKind::Error,
        model: line.word("model"),
        tool: line.word("tool").or_else(|| line.word("name")).filter(|_| is_tool_item(kind)),
        full: line.word("fullOutput"),
        what: (kind == ItemKind::Note).then_some(word),
        ..TimelineItem::new(kind, text)
    });
    true
}

fn is_tool_item(kind: ItemKind) -> bool {
    matches!(kind, ItemKind::ToolCall | ItemKind::ToolResult)
}
