//! The output of `claude --output-format stream-json`. Part of the envelope dialect, which has the same format; lines
//! have no timestamp until `log record` adds one.
//!
//! The prompt is in the stream only if the caller requests it, so an answer outside of a turn starts one. A subagent's
//! line names the call that started it (`parent_tool_use_id`) and is a side conversation.

use super::envelope::rest_of;
use super::object::Object;
use super::scene::Scene;
use super::timeline::{Boundary, ItemKind, TimelineItem};

/// Line types that no other writer of envelopes has.
const TYPES: &[&str] = &[
    "auth_status",
    "control_cancel_request",
    "control_request",
    "control_response",
    "keep_alive",
    "prompt_suggestion",
    "rate_limit_event",
    "stream_event",
    "tool_progress",
    "tool_use_summary",
];

/// Returns true if only this stream has lines of this type.
pub(crate) fn is_own_type(kind: &str) -> bool {
    TYPES.contains(&kind)
}

/// Returns true if a line is from this stream.
pub(crate) fn recognises(line: &Object<'_>) -> bool {
    line.has("session_id") && (line.has("uuid") || line.has("parent_tool_use_id") || line.has("total_cost_usd"))
}

/// Renders a line of a type that only this stream has.
pub(crate) fn render(kind: &str, line: &Object<'_>) -> TimelineItem {
    match kind {
        "tool_use_summary" => TimelineItem::note(kind, line.word("summary").unwrap_or_else(|| rest_of(line))),
        "stream_event" => {
            let event = line.object("event").and_then(|event| event.word("type")).unwrap_or_default();
            TimelineItem::note(kind, event)
        }
        _ => TimelineItem::note(kind, rest_of(line)),
    }
}

/// Renders the first line of a stream: model, directory and number of tools.
pub(crate) fn init(line: &Object<'_>) -> TimelineItem {
    let tools = line.list("tools").map(|tools| format!("{} tools", tools.len()));
    let facts = [line.word("model"), line.word("cwd"), tools];
    let text = facts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    TimelineItem { model: line.word("model"), ..TimelineItem::note("init", text) }
}

/// Returns true if the runtime added a `user` line itself.
pub(crate) fn is_synthetic(line: &Object<'_>) -> bool {
    line.flag("isSynthetic")
}

/// Marks the items of a subagent, and an answer that starts a turn because the stream has no prompt.
pub(crate) fn mark(line: &Object<'_>, scene: &Scene, items: &mut [TimelineItem]) {
    if line.some("parent_tool_use_id").is_some() {
        for item in items.iter_mut() {
            item.sidechain = true;
        }
    } else if line.is("type", "assistant")
        && !scene.is_in_turn()
        && recognises(line)
        && let Some(first) = items.iter_mut().find(|item| item.kind != ItemKind::User)
    {
        first.boundary = Boundary::Opens;
    }
}
