//! Messages in Claude's format, shared by `envelope` and `claude`: a role and content blocks.

use super::object::{Object, decode};
use super::scene::Scene;
use super::timeline::{Boundary, ItemKind, TimelineItem, answer_text, content_text};

/// Renders a `user` or `assistant` line; false if the line contains no such message.
pub(crate) fn render(line: &Object<'_>, scene: &mut Scene, out: &mut Vec<TimelineItem>) -> bool {
    let assistant = line.is("type", "assistant");
    if assistant && line.flag("isApiErrorMessage") {
        out.push(api_error(line));
        return true;
    }
    // Some writers embed the message as JSON text.
    let inner = line.text("message").unwrap_or_default();
    let Some(message) = line.object("message").or_else(|| Object::parse(&inner)) else { return false };
    let start = out.len();
    let model = message.word("model");
    let mut writer = Blocks { line, assistant, scene, out };
    match message.raw("content") {
        Some(raw) if decode(raw).is_some() => writer.text(&content_text(raw)),
        Some(raw) => {
            let Some(blocks) = super::object::elements(raw) else { return false };
            for block in blocks {
                writer.block(block);
            }
        }
        None => return false,
    }
    if assistant {
        out[start..].iter_mut().for_each(|item| item.model.clone_from(&model));
    }
    if out.len() == start {
        out.push(TimelineItem::note(if assistant { "assistant" } else { "user" }, ""));
    }
    true
}

fn api_error(line: &Object<'_>) -> TimelineItem {
    let content = line.object("message").and_then(|message| message.some("content"));
    let text = line.word("error").unwrap_or_else(|| content.map(content_text).unwrap_or_default().into_owned());
    TimelineItem { failed: true, ..TimelineItem::new(ItemKind::Error, text) }
}

struct Blocks<'l, 'a, 's> {
    line: &'l Object<'a>,
    assistant: bool,
    scene: &'s mut Scene,
    out: &'s mut Vec<TimelineItem>,
}

impl Blocks<'_, '_, '_> {
    fn text(&mut self, text: &str) {
        let kind = if self.assistant { ItemKind::Assistant } else { ItemKind::User };
        self.out.push(TimelineItem::new(kind, text));
    }

    fn block(&mut self, raw: &str) {
        let Some(block) = Object::parse(raw) else {
            self.out.push(TimelineItem::note("block", content_text(raw)));
            return;
        };
        let kind = block.text("type").unwrap_or_default();
        match &*kind {
            "text" => self.text(&block.text("text").unwrap_or_default()),
            "thinking" => {
                let text = block.text("thinking").or_else(|| block.text("text")).unwrap_or_default();
                self.out.push(TimelineItem::new(ItemKind::Thinking, text));
            }
            "redacted_thinking" => {
                self.out
                    .push(TimelineItem { what: Some(kind.into_owned()), ..TimelineItem::new(ItemKind::Thinking, "") });
            }
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                let item = tool_call(&block);
                self.scene.remember_call(&item);
                self.out.push(item);
            }
            _ if kind == "tool_result" || kind.ends_with("_tool_result") => {
                let item = tool_result(&block, self.line, self.scene);
                self.out.push(item);
            }
            "image" | "document" if !self.assistant => {
                let item = TimelineItem::new(ItemKind::User, format!("[{kind}]"));
                self.out.push(TimelineItem { what: Some(kind.into_owned()), ..item });
            }
            _ => self.out.push(TimelineItem::note(if kind.is_empty() { "block" } else { &*kind }, raw)),
        }
    }
}

/// Renders a `tool_use` block.
pub(crate) fn tool_call(block: &Object<'_>) -> TimelineItem {
    TimelineItem {
        tool: block.word("name"),
        call_id: block.word("id"),
        ..TimelineItem::new(ItemKind::ToolCall, block.some("input").unwrap_or_default())
    }
}

/// Renders a `tool_result` block; `line` may name the blob with the full output.
pub(crate) fn tool_result(block: &Object<'_>, line: &Object<'_>, scene: &mut Scene) -> TimelineItem {
    let call_id = block.word("tool_use_id");
    let answer = block.raw("content").unwrap_or("\"\"");
    TimelineItem {
        tool: call_id.as_deref().and_then(|id| scene.take_call(id)),
        full: block.word("fullOutput").or_else(|| line.word("fullOutput")),
        // MCP tools report a failure in their answer.
        failed: block.flag("is_error") || Object::parse(answer).is_some_and(|answer| answer.flag("isError")),
        call_id,
        ..TimelineItem::new(ItemKind::ToolResult, answer_text(answer))
    }
}

/// Turns user items into notes, if no person wrote them.
pub(crate) fn demote_to_notes(items: &mut [TimelineItem], what: &str) {
    for item in items.iter_mut().filter(|item| item.kind == ItemKind::User) {
        item.kind = ItemKind::Note;
        item.what = Some(what.to_owned());
    }
}

/// Marks the prompt of a person as the start of a turn, unless the line has tool results.
pub(crate) fn mark_prompt(items: &mut [TimelineItem]) {
    if items.iter().any(|item| item.kind == ItemKind::ToolResult || item.sidechain) {
        return;
    }
    if let Some(first) = items.iter_mut().find(|item| item.kind == ItemKind::User) {
        first.boundary = Boundary::Opens;
    }
}
