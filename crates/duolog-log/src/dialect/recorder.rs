//! Turns a runtime's events into lines: what `agent | duolog log record` writes.
//!
//! Events of pi-like runtimes become envelopes. Lines of Claude Code, Codex and every other dialect are kept unchanged,
//! with a timestamp (`foreign`). An unknown line is kept in a `system` line and counted. Every event becomes a line, or
//! is repeated by one (deltas and starts, which their ends repeat), or is kept in a `system` line; none is dropped. If
//! the input ends early, unfinished messages and calls are written as far as they came. Long tool results are shortened
//! in the line; the full text goes to the sink as a blob before the line that names it. The recorder does no I/O: the
//! caller's sink gets lines and blobs.

mod answers;
mod event;
mod foreign;
mod known;
mod unfinished;

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use duolog_types::json::{JsonFault, check_object};
use duolog_types::limits::TOOL_RESULT_BYTES_MAX;
use duolog_types::{Clock, SystemClock, Timestamp};
use serde_json::value::RawValue;

use answers::{Answers, Channel};
use event::{Part, Snapshot, fatal_has_more, is_text, merged, milliseconds, retry, shortened, sum, tokens};
use foreign::Partial;
pub use known::Known;
use unfinished::Unfinished;

use super::envelope::{Block, Builder, Ending, Line, Usage};
use super::money::Money;
use super::object::{Object, repair_json};
use super::scene::short_hash;
use super::timeline::content_text;

/// Maximum number of bytes of message parts that are held until the end of the message repeats them; beyond it they are
/// written.
const PARTS_BYTES_MAX: usize = 4 << 20;
/// The text of a remark in place of a prompt that continues a turn.
const RESUMED: &str = "the same prompt was given again; its turn continues";

/// The destination of lines and blobs.
pub trait Sink {
    /// The error of the sink.
    type Error: Error;

    /// Writes a line, given without its newline.
    fn line(&mut self, line: &str) -> Result<(), Self::Error>;

    /// Stores the full text of a shortened one and returns its reference: `blob:<sha256>`.
    fn blob(&mut self, text: &str) -> Result<String, Self::Error>;
}

/// An error of the recorder.
#[derive(Debug, thiserror::Error)]
pub enum RecordError<E: Error> {
    /// The sink failed.
    #[error("cannot write the event")]
    Sink(#[source] E),
    /// The event could not be converted to JSON.
    #[error("cannot convert the event to a line")]
    Json(#[source] serde_json::Error),
}

/// Options of a [`Recorder`].
#[derive(Clone)]
pub struct Options {
    /// The session id, until the runtime names its own.
    pub session: Option<String>,
    /// The prompt; it becomes the first line of the turn.
    pub prompt: Option<String>,
    /// The model, if the caller knows it; it takes precedence over the model of a message.
    pub model: Option<String>,
    /// True to keep thinking.
    pub keep_thinking: bool,
    /// Maximum number of bytes of a tool result in a line.
    pub tool_result_bytes_max: usize,
    /// The clock for events without a timestamp.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            session: None,
            prompt: None,
            model: None,
            keep_thinking: true,
            tool_result_bytes_max: TOOL_RESULT_BYTES_MAX,
            clock: Arc::new(SystemClock),
        }
    }
}

/// The sums of the current turn.
#[derive(Debug, Default)]
struct Turn {
    started_at: Option<Timestamp>,
    final_text: String,
    responses: u64,
    tokens: Usage,
    cost: Money,
    /// True if the cost of some counted tokens is unknown.
    is_cost_partial: bool,
    snapshot: Snapshot,
    /// The last snapshot, merged with the earlier ones. Snapshots are totals.
    snapshot_event: Option<String>,
    stop_reason: Option<String>,
    failure: Option<&'static str>,
    tool_failed: bool,
    ended: bool,
}

/// Turns events into lines, one after the other.
pub struct Recorder {
    options: Options,
    session_id: Option<String>,
    prompt: Option<String>,
    /// The hash of the prompt in the log that has no result yet; `None` once the agent acted.
    open_prompt: Option<u64>,
    /// The hash of the caller's prompt; `None` once the runtime repeated it or the agent acted.
    echo: Option<u64>,
    turn: Turn,
    answers: Answers,
    unfinished: Unfinished,
    partials: Vec<Partial>,
    unknown: u64,
    last_at: Option<Timestamp>,
}

type Recorded<S> = Result<(), RecordError<<S as Sink>::Error>>;

impl Recorder {
    /// Creates a recorder for a session; `resumed` is what was read from the end of its log.
    pub fn new(options: Options, resumed: &Known) -> Self {
        Self {
            session_id: options.session.clone(),
            prompt: options.prompt.clone(),
            open_prompt: resumed.open_prompt,
            echo: None,
            turn: Turn {
                responses: resumed.responses,
                tokens: resumed.tokens,
                is_cost_partial: resumed.tokens != Usage::default(),
                ..Turn::default()
            },
            answers: Answers::default(),
            unfinished: Unfinished::default(),
            partials: Vec::new(),
            unknown: 0,
            last_at: None,
            options,
        }
    }

    /// Records an event, given as JSON text. Text that is not a JSON object is kept as a remark.
    pub fn event<S: Sink>(&mut self, json: &str, sink: &mut S) -> Recorded<S> {
        let text = json.trim();
        if text.is_empty() {
            return Ok(());
        }
        let text = if Object::parse(text).is_some() { Cow::Borrowed(text) } else { Cow::Owned(repair_json(text)) };
        // JSON permits a newline between tokens; in a log it would split the line.
        let flat = if text.contains(['\n', '\r']) { Cow::Owned(text.replace(['\n', '\r'], " ")) } else { text };
        if let Some(event) = Object::parse(&flat) {
            return self.object(&event, &flat, sink);
        }
        self.unknown += 1;
        let at = self.begin(None, sink)?;
        put(&self.frame(&milliseconds(at)).remark("output", json.trim()), sink)
    }

    /// Ends the recording. A complete turn gets its result; one that was cut off gets none. Unfinished messages and
    /// calls are written as far as they came.
    pub fn finish<S: Sink>(&mut self, sink: &mut S) -> Recorded<S> {
        if self.prompt.is_some() {
            self.begin(None, sink)?;
        }
        self.write_unfinished(sink)?;
        let at = self.last_at.unwrap_or_else(|| self.options.clock.now());
        self.write_partials(at, sink)?;
        match self.turn.snapshot_event.take() {
            // No result contains its content.
            Some(event) if !self.turn.ended => {
                let at = self.last_at.unwrap_or_else(|| self.options.clock.now());
                self.keep("usage_snapshot", &event, at, sink)
            }
            _ => self.settle(sink),
        }
    }

    /// Returns the runtime's session id, if it is known.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the number of unknown lines. They are kept.
    pub const fn unknown(&self) -> u64 {
        self.unknown
    }

    fn object<S: Sink>(&mut self, event: &Object<'_>, text: &str, sink: &mut S) -> Recorded<S> {
        let kind = event.text("type").unwrap_or_default();
        if kind == "session"
            && let Some(id) = event.word("id")
        {
            self.session_id = Some(id);
        } else if let Some(id) = event.word("sessionId") {
            self.session_id = Some(id);
        }
        let at = self.begin(event.instant("timestamp"), sink)?;
        match &*kind {
            "message_end" => self.message(event, text, at, sink),
            "tool_execution_end" => self.tool(event, text, at, sink),
            "fatal_error" => self.fatal(event, text, at, sink),
            "usage_snapshot" => {
                self.turn.snapshot.merge(event);
                self.merge_snapshot(text, at, sink)?;
                self.turn.stop_reason = event.word("stopReason").or_else(|| self.turn.stop_reason.take());
                Ok(())
            }
            "agent_end" => {
                self.agent_end(event);
                Ok(())
            }
            "auto_retry_start" | "auto_retry_end" => {
                let (remark, is_cut) = retry(event, &kind);
                put(&self.frame(&milliseconds(at)).remark(&kind, &remark), sink)?;
                if is_cut { self.keep(&kind, text, at, sink) } else { Ok(()) }
            }
            "extension_status" | "skills_status" => {
                let frame = ["type", "timestamp", "sessionId", "subtype"];
                let raw = |value| serde_json::from_str::<&RawValue>(value).map_err(RecordError::Json);
                let status = event.members().filter(|(name, _)| !frame.contains(name));
                let members = status.map(|(name, value)| Ok((name, raw(value)?))).collect::<Result<_, _>>()?;
                put(&self.frame(&milliseconds(at)).status(&kind, members), sink)
            }
            // The id is set by now; other members have no place in other lines.
            "session" => {
                let frame = ["type", "id", "timestamp", "sessionId"];
                let has_more = event.members().any(|(name, _)| !frame.contains(&name));
                if has_more { self.keep("session", text, at, sink) } else { Ok(()) }
            }
            // The end of the message repeats these parts.
            "message_start" | "message_update" => {
                self.unfinished.message(event, text);
                if self.unfinished.part_bytes() <= PARTS_BYTES_MAX {
                    return Ok(());
                }
                let parts = self.unfinished.take_parts();
                parts.iter().try_for_each(|part| self.keep("message_update", part, at, sink))
            }
            "tool_execution_start" | "tool_execution_update" => {
                let Some(id) = call_id(event) else { return self.keep(&kind, text, at, sink) };
                let start = kind == "tool_execution_start";
                let unfinished = &mut self.unfinished;
                let over = if start { unfinished.start_call(&id, text) } else { unfinished.update_call(&id, text) };
                over.map_or(Ok(()), |call| self.keep_call(&call, at, sink))
            }
            "agent_start" | "turn_start" | "turn_end" => Ok(()),
            _ => self.foreign(event, text, at, sink),
        }
    }

    /// Returns the time of the next line; the prompt is written before anything else.
    fn begin<S: Sink>(&mut self, at: Option<Timestamp>, sink: &mut S) -> Result<Timestamp, RecordError<S::Error>> {
        let at = at.unwrap_or_else(|| self.options.clock.now());
        self.last_at = Some(at);
        if let Some(prompt) = self.prompt.take() {
            self.write_prompt(&prompt, at, sink)?;
            self.echo = Some(short_hash(prompt.as_bytes()));
        }
        self.turn.started_at.get_or_insert(at);
        Ok(at)
    }

    /// Writes a prompt. One that continues the open turn of the log becomes a remark: its text is in the log already.
    fn write_prompt<S: Sink>(&mut self, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        if self.turn.ended {
            self.settle(sink)?;
        }
        let is_resumed = self.open_prompt.take() == Some(short_hash(text.as_bytes()));
        self.answers.clear();
        self.turn.started_at.get_or_insert(at);
        if !is_resumed {
            (self.turn.final_text, self.turn.tool_failed) = (String::new(), false);
        }
        let timestamp = milliseconds(at);
        let frame = self.frame(&timestamp);
        put(&if is_resumed { frame.remark("resumed", RESUMED) } else { frame.user(text) }, sink)
    }

    /// Writes a prompt that the runtime sent. The caller's prompt is in the log already.
    fn write_runtime_prompt<S: Sink>(&mut self, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let is_echo = self.echo.take() == Some(short_hash(text.as_bytes()));
        if is_echo && !self.turn.ended { Ok(()) } else { self.write_prompt(text, at, sink) }
    }

    /// Records that the agent acted: from here on a prompt with the same text is a new prompt.
    fn mark_acted(&mut self) {
        (self.echo, self.open_prompt) = (None, None);
    }

    /// Merges a snapshot: members that it lacks keep their earlier value.
    fn merge_snapshot<S: Sink>(&mut self, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let Some(before) = self.turn.snapshot_event.take() else {
            self.turn.snapshot_event = Some(text.to_owned());
            return Ok(());
        };
        let joined = merged(&before, text);
        if joined.is_none() {
            self.keep("usage_snapshot", &before, at, sink)?;
        }
        self.turn.snapshot_event = Some(joined.unwrap_or_else(|| text.to_owned()));
        Ok(())
    }

    fn message<S: Sink>(&mut self, event: &Object<'_>, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        self.unfinished.take_message();
        let Some(message) = event.object("message") else { return self.keep("message_end", text, at, sink) };
        match message.text("role").as_deref() {
            Some("assistant") => self.assistant(&message, at, sink),
            Some("user") => {
                let content = message.raw("content").unwrap_or("null");
                self.write_runtime_prompt(&content_text(content), at, sink)?;
                // The envelope cannot hold images in a prompt.
                if is_text(content) { Ok(()) } else { self.keep("message_end", text, at, sink) }
            }
            Some("toolResult") => {
                let Some(id) = message.word("toolCallId") else { return self.keep("message_end", text, at, sink) };
                let raw = message.raw("content").unwrap_or("null");
                let failed = message.flag("isError");
                self.unfinished.finish_call(&id);
                self.turn.tool_failed |= failed;
                if self.answers.is_repeated(Channel::Message, &id, raw, failed) {
                    return Ok(());
                }
                let content = if is_text(raw) { content_text(raw) } else { raw.into() };
                self.answer(&id, &content, failed, at, sink)
            }
            _ => self.keep("message_end", text, at, sink),
        }
    }

    fn assistant<S: Sink>(&mut self, message: &Object<'_>, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let raw = message.raw("content").unwrap_or("null");
        let parts: Vec<Part> = match super::object::elements(raw) {
            Some(parts) => parts.into_iter().filter_map(|part| Part::of(part, self.options.keep_thinking)).collect(),
            None => vec![Part::Text(content_text(raw).into_owned())],
        };
        let answer: String = parts.iter().filter_map(Part::text).collect();
        let usage = message.object("usage");
        let cost = usage.as_ref().and_then(|usage| Money::parse(usage.object("cost")?.raw("total")?));
        let usage = usage.map(|usage| tokens(&usage)).filter(|tokens| *tokens != Usage::default());
        self.mark_acted();
        for part in &parts {
            if let Part::Call { id, .. } = part {
                self.answers.forget_call(id);
                self.unfinished.mark_written(id);
            }
        }
        let turn = &mut self.turn;
        turn.responses += 1;
        turn.stop_reason = message.word("stopReason").or_else(|| turn.stop_reason.take());
        if let Some(tokens) = usage {
            turn.tokens = sum(turn.tokens, tokens);
            turn.is_cost_partial |= cost.is_none();
        }
        turn.cost += cost.unwrap_or(Money::ZERO);
        if !answer.is_empty() {
            turn.final_text = answer;
        }
        let blocks: Vec<Block<'_>> = parts.iter().filter_map(Part::block).collect();
        if !blocks.is_empty() || usage.is_some() {
            let model = self.options.model.clone().or_else(|| message.word("model"));
            put(&self.frame(&milliseconds(at)).assistant(model.as_deref(), blocks, usage), sink)?;
        }
        for part in parts.iter().filter_map(Part::other) {
            self.keep("message_part", part, at, sink)?;
        }
        match message.word("errorMessage") {
            Some(error) => put(&self.frame(&milliseconds(at)).failure(&error), sink),
            None => Ok(()),
        }
    }

    fn tool<S: Sink>(&mut self, event: &Object<'_>, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let Some(id) = call_id(event) else { return self.keep("tool_execution_end", text, at, sink) };
        self.unfinished.finish_call(&id);
        let some = |name| event.some(name).filter(|raw| *raw != "\"\"");
        let error = some("error").filter(|raw| *raw != "false");
        let mut contents: Vec<&str> = [some("result"), some("output"), error].into_iter().flatten().collect();
        contents.dedup();
        let content = contents.first().copied().unwrap_or("\"\"");
        let failed = event.flag("isError") || error.is_some();
        self.turn.tool_failed |= failed;
        if !self.answers.is_repeated(Channel::Execution, &id, content, failed) {
            // A structure stays JSON; only a string is decoded.
            let decoded = super::object::decode(content).unwrap_or(content.into());
            self.answer(&id, &decoded, failed, at, sink)?;
        }
        // A result has one content; the others are kept in a line of their own.
        if contents.len() > 1 { self.keep("tool_execution_end", text, at, sink) } else { Ok(()) }
    }

    /// Writes a tool result.
    fn answer<S: Sink>(&mut self, id: &str, content: &str, failed: bool, at: Timestamp, sink: &mut S) -> Recorded<S> {
        self.mark_acted();
        let Some(shown) = shortened(content, self.options.tool_result_bytes_max) else {
            return put(&self.frame(&milliseconds(at)).tool_result(id, content, failed, None), sink);
        };
        let full = sink.blob(content).map_err(RecordError::Sink)?;
        put(&self.frame(&milliseconds(at)).tool_result(id, &shown, failed, Some(&full)), sink)
    }

    fn fatal<S: Sink>(&mut self, event: &Object<'_>, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let error = event.object("error");
        let reason = error.as_ref().and_then(|error| error.word("message").or_else(|| error.word("name")));
        let reason = reason.or_else(|| event.word("error")).or_else(|| event.word("message"));
        (self.turn.failure, self.turn.ended) = (Some("error_fatal"), true);
        put(&self.frame(&milliseconds(at)).failure(reason.as_deref().unwrap_or("fatal error")), sink)?;
        if fatal_has_more(event) { self.keep("fatal_error", text, at, sink) } else { Ok(()) }
    }

    /// Ends the turn. Runtimes report a failed provider as a normal end; only the last message shows it.
    fn agent_end(&mut self, event: &Object<'_>) {
        self.turn.ended = true;
        let messages = event.list("messages").unwrap_or_default();
        let last = messages.into_iter().rev().filter_map(Object::parse).find(|message| message.is("role", "assistant"));
        let reason = last.and_then(|message| message.word("stopReason"));
        match reason.as_deref() {
            Some("aborted") => self.turn.failure = self.turn.failure.or(Some("error_aborted")),
            Some("error") => self.turn.failure = self.turn.failure.or(Some("error_agent")),
            _ => {}
        }
    }

    /// Keeps an event without a line format of its own, unchanged.
    fn keep<S: Sink>(&mut self, kind: &str, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let raw: &RawValue = serde_json::from_str(text).map_err(RecordError::Json)?;
        put(&self.frame(&milliseconds(at)).system(kind, raw), sink)
    }

    /// Writes the result of a complete turn, once.
    fn settle<S: Sink>(&mut self, sink: &mut S) -> Recorded<S> {
        if !self.turn.ended {
            return Ok(());
        }
        let turn = std::mem::take(&mut self.turn);
        self.mark_acted();
        // A result without a cost is priced by the price list, so a partial cost must not be written as the total.
        let cost = if turn.is_cost_partial { Money::ZERO } else { turn.cost };
        let (responses, tokens, cost) = turn.snapshot.or_counted(turn.responses, turn.tokens, cost);
        let subtype = match turn.failure {
            Some(failure) => failure,
            None if turn.tool_failed && turn.final_text.is_empty() => "error_tool",
            None => "success",
        };
        let at = self.last_at.unwrap_or_else(|| self.options.clock.now());
        let micros = at.as_micros() - turn.started_at.unwrap_or(at).as_micros();
        let cost: Box<RawValue> = RawValue::from_string(cost.to_string()).map_err(RecordError::Json)?;
        let ending = Ending {
            subtype,
            text: &turn.final_text,
            turns: responses,
            cost: &cost,
            tokens,
            stop_reason: turn.stop_reason.as_deref(),
            duration_ms: u64::try_from(micros / 1000).unwrap_or_default(),
        };
        put(&self.frame(&milliseconds(at)).result(&ending), sink)
    }

    fn frame<'a>(&'a self, timestamp: &'a str) -> Builder<'a> {
        Builder { timestamp, session_id: self.session_id.as_deref() }
    }
}

/// Returns the id of the call that an event is about.
fn call_id(event: &Object<'_>) -> Option<String> {
    event.word("toolCallId").or_else(|| event.word("id"))
}

fn put<S: Sink>(line: &Line<'_>, sink: &mut S) -> Recorded<S> {
    put_text(&line.to_text().map_err(RecordError::Json)?, line.timestamp(), sink)
}

fn put_text<S: Sink>(text: &str, timestamp: &str, sink: &mut S) -> Recorded<S> {
    if !matches!(check_object(text), Err(JsonFault::TooDeep(_))) {
        return sink.line(text).map_err(RecordError::Sink);
    }
    // A log accepts no line that nests this deep; as text it does.
    let frame = Builder { timestamp, session_id: None };
    let flat = frame.remark("too_deep", text).to_text().map_err(RecordError::Json)?;
    sink.line(&flat).map_err(RecordError::Sink)
}
