//! The envelope dialect: the lines of Last Light, in the format of the Claude SDK's stream.
//!
//! A turn starts with a `user` line that is not a tool result and ends with a `result` line. Lines with only a `role`,
//! and tool calls at the top level, are older forms. The writer produces the same bytes as Last Light: same member
//! order, no spaces, no escapes beyond what JSON requires.

mod write;

pub use write::{
    AssistantLine, Block, Builder, Ending, FailureLine, Line, RemarkLine, ResultLine, SystemLine, ToolResult, Usage,
    UserLine,
};

use super::claude;
use super::message::{self, mark_prompt};
use super::object::Object;
use super::scene::Scene;
use super::stream;
use super::timeline::{Boundary, ItemKind, TimelineItem, content_text};

/// Returns true if a line is in this dialect.
pub(crate) fn recognises(line: &Object<'_>) -> bool {
    match line.text("type").as_deref() {
        Some("user" | "assistant") => line.has("message") || line.flag("isApiErrorMessage"),
        Some("result") => line.has("subtype") || line.has("result"),
        Some("system") => line.has("subtype"),
        Some("tool_use") => line.has("name"),
        Some("tool_result") => line.has("tool_use_id"),
        Some(kind) => stream::is_own_type(kind),
        None => line.has("role") && line.has("content") && !line.has("agent_id"),
    }
}

/// Renders a line; false if it is not in this dialect.
pub(crate) fn render(line: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) -> bool {
    if !recognises(line) {
        return false;
    }
    let start = out.len();
    let known = match line.text("type").as_deref() {
        Some("user" | "assistant") => message::render(line, scene, out),
        Some("result") => {
            out.push(result(line));
            true
        }
        // Such a line with a parent is from a session file of Claude Code, and is rendered by that dialect.
        Some("system") if claude::recognises(line) => false,
        Some("system") => {
            let is_init = line.is("subtype", "init") && line.has("session_id");
            out.push(if is_init { stream::init(line) } else { system(line) });
            true
        }
        Some("tool_use") => {
            let item = message::tool_call(line);
            scene.remember_call(&item);
            out.push(item);
            true
        }
        Some("tool_result") => {
            out.push(message::tool_result(line, line, scene));
            true
        }
        Some(kind) => {
            out.push(stream::render(kind, line));
            true
        }
        None => by_role(line, scene, out),
    };
    if line.flag("isSidechain") {
        out[start..].iter_mut().for_each(|item| item.sidechain = true);
    }
    if stream::is_synthetic(line) {
        message::demote_to_notes(&mut out[start..], "synthetic");
    }
    stream::mark(line, scene, &mut out[start..]);
    mark_prompt(&mut out[start..]);
    known
}

fn result(line: &Object<'_>) -> TimelineItem {
    let what = line.word("subtype").unwrap_or_else(|| "result".to_owned());
    TimelineItem {
        failed: line.flag("is_error") || !matches!(what.as_str(), "success" | "result"),
        what: Some(what),
        boundary: Boundary::Closes,
        ..TimelineItem::new(ItemKind::Result, content_text(line.raw("result").unwrap_or("null")))
    }
}

/// Renders a `system` line: its text if it has one, else its members.
pub(crate) fn system(line: &Object<'_>) -> TimelineItem {
    let what = line.word("subtype").unwrap_or_else(|| "system".to_owned());
    let text = ["content", "message", "text"].iter().find_map(|name| line.word(name));
    TimelineItem::note(what, text.unwrap_or_else(|| rest_of(line)))
}

/// Returns the members of a line without the frame, as JSON.
pub(crate) fn rest_of(line: &Object<'_>) -> String {
    let frame = ["type", "subtype", "uuid", "timestamp", "sessionId", "session_id"];
    let mut rest = String::new();
    for (name, value) in line.members().filter(|(name, _)| !frame.contains(name)) {
        rest.push_str(if rest.is_empty() { "{" } else { "," });
        rest.push_str(&serde_json::to_string(name).unwrap_or_default());
        rest.push(':');
        rest.push_str(value);
    }
    if !rest.is_empty() {
        rest.push('}');
    }
    rest
}

fn by_role(line: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) -> bool {
    let text = content_text(line.raw("content").unwrap_or("null")).into_owned();
    let start = out.len();
    match line.text("role").as_deref() {
        Some("user") => out.push(TimelineItem::new(ItemKind::User, text)),
        Some("assistant") => {
            if let Some(thought) = line.word("reasoning") {
                out.push(TimelineItem::new(ItemKind::Thinking, thought));
            }
            let calls = line.list("tool_calls").unwrap_or_default();
            if !text.is_empty() || calls.is_empty() {
                out.push(TimelineItem::new(ItemKind::Assistant, text));
            }
            for call in calls.into_iter().filter_map(Object::parse) {
                let function = call.object("function").unwrap_or_default();
                let arguments = content_text(function.raw("arguments").unwrap_or("null"));
                let item = TimelineItem {
                    tool: function.word("name"),
                    call_id: call.word("id"),
                    ..TimelineItem::new(ItemKind::ToolCall, arguments)
                };
                scene.remember_call(&item);
                out.push(item);
            }
            let model = line.word("model");
            out[start..].iter_mut().for_each(|item| item.model.clone_from(&model));
        }
        Some("tool") => {
            let call_id = line.word("tool_call_id");
            out.push(TimelineItem {
                tool: call_id.as_deref().and_then(|id| scene.take_call(id)),
                full: line.word("fullOutput"),
                call_id,
                ..TimelineItem::new(ItemKind::ToolResult, text)
            });
        }
        Some(role) => {
            let what = line.word("subtype").unwrap_or_else(|| role.to_owned());
            out.push(TimelineItem { role: Some(role.to_owned()), ..TimelineItem::note(what, text) });
        }
        None => return false,
    }
    true
}
