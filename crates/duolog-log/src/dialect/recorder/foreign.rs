//! Records lines of other writers: `claude --output-format stream-json`, `codex exec --json`, and lines of any dialect.
//! They are kept unchanged, with the time of the append if they have no timestamp.
//!
//! Three exceptions: thinking is removed unless it is requested, a long tool result goes to a blob, and the partial
//! messages of Claude Code (`stream_event`) are held until the message that repeats them.

use duolog_types::Timestamp;
use serde_json::Value;

use super::event::{is_text, milliseconds, shortened};
use super::unfinished::MESSAGE_CUT;
use super::{PARTS_BYTES_MAX, RESUMED, RecordError, Recorded, Recorder, Sink, Turn, put, put_text};
use crate::dialect::detect;
use crate::dialect::envelope::Block;
use crate::dialect::object::Object;
use crate::dialect::scene::short_hash;
use crate::dialect::stream;
use crate::dialect::timeline::content_text;

/// Maximum number of conversations with held partial messages: the main one and those of subagents.
const PARTIALS_MAX: usize = 64;

/// A message that arrives in parts.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// The call that started the subagent; `None` for the main conversation.
    parent: Option<String>,
    /// The blocks that no complete line repeated yet: the type and the text so far.
    blocks: Vec<(String, String)>,
    /// The last event with the usage of the message, until a result has it.
    usage: Option<String>,
}

impl Recorder {
    /// Records an event that is not one of the recorder's own.
    pub(super) fn foreign<S: Sink>(
        &mut self,
        event: &Object<'_>,
        text: &str,
        at: Timestamp,
        sink: &mut S,
    ) -> Recorded<S> {
        let kind = event.word("type").unwrap_or_default();
        if !detect::is_own(event) && detect::of_object(event).is_none() {
            self.unknown += 1;
            return self.keep(if kind.is_empty() { "event" } else { &kind }, text, at, sink);
        }
        let names = ["session_id", "thread_id"];
        self.session_id = names.iter().find_map(|name| event.word(name)).or_else(|| self.session_id.take());
        match kind.as_str() {
            "stream_event" => return self.partial(event, text, at, sink),
            "user" if is_prompt(event) => return self.foreign_prompt(event, text, at, sink),
            "user" | "assistant" | "item.started" | "item.completed" => self.mark_acted(),
            "result" | "turn.completed" | "turn.failed" => self.foreign_end(at, sink)?,
            _ => {}
        }
        if kind == "assistant" {
            let parent = event.word("parent_tool_use_id");
            self.partials.iter_mut().filter(|held| held.parent == parent).for_each(|held| held.blocks.clear());
        }
        let is_thought = event.object("item").is_some_and(|item| item.is("type", "reasoning"));
        if is_thought && !self.options.keep_thinking {
            return Ok(());
        }
        self.keep_line(event, &kind, text, at, sink)
    }

    /// Writes a line with its timestamp, without thinking if that is not kept, and with long results shortened.
    fn keep_line<S: Sink>(
        &mut self,
        event: &Object<'_>,
        kind: &str,
        text: &str,
        at: Timestamp,
        sink: &mut S,
    ) -> Recorded<S> {
        let timestamp = milliseconds(at);
        let may_think = kind == "assistant" && !self.options.keep_thinking && text.contains("thinking");
        let edited = if may_think {
            without_thinking(text)
        } else if text.len() > self.options.tool_result_bytes_max && matches!(kind, "user" | "item.completed") {
            with_blobs(text, self.options.tool_result_bytes_max, &mut |full| sink.blob(full))
                .map_err(RecordError::Sink)?
        } else {
            None
        };
        let mut line = edited.unwrap_or_else(|| text.trim().to_owned());
        // Codex does not name the model.
        let model = self.options.model.as_ref().filter(|_| matches!(kind, "thread.started" | "turn.completed"));
        if let Some(model) = model.filter(|_| !event.has("model")) {
            add_member(&mut line, "model", model);
        }
        if !event.has("timestamp") && !event.has("t") {
            add_member(&mut line, "timestamp", &timestamp);
        }
        put_text(&line, &timestamp, sink)
    }

    /// Writes a prompt that the runtime sent. The caller's prompt is in the log already.
    fn foreign_prompt<S: Sink>(&mut self, event: &Object<'_>, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let content = event.object("message").and_then(|message| message.raw("content")).unwrap_or("null");
        let hash = short_hash(content_text(content).as_bytes());
        if self.echo.take() == Some(hash) && !self.turn.ended {
            return Ok(());
        }
        if self.turn.ended {
            self.settle(sink)?;
        }
        if self.open_prompt.take() == Some(hash) {
            return put(&self.frame(&milliseconds(at)).remark("resumed", RESUMED), sink);
        }
        self.answers.clear();
        self.keep_line(event, "user", text, at, sink)
    }

    /// Resets the turn at a line that ends it: its counts belong to no other turn.
    fn foreign_end<S: Sink>(&mut self, at: Timestamp, sink: &mut S) -> Recorded<S> {
        if let Some(event) = self.turn.snapshot_event.take() {
            self.keep("usage_snapshot", &event, at, sink)?;
        }
        self.turn = Turn::default();
        self.partials.clear();
        self.mark_acted();
        Ok(())
    }

    /// Holds a part of a message until a line has the complete message.
    fn partial<S: Sink>(&mut self, event: &Object<'_>, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let parent = event.word("parent_tool_use_id");
        let Some(part) = event.object("event") else { return self.keep("stream_event", text, at, sink) };
        let place = match self.partials.iter().position(|held| held.parent == parent) {
            Some(place) => place,
            None if self.partials.len() == PARTIALS_MAX => return self.keep("stream_event", text, at, sink),
            None => {
                self.partials.push(Partial { parent, ..Partial::default() });
                self.partials.len() - 1
            }
        };
        let bytes: usize = self.partials.iter().flat_map(|held| &held.blocks).map(|(_, text)| text.len()).sum();
        let held = &mut self.partials[place];
        match part.text("type").as_deref() {
            Some("message_start") => {
                held.blocks.clear();
                Ok(())
            }
            Some("content_block_start") => {
                let block = part.object("content_block").unwrap_or_default();
                let name = block.word("name").or_else(|| block.word("type")).unwrap_or_default();
                let start = ["text", "thinking"].iter().find_map(|name| block.word(name)).unwrap_or_default();
                held.blocks.push((name, start));
                Ok(())
            }
            Some("content_block_delta") if bytes < PARTS_BYTES_MAX => {
                let delta = part.object("delta").unwrap_or_default();
                let names = ["text", "thinking", "partial_json"];
                let more = names.iter().find_map(|name| delta.text(name)).unwrap_or_default();
                match held.blocks.last_mut() {
                    Some((_, text)) => text.push_str(&more),
                    None => held.blocks.push(("text".to_owned(), more.into_owned())),
                }
                Ok(())
            }
            Some("message_delta") => {
                held.usage = Some(text.to_owned());
                Ok(())
            }
            // These have nothing that the complete line lacks.
            Some("content_block_stop" | "message_stop" | "ping") => Ok(()),
            _ => self.keep("stream_event", text, at, sink),
        }
    }

    /// Writes parts that were never repeated: the input ended within a message.
    pub(super) fn write_partials<S: Sink>(&mut self, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let timestamp = milliseconds(at);
        for held in std::mem::take(&mut self.partials) {
            let mut is_cut = false;
            for (name, text) in held.blocks.iter().filter(|(_, text)| !text.is_empty()) {
                let block = match name.as_str() {
                    "text" => Block::Text { text },
                    "thinking" if !self.options.keep_thinking => continue,
                    "thinking" => Block::Thinking { thinking: text },
                    _ => {
                        let cut = format!("the input ended within a call of {name}: {text}");
                        put(&self.frame(&timestamp).remark("unfinished", &cut), sink)?;
                        continue;
                    }
                };
                is_cut = true;
                put(&self.frame(&timestamp).assistant(self.options.model.as_deref(), vec![block], None), sink)?;
            }
            if is_cut {
                put(&self.frame(&timestamp).remark("unfinished", MESSAGE_CUT), sink)?;
            }
            if let Some(usage) = held.usage {
                self.keep("stream_event", &usage, at, sink)?;
            }
        }
        Ok(())
    }
}

/// Returns true if a `user` line is a prompt of a person in the main conversation.
fn is_prompt(event: &Object<'_>) -> bool {
    let content = event.object("message").and_then(|message| message.raw("content")).unwrap_or("null");
    let is_main = event.some("parent_tool_use_id").is_none() && !event.flag("isSidechain");
    is_main && !stream::is_synthetic(event) && !event.flag("isMeta") && content != "null" && is_text(content)
}

/// Adds a text member to the end of an object, given as JSON text.
fn add_member(line: &mut String, name: &str, value: &str) {
    if !line.ends_with('}') {
        return;
    }
    line.pop();
    let is_empty = line.trim_end().ends_with('{');
    let member = format!("{}:{}}}", Value::from(name), Value::from(value));
    line.push_str(if is_empty { "" } else { "," });
    line.push_str(&member);
}

/// Returns an assistant line without its thinking; `None` if it has none, or cannot be decoded.
fn without_thinking(text: &str) -> Option<String> {
    let mut line: Value = serde_json::from_str(text).ok()?;
    let blocks = line.get_mut("message")?.get_mut("content")?.as_array_mut()?;
    let count = blocks.len();
    blocks.retain(|block| !matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")));
    (blocks.len() < count).then(|| line.to_string())
}

/// Returns a line with its long results shortened and stored as blobs; `None` if it has none, or cannot be decoded.
fn with_blobs<E>(
    text: &str,
    bytes_max: usize,
    blob: &mut impl FnMut(&str) -> Result<String, E>,
) -> Result<Option<String>, E> {
    let Ok(mut line) = serde_json::from_str::<Value>(text) else { return Ok(None) };
    let mut is_changed = false;
    let mut shorten = |holder: &mut Value, name: &str| -> Result<(), E> {
        let Some(content) = holder.get(name) else { return Ok(()) };
        let raw = content.to_string();
        if !is_text(&raw) || !(content.is_string() || content.is_array()) {
            return Ok(());
        }
        let full = content_text(&raw).into_owned();
        if let Some(shown) = shortened(&full, bytes_max) {
            holder[name] = Value::from(shown);
            holder["fullOutput"] = Value::from(blob(&full)?);
            is_changed = true;
        }
        Ok(())
    };
    if let Some(item) = line.get_mut("item").filter(|item| item.is_object()) {
        shorten(item, "aggregated_output")?;
    }
    let blocks = line.get_mut("message").and_then(|message| message.get_mut("content")).and_then(Value::as_array_mut);
    for block in blocks.into_iter().flatten().filter(|block| block["type"] == "tool_result") {
        shorten(block, "content")?;
    }
    if is_changed && let Some(line) = line.as_object_mut() {
        // The same result again, in the tool's own format.
        line.remove("tool_use_result");
        line.remove("toolUseResult");
    }
    Ok(is_changed.then(|| line.to_string()))
}
