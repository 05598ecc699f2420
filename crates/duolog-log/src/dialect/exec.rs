//! The output of `codex exec --json`: `thread.started`, `turn.*`, and `item.*` with the agent's actions. Part of the
//! codex dialect; lines have no timestamp until `log record` adds one.
//!
//! A call is shown when its item starts, and its result when the item completes. The completion of an item repeats its
//! updates, so an update is progress.

use super::envelope::rest_of;
use super::object::{Object, elements};
use super::scene::Scene;
use super::timeline::{Boundary, ItemKind, TimelineItem, content_text};

const EVENTS: &[&str] = &["thread.started", "turn.started", "turn.completed", "turn.failed"];
const ITEMS: &[&str] = &["item.started", "item.updated", "item.completed"];

/// Returns true if a line is one of these events.
pub(crate) fn recognises(line: &Object<'_>) -> bool {
    match line.text("type").as_deref() {
        Some("error") => line.text("message").is_some() && !line.has("message_id"),
        Some(kind) => EVENTS.contains(&kind) || (ITEMS.contains(&kind) && line.object("item").is_some()),
        None => false,
    }
}

/// Renders a line that [`recognises`] accepts.
pub(crate) fn render(line: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) {
    let kind = line.word("type").unwrap_or_default();
    match kind.as_str() {
        "turn.started" => {
            let boundary = if scene.is_in_turn() { Boundary::Within } else { Boundary::Opens };
            out.push(TimelineItem { boundary, ..TimelineItem::note(kind, "") });
        }
        "turn.completed" => out.push(TimelineItem {
            model: line.word("model"),
            boundary: Boundary::Closes,
            ..TimelineItem::new(ItemKind::Result, "")
        }),
        "turn.failed" => out.push(TimelineItem {
            what: Some(kind),
            boundary: Boundary::Closes,
            failed: true,
            ..TimelineItem::new(ItemKind::Result, error_text(line))
        }),
        "error" => out.push(TimelineItem { failed: true, ..TimelineItem::new(ItemKind::Error, error_text(line)) }),
        "thread.started" => {
            let thread = line.word("thread_id").unwrap_or_default();
            out.push(TimelineItem { model: line.word("model"), ..TimelineItem::note(kind, thread) });
        }
        _ => match line.object("item") {
            Some(item) => render_item(&kind, &item, scene, out),
            None => out.push(TimelineItem::note(kind, rest_of(line))),
        },
    }
}

fn error_text(line: &Object<'_>) -> String {
    let error = line.object("error").and_then(|error| error.word("message"));
    error.or_else(|| line.word("message")).unwrap_or_default()
}

fn render_item(event: &str, item: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) {
    let kind = item.word("type").or_else(|| item.word("item_type")).unwrap_or_else(|| "item".to_owned());
    let text = || item.word("text").unwrap_or_default();
    match (event, kind.as_str()) {
        ("item.started", "command_execution" | "mcp_tool_call") => out.push(call(item, &kind, scene)),
        ("item.completed", "agent_message" | "assistant_message") => {
            out.push(TimelineItem::new(ItemKind::Assistant, text()));
        }
        ("item.completed", "reasoning") => out.push(TimelineItem::new(ItemKind::Thinking, text())),
        ("item.completed", "command_execution" | "mcp_tool_call" | "file_change" | "web_search") => {
            completed(item, &kind, scene, out);
        }
        ("item.completed", "todo_list") => out.push(TimelineItem::note(kind, todo_list(item))),
        ("item.completed", "error") => {
            out.push(TimelineItem { failed: true, ..TimelineItem::new(ItemKind::Error, error_text(item)) });
        }
        ("item.completed", _) => out.push(TimelineItem::note(kind, rest_of(item))),
        _ => out.push(TimelineItem::note(event, format!("{kind} {}", item.word("id").unwrap_or_default()))),
    }
}

/// Renders the call of an item and remembers it, so that its result does not show the call again.
fn call(item: &Object<'_>, kind: &str, scene: &mut Scene) -> TimelineItem {
    let (tool, text) = match kind {
        "command_execution" => (kind.to_owned(), item.word("command").unwrap_or_default()),
        "mcp_tool_call" => {
            let name = |part| item.word(part).unwrap_or_default();
            (format!("{}.{}", name("server"), name("tool")), item.some("arguments").unwrap_or_default().to_owned())
        }
        "web_search" => (kind.to_owned(), item.word("query").unwrap_or_default()),
        _ => (kind.to_owned(), changes(item)),
    };
    let item =
        TimelineItem { tool: Some(tool), call_id: item.word("id"), ..TimelineItem::new(ItemKind::ToolCall, text) };
    scene.remember_call(&item);
    item
}

fn completed(item: &Object<'_>, kind: &str, scene: &mut Scene, out: &mut Vec<TimelineItem>) {
    let call_id = item.word("id");
    let mut tool = call_id.as_deref().and_then(|id| scene.take_call(id));
    if tool.is_none() {
        let call = call(item, kind, scene);
        tool.clone_from(&call.tool);
        call_id.as_deref().and_then(|id| scene.take_call(id));
        out.push(call);
    }
    let failed = matches!(item.text("status").as_deref(), Some("failed" | "declined"))
        || item.raw("exit_code").is_some_and(|code| !matches!(code, "0" | "null"));
    let text = match kind {
        "command_execution" => item.word("aggregated_output").unwrap_or_default(),
        "mcp_tool_call" => {
            let result = item.object("result").and_then(|result| result.some("content")).map(content_text);
            result.map_or_else(|| error_text(item), std::borrow::Cow::into_owned)
        }
        // For these items only a failure is shown.
        _ if !failed => return,
        _ => error_text(item),
    };
    let code = item.count("exit_code").filter(|code| *code != 0);
    out.push(TimelineItem {
        tool,
        call_id,
        failed,
        what: code.map(|code| format!("exit code {code}")),
        full: item.word("fullOutput"),
        ..TimelineItem::new(ItemKind::ToolResult, text)
    });
}

/// Lists the changed files, one per line: `update src/main.rs`.
fn changes(item: &Object<'_>) -> String {
    let changes = item.raw("changes").and_then(elements).unwrap_or_default();
    let lines = changes.into_iter().filter_map(Object::parse).map(|change| {
        let part = |name| change.word(name).unwrap_or_default();
        format!("{} {}", part("kind"), part("path"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn todo_list(item: &Object<'_>) -> String {
    let items = item.raw("items").and_then(elements).unwrap_or_default();
    let lines = items.into_iter().filter_map(Object::parse).map(|item| {
        let mark = if item.flag("completed") { "x" } else { " " };
        format!("[{mark}] {}", item.word("text").unwrap_or_default())
    });
    lines.collect::<Vec<_>>().join("\n")
}
