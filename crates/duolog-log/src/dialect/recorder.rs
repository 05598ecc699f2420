//! From a runtime's events to lines: what `agent | duolog log record` writes.
//!
//! The events of pi-like runtimes become envelopes. Lines of Claude Code, Codex and every other dialect are kept as they
//! are, with an instant (`foreign`). A line that nobody understands is kept in a `system` line and counted.
//! Every event either becomes a line, is part of one that does (deltas and beginnings, which their ends repeat), or is
//! kept whole in a `system` line; none is dropped. What has no end when the input ends is written as far as it came. Long tool results are cut for display only: the whole goes to the
//! sink as a blob before the line that names it. Pure: lines and blobs go where the caller says.

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

/// The bytes of parts of a message that are held until its end repeats them; then they are written.
const PARTS_BYTES_MAX: usize = 4 << 20;
/// What stands in place of a prompt that continues a turn.
const RESUMED: &str = "the same prompt was given again; its turn continues";

/// Where lines and blobs go.
pub trait Sink {
    /// Why it could not take something.
    type Error: Error;

    /// Takes a line, given without its newline.
    fn line(&mut self, line: &str) -> Result<(), Self::Error>;

    /// Keeps the whole of a shortened text and returns what names it: `blob:<sha256>`.
    fn blob(&mut self, whole: &str) -> Result<String, Self::Error>;
}

/// An event that could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError<E: Error> {
    /// The sink refused it.
    #[error("the event could not be written")]
    Sink(#[source] E),
    /// It could not be put in JSON.
    #[error("the event could not be put into a line")]
    Json(#[source] serde_json::Error),
}

/// How to record.
#[derive(Clone)]
pub struct Options {
    /// The session, until the runtime names its own.
    pub session: Option<String>,
    /// What the agent is asked; it becomes the first line of the turn.
    pub prompt: Option<String>,
    /// The model, where it is known better than the runtime tells.
    pub model: Option<String>,
    /// Whether thinking is kept.
    pub keep_thinking: bool,
    /// The bytes of a tool's answer that stay in a line.
    pub tool_result_bytes_max: usize,
    /// The instant of events that name none.
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

/// What a turn came to so far.
#[derive(Debug, Default)]
struct Turn {
    started_at: Option<Timestamp>,
    final_text: String,
    responses: u64,
    tokens: Usage,
    cost: Money,
    /// Tokens were counted whose cost no event told.
    is_cost_partial: bool,
    snapshot: Snapshot,
    /// The last snapshot, with what those before it told and it does not. Snapshots are totals.
    snapshot_event: Option<String>,
    stop_reason: Option<String>,
    failure: Option<&'static str>,
    tool_failed: bool,
    ended: bool,
}

/// Translates events, one after the other.
pub struct Recorder {
    options: Options,
    session_id: Option<String>,
    prompt: Option<String>,
    /// The prompt that waits for its result in the log, until the agent says something.
    open_prompt: Option<u64>,
    /// The prompt that the caller gave, until the runtime tells it too or the agent says something.
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
    /// A recorder for a session whose log holds what `resumed` has read of it.
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

    /// Takes one event, given as JSON text. Text that is no JSON object is kept as a remark.
    pub fn event<S: Sink>(&mut self, json: &str, sink: &mut S) -> Recorded<S> {
        let text = json.trim();
        if text.is_empty() {
            return Ok(());
        }
        let text = if Object::parse(text).is_some() { Cow::Borrowed(text) } else { Cow::Owned(repair_json(text)) };
        // Between tokens a newline is white space to JSON; in a log it would make two lines of one.
        let flat = if text.contains(['\n', '\r']) { Cow::Owned(text.replace(['\n', '\r'], " ")) } else { text };
        if let Some(event) = Object::parse(&flat) {
            return self.object(&event, &flat, sink);
        }
        self.unknown += 1;
        let at = self.begin(None, sink)?;
        put(&self.frame(&milliseconds(at)).remark("output", json.trim()), sink)
    }

    /// Ends the recording. A turn that came to its end gets its result; one that was cut off gets none. A message and
    /// calls that were under way are written as far as they came.
    pub fn finish<S: Sink>(&mut self, sink: &mut S) -> Recorded<S> {
        if self.prompt.is_some() {
            self.begin(None, sink)?;
        }
        self.write_unfinished(sink)?;
        let at = self.last_at.unwrap_or_else(|| self.options.clock.now());
        self.write_partials(at, sink)?;
        match self.turn.snapshot_event.take() {
            // No result tells what it says.
            Some(event) if !self.turn.ended => {
                let at = self.last_at.unwrap_or_else(|| self.options.clock.now());
                self.keep("usage_snapshot", &event, at, sink)
            }
            _ => self.settle(sink),
        }
    }

    /// The runtime's session, as far as it is known.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// How many lines nobody understood. They are kept.
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
                let told = event.members().filter(|(name, _)| !frame.contains(name));
                let members = told.map(|(name, value)| Ok((name, raw(value)?))).collect::<Result<_, _>>()?;
                put(&self.frame(&milliseconds(at)).status(&kind, members), sink)
            }
            // The session is named by now; what else is told of it has no place in any line.
            "session" => {
                let frame = ["type", "id", "timestamp", "sessionId"];
                let has_more = event.members().any(|(name, _)| !frame.contains(&name));
                if has_more { self.keep("session", text, at, sink) } else { Ok(()) }
            }
            // Parts of what its end tells as a whole.
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
                let over = if start { unfinished.started(&id, text) } else { unfinished.updated(&id, text) };
                over.map_or(Ok(()), |call| self.keep_call(&call, at, sink))
            }
            "agent_start" | "turn_start" | "turn_end" => Ok(()),
            _ => self.foreign(event, text, at, sink),
        }
    }

    /// The instant of what comes now; the prompt is written before anything else is.
    fn begin<S: Sink>(&mut self, at: Option<Timestamp>, sink: &mut S) -> Result<Timestamp, RecordError<S::Error>> {
        let at = at.unwrap_or_else(|| self.options.clock.now());
        self.last_at = Some(at);
        if let Some(prompt) = self.prompt.take() {
            self.prompted(&prompt, at, sink)?;
            self.echo = Some(short_hash(prompt.as_bytes()));
        }
        self.turn.started_at.get_or_insert(at);
        Ok(at)
    }

    /// Writes a prompt. One that continues the open turn of the log is a remark: its text stands there already.
    fn prompted<S: Sink>(&mut self, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
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

    /// Writes a prompt that the runtime tells. The one that the caller gave is there already.
    fn told_prompt<S: Sink>(&mut self, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let is_echo = self.echo.take() == Some(short_hash(text.as_bytes()));
        if is_echo && !self.turn.ended { Ok(()) } else { self.prompted(text, at, sink) }
    }

    /// The agent did something: from here on a prompt with the same text is another prompt.
    fn acted(&mut self) {
        (self.echo, self.open_prompt) = (None, None);
    }

    /// Takes a snapshot: what it does not tell stays as it was told before.
    fn merge_snapshot<S: Sink>(&mut self, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let Some(before) = self.turn.snapshot_event.take() else {
            self.turn.snapshot_event = Some(text.to_owned());
            return Ok(());
        };
        let whole = merged(&before, text);
        if whole.is_none() {
            self.keep("usage_snapshot", &before, at, sink)?;
        }
        self.turn.snapshot_event = Some(whole.unwrap_or_else(|| text.to_owned()));
        Ok(())
    }

    fn message<S: Sink>(&mut self, event: &Object<'_>, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        self.unfinished.take_message();
        let Some(message) = event.object("message") else { return self.keep("message_end", text, at, sink) };
        match message.text("role").as_deref() {
            Some("assistant") => self.assistant(&message, at, sink),
            Some("user") => {
                let content = message.raw("content").unwrap_or("null");
                self.told_prompt(&content_text(content), at, sink)?;
                // The envelope has no place for pictures in a prompt.
                if is_text(content) { Ok(()) } else { self.keep("message_end", text, at, sink) }
            }
            Some("toolResult") => {
                let Some(id) = message.word("toolCallId") else { return self.keep("message_end", text, at, sink) };
                let raw = message.raw("content").unwrap_or("null");
                let failed = message.flag("isError");
                self.unfinished.answered(&id);
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
        let said: String = parts.iter().filter_map(Part::text).collect();
        let usage = message.object("usage");
        let cost = usage.as_ref().and_then(|usage| Money::parse(usage.object("cost")?.raw("total")?));
        let usage = usage.map(|usage| tokens(&usage)).filter(|tokens| *tokens != Usage::default());
        self.acted();
        for part in &parts {
            if let Part::Call { id, .. } = part {
                self.answers.called(id);
                self.unfinished.called(id);
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
        if !said.is_empty() {
            turn.final_text = said;
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
        self.unfinished.answered(&id);
        let some = |name| event.some(name).filter(|raw| *raw != "\"\"");
        let error = some("error").filter(|raw| *raw != "false");
        let mut told: Vec<&str> = [some("result"), some("output"), error].into_iter().flatten().collect();
        told.dedup();
        let content = told.first().copied().unwrap_or("\"\"");
        let failed = event.flag("isError") || error.is_some();
        self.turn.tool_failed |= failed;
        if !self.answers.is_repeated(Channel::Execution, &id, content, failed) {
            // A structure stays the JSON it is; only a string is decoded.
            let decoded = super::object::decode(content).unwrap_or(content.into());
            self.answer(&id, &decoded, failed, at, sink)?;
        }
        // A result has one content: what else was told is beside it.
        if told.len() > 1 { self.keep("tool_execution_end", text, at, sink) } else { Ok(()) }
    }

    /// What a tool answered.
    fn answer<S: Sink>(&mut self, id: &str, content: &str, failed: bool, at: Timestamp, sink: &mut S) -> Recorded<S> {
        self.acted();
        let Some(shown) = shortened(content, self.options.tool_result_bytes_max) else {
            return put(&self.frame(&milliseconds(at)).tool_result(id, content, failed, None), sink);
        };
        let full = sink.blob(content).map_err(RecordError::Sink)?;
        put(&self.frame(&milliseconds(at)).tool_result(id, &shown, failed, Some(&full)), sink)
    }

    fn fatal<S: Sink>(&mut self, event: &Object<'_>, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let error = event.object("error");
        let told = error.as_ref().and_then(|error| error.word("message").or_else(|| error.word("name")));
        let told = told.or_else(|| event.word("error")).or_else(|| event.word("message"));
        (self.turn.failure, self.turn.ended) = (Some("error_fatal"), true);
        put(&self.frame(&milliseconds(at)).failure(told.as_deref().unwrap_or("fatal error")), sink)?;
        if fatal_has_more(event) { self.keep("fatal_error", text, at, sink) } else { Ok(()) }
    }

    /// Runtimes report a failed provider as an ordinary end; only the last message tells.
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

    /// An event that has no shape of its own here, kept as it is.
    fn keep<S: Sink>(&mut self, kind: &str, text: &str, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let raw: &RawValue = serde_json::from_str(text).map_err(RecordError::Json)?;
        put(&self.frame(&milliseconds(at)).system(kind, raw), sink)
    }

    /// Writes the result of a turn that came to its end, once.
    fn settle<S: Sink>(&mut self, sink: &mut S) -> Recorded<S> {
        if !self.turn.ended {
            return Ok(());
        }
        let turn = std::mem::take(&mut self.turn);
        self.acted();
        // A result without a cost is charged by the price list, so a part of the cost must not stand for all of it.
        let cost = if turn.is_cost_partial { Money::ZERO } else { turn.cost };
        let (responses, tokens, cost) = turn.snapshot.over(turn.responses, turn.tokens, cost);
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

/// The call that an event about a tool tells of.
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
    // A log takes no line that nests so deep; as text it takes it.
    let frame = Builder { timestamp, session_id: None };
    let flat = frame.remark("too_deep", text).to_text().map_err(RecordError::Json)?;
    sink.line(&flat).map_err(RecordError::Sink)
}
