//! The codex dialect: Codex rollouts and, in `exec`, the output of `codex exec --json`; read only.
//!
//! A rollout contains many items twice: for the model (`response_item`) and for the person (`event_msg`). Each is shown
//! once, at its first occurrence. Text that Codex itself adds under the user's name (environment, instructions) is a
//! note.

use std::borrow::Cow;

use super::envelope::rest_of;
use super::exec;
use super::object::{Object, decode};
use super::scene::{Channel, Scene};
use super::timeline::{Boundary, ItemKind, TimelineItem, answer_text, content_text};

const TYPES: &[&str] = &[
    "compacted",
    "event_msg",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "response_item",
    "security_risk_score",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
];

/// Prefixes of texts that Codex itself adds under the user's name.
const INJECTED: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<skill>",
    "<subagent_notification>",
    "# AGENTS.md instructions",
];

/// Returns true if a line is in this dialect.
pub(crate) fn recognises(line: &Object<'_>) -> bool {
    is_rollout(line) || exec::recognises(line)
}

/// Returns true if a line is from a rollout.
pub(crate) fn is_rollout(line: &Object<'_>) -> bool {
    line.has("payload") && line.text("type").is_some_and(|kind| TYPES.contains(&&*kind))
}

/// Renders a line; false if it is not in this dialect.
pub(crate) fn render(line: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) -> bool {
    if exec::recognises(line) {
        exec::render(line, scene, out);
        return true;
    }
    if !is_rollout(line) {
        return false;
    }
    let kind = line.text("type").unwrap_or_default();
    let raw = line.raw("payload").unwrap_or_default();
    let Some(payload) = line.object("payload") else {
        out.push(TimelineItem::note(kind, raw));
        return true;
    };
    match &*kind {
        "response_item" => response_item(&payload, raw, scene, out),
        "event_msg" => event(&payload, raw, scene, out),
        "compacted" => out.push(TimelineItem::note(kind, payload.word("message").unwrap_or_default())),
        "turn_context" => {
            let model = payload.word("model");
            out.push(TimelineItem { model, ..TimelineItem::note(kind, rest_of(&payload)) });
        }
        _ => out.push(TimelineItem::note(kind, raw)),
    }
    true
}

fn push_once(channel: Channel, item: TimelineItem, scene: &mut Scene, out: &mut Vec<TimelineItem>) {
    if scene.is_repeated(channel, &item) {
        scene.mark_repeated(out.len());
    }
    out.push(item);
}

fn user(text: impl Into<String>) -> TimelineItem {
    TimelineItem { boundary: Boundary::Opens, ..TimelineItem::new(ItemKind::User, text) }
}

fn response_item(payload: &Object<'_>, raw: &str, scene: &mut Scene, out: &mut Vec<TimelineItem>) {
    let kind = payload.text("type").unwrap_or_default();
    match &*kind {
        "message" | "agent_message" => {
            let text = content_text(payload.raw("content").unwrap_or("null"));
            match payload.text("role").as_deref() {
                Some("user") if INJECTED.iter().any(|start| text.trim_start().starts_with(start)) => {
                    out.push(TimelineItem { role: Some("user".to_owned()), ..TimelineItem::note("context", text) });
                }
                Some("user") => push_once(Channel::Model, user(text), scene, out),
                Some("assistant") | None => {
                    push_once(Channel::Model, TimelineItem::new(ItemKind::Assistant, text), scene, out);
                }
                Some(role) => {
                    out.push(TimelineItem { role: Some(role.to_owned()), ..TimelineItem::note("context", text) });
                }
            }
        }
        "reasoning" => reasoning(payload, scene, out),
        _ if kind.ends_with("_output") => output(payload, scene, out),
        _ if kind.ends_with("_call") => call(payload, &kind, scene, out),
        _ => out.push(TimelineItem::note(if kind.is_empty() { "response_item" } else { &*kind }, raw)),
    }
}

fn reasoning(payload: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) {
    let parts: Vec<&str> =
        ["summary", "content"].iter().flat_map(|name| payload.list(name).unwrap_or_default()).collect();
    if parts.is_empty() {
        out.push(TimelineItem { what: Some("encrypted".to_owned()), ..TimelineItem::new(ItemKind::Thinking, "") });
    }
    for part in parts {
        let text = Object::parse(part).and_then(|part| part.word("text")).unwrap_or_else(|| part.to_owned());
        push_once(Channel::Model, TimelineItem::new(ItemKind::Thinking, text), scene, out);
    }
}

fn call(payload: &Object<'_>, kind: &str, scene: &mut Scene, out: &mut Vec<TimelineItem>) {
    let text = ["arguments", "input", "action", "query"].iter().find_map(|name| payload.some(name));
    let text = text.map(|raw| decode(raw).unwrap_or(raw.into())).unwrap_or_default();
    let item = TimelineItem {
        tool: payload.word("name").or_else(|| kind.strip_suffix("_call").map(str::to_owned)),
        call_id: payload.word("call_id").or_else(|| payload.word("id")),
        what: Some(kind.to_owned()),
        ..TimelineItem::new(ItemKind::ToolCall, text)
    };
    scene.remember_call(&item);
    out.push(item);
}

fn output(payload: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) {
    let call_id = payload.word("call_id");
    let output = payload.raw("output").or_else(|| payload.raw("tools")).unwrap_or("null");
    // Structured outputs have their text in `content`, and a flag for success.
    let parts = Object::parse(output);
    let text = parts.as_ref().and_then(|parts| parts.some("content")).unwrap_or(output);
    out.push(TimelineItem {
        tool: call_id.as_deref().and_then(|id| scene.take_call(id)),
        failed: parts.as_ref().is_some_and(|parts| parts.raw("success") == Some("false")),
        full: payload.word("fullOutput"),
        call_id,
        ..TimelineItem::new(ItemKind::ToolResult, exec_text(text))
    });
}

/// Returns the text of a tool result. A shell's result is JSON text: `{"output":"…","metadata":{…}}`.
fn exec_text(raw: &str) -> Cow<'_, str> {
    let text = answer_text(raw);
    let is_exec = |answer: &Object<'_>| answer.members().all(|(name, _)| matches!(name, "output" | "metadata"));
    match Object::parse(&text).filter(is_exec).and_then(|answer| answer.text("output")) {
        Some(output) => Cow::Owned(output.into_owned()),
        None => text,
    }
}

fn event(payload: &Object<'_>, raw: &str, scene: &mut Scene, out: &mut Vec<TimelineItem>) {
    let kind = payload.text("type").unwrap_or_default();
    let message = || payload.word("message").or_else(|| payload.word("text")).unwrap_or_default();
    match &*kind {
        "user_message" => push_once(Channel::Person, user(message()), scene, out),
        "agent_message" => push_once(Channel::Person, TimelineItem::new(ItemKind::Assistant, message()), scene, out),
        "agent_reasoning" | "agent_reasoning_raw_content" => {
            push_once(Channel::Person, TimelineItem::new(ItemKind::Thinking, message()), scene, out);
        }
        "task_complete" | "turn_complete" => out.push(TimelineItem {
            what: Some(kind.into_owned()),
            boundary: Boundary::Closes,
            ..TimelineItem::new(ItemKind::Result, payload.word("last_agent_message").unwrap_or_default())
        }),
        "error" | "stream_error" | "turn_aborted" => {
            let text = payload.word("message").or_else(|| payload.word("reason")).unwrap_or_default();
            let item = TimelineItem::new(ItemKind::Error, text);
            out.push(TimelineItem { failed: true, what: Some(kind.into_owned()), ..item });
        }
        "" => out.push(TimelineItem::note("event_msg", raw)),
        _ => out.push(TimelineItem::note(kind, rest_of(payload))),
    }
}
