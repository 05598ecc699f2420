//! From a runtime's events to envelope lines: what `agent | duolog log record` writes.
//!
//! Every event either becomes a line, is part of one that does (deltas and beginnings, which their ends repeat), or is
//! kept whole in a `system` line; none is dropped. Long tool results are cut for display only: the whole goes to the
//! sink as a blob before the line that names it. Pure: lines and blobs go where the caller says.

mod event;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;

use duolog_types::json::{JsonFault, check_object};
use duolog_types::limits::TOOL_RESULT_BYTES_MAX;
use duolog_types::{Clock, Moment, Position, SystemClock};
use serde_json::value::{RawValue, to_raw_value};

use event::{Part, Snapshot, is_text, milliseconds, retry, shortened, snapshot, sum, tokens};

use super::envelope::{Block, Builder, Ending, Line, Usage};
use super::money::Money;
use super::object::{Object, mend};
use super::scene::short_hash;
use super::timeline::{Boundary, content_text};
use super::{Dialect, Interpreter};

/// How many answered tool calls are remembered, so that an answer told in two ways is written once.
const ANSWERED_MAX: usize = 256;

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

/// What the log of a resumed session already has, folded from its lines.
///
/// A prompt that stands there and has no result yet is the one being resumed, and is not written again. The same words
/// after a turn that ended are a new prompt: people do say "go on" twice.
#[derive(Debug)]
pub struct Known {
    reader: Interpreter,
    open_prompt: Option<u64>,
}

impl Default for Known {
    fn default() -> Self {
        Self { reader: Interpreter::new(Dialect::Envelope), open_prompt: None }
    }
}

impl Known {
    /// Takes the next line of the log.
    pub fn line(&mut self, line: &str) {
        let mut items = Vec::new();
        self.reader.line(Position::ZERO, line, &mut items);
        for item in items {
            match item.boundary {
                Boundary::Opens => self.open_prompt = Some(short_hash(item.text.as_bytes())),
                Boundary::Closes => self.open_prompt = None,
                Boundary::Within => {}
            }
        }
    }
}

/// What a turn came to so far.
#[derive(Debug, Default)]
struct Turn {
    prompt: Option<u64>,
    started_at: Option<Moment>,
    final_text: String,
    responses: u64,
    tokens: Usage,
    cost: Money,
    snapshot: Option<Snapshot>,
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
    turn: Turn,
    answered: VecDeque<u64>,
    last_at: Option<Moment>,
}

type Recorded<S> = Result<(), RecordError<<S as Sink>::Error>>;

impl Recorder {
    /// A recorder for a session whose log holds what `resumed` has read of it.
    pub fn new(options: Options, resumed: &Known) -> Self {
        Self {
            session_id: options.session.clone(),
            prompt: options.prompt.clone(),
            turn: Turn { prompt: resumed.open_prompt, ..Turn::default() },
            answered: VecDeque::new(),
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
        let text = if Object::parse(text).is_some() { Cow::Borrowed(text) } else { Cow::Owned(mend(text)) };
        // Between tokens a newline is white space to JSON; in a log it would make two lines of one.
        let flat = if text.contains(['\n', '\r']) { Cow::Owned(text.replace(['\n', '\r'], " ")) } else { text };
        if let Some(event) = Object::parse(&flat) {
            return self.object(&event, &flat, sink);
        }
        let at = self.begin(None, sink)?;
        put(&self.frame(&milliseconds(at)).remark("output", json.trim()), sink)
    }

    /// Ends the recording. A turn that came to its end gets its result; one that was cut off gets none.
    pub fn finish<S: Sink>(&mut self, sink: &mut S) -> Recorded<S> {
        if self.prompt.is_some() {
            self.begin(None, sink)?;
        }
        self.settle(sink)
    }

    /// The runtime's session, as far as it is known.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
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
            "fatal_error" => self.fatal(event, at, sink),
            "usage_snapshot" => {
                self.turn.snapshot = Some(snapshot(event));
                self.turn.stop_reason = event.word("stopReason").or_else(|| self.turn.stop_reason.take());
                self.turn.ended = true;
                Ok(())
            }
            "agent_end" => {
                self.agent_end(event);
                Ok(())
            }
            "auto_retry_start" | "auto_retry_end" => {
                let remark = retry(event, &kind);
                put(&self.frame(&milliseconds(at)).remark(&kind, &remark), sink)
            }
            "extension_status" | "skills_status" => {
                let frame = ["type", "timestamp", "sessionId", "subtype"];
                let raw = |value| serde_json::from_str::<&RawValue>(value).ok();
                let told = event.members().filter(|(name, _)| !frame.contains(name));
                let members = told.filter_map(|(name, value)| Some((name, raw(value)?))).collect();
                put(&self.frame(&milliseconds(at)).status(&kind, members), sink)
            }
            // The session is named by now; the others are beginnings and parts of what its end tells as a whole.
            "session"
            | "agent_start"
            | "turn_start"
            | "turn_end"
            | "message_start"
            | "message_update"
            | "tool_execution_start"
            | "tool_execution_update" => Ok(()),
            _ => self.keep(if kind.is_empty() { "event" } else { &kind }, text, at, sink),
        }
    }

    /// The instant of what comes now; the prompt is written before anything else is.
    fn begin<S: Sink>(&mut self, at: Option<Moment>, sink: &mut S) -> Result<Moment, RecordError<S::Error>> {
        let at = at.unwrap_or_else(|| self.options.clock.now());
        self.last_at = Some(at);
        if let Some(prompt) = self.prompt.take() {
            self.prompted(&prompt, at, sink)?;
        }
        self.turn.started_at.get_or_insert(at);
        Ok(at)
    }

    /// What was asked. The prompt that is being answered already is told again by some runtimes.
    fn prompted<S: Sink>(&mut self, text: &str, at: Moment, sink: &mut S) -> Recorded<S> {
        let hash = short_hash(text.as_bytes());
        if self.turn.prompt == Some(hash) && !self.turn.ended {
            return Ok(());
        }
        self.settle(sink)?;
        self.turn = Turn { prompt: Some(hash), started_at: Some(at), ..Turn::default() };
        put(&self.frame(&milliseconds(at)).user(text), sink)
    }

    fn message<S: Sink>(&mut self, event: &Object<'_>, text: &str, at: Moment, sink: &mut S) -> Recorded<S> {
        let Some(message) = event.object("message") else { return self.keep("message_end", text, at, sink) };
        match message.text("role").as_deref() {
            Some("assistant") => self.assistant(&message, at, sink),
            Some("user") => {
                let content = message.raw("content").unwrap_or("null");
                self.prompted(&content_text(content), at, sink)?;
                // The envelope has no place for pictures in a prompt.
                if is_text(content) { Ok(()) } else { self.keep("message_end", text, at, sink) }
            }
            Some("toolResult") => {
                let Some(id) = message.word("toolCallId") else { return self.keep("message_end", text, at, sink) };
                let raw = message.raw("content").unwrap_or("null");
                let content = if is_text(raw) { content_text(raw) } else { raw.into() };
                self.answer(&id, &content, message.flag("isError"), at, sink)
            }
            _ => self.keep("message_end", text, at, sink),
        }
    }

    fn assistant<S: Sink>(&mut self, message: &Object<'_>, at: Moment, sink: &mut S) -> Recorded<S> {
        let raw = message.raw("content").unwrap_or("null");
        let parts: Vec<Part> = match super::object::elements(raw) {
            Some(parts) => parts.into_iter().filter_map(|part| Part::of(part, self.options.keep_thinking)).collect(),
            None => vec![Part::Text(content_text(raw).into_owned())],
        };
        let said: String = parts.iter().filter_map(Part::text).collect();
        let usage = message.object("usage").map(|usage| (tokens(&usage), usage.object("cost")));
        let turn = &mut self.turn;
        turn.responses += 1;
        turn.stop_reason = message.word("stopReason").or_else(|| turn.stop_reason.take());
        if let Some((tokens, cost)) = &usage {
            turn.tokens = sum(turn.tokens, *tokens);
            turn.cost += cost.as_ref().and_then(|cost| Money::parse(cost.raw("total")?)).unwrap_or_default();
        }
        if !said.is_empty() {
            turn.final_text = said;
        }
        let blocks: Vec<Block<'_>> = parts.iter().filter_map(Part::block).collect();
        let usage = usage.map(|(tokens, _)| tokens).filter(|tokens| *tokens != Usage::default());
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

    fn tool<S: Sink>(&mut self, event: &Object<'_>, text: &str, at: Moment, sink: &mut S) -> Recorded<S> {
        let Some(id) = event.word("toolCallId").or_else(|| event.word("id")) else {
            return self.keep("tool_execution_end", text, at, sink);
        };
        let told = ["result", "output", "error"].iter().find_map(|name| event.some(name)).unwrap_or("\"\"");
        // A structure stays the JSON it is; only a string is decoded.
        let content = super::object::decode(told).unwrap_or(told.into());
        let failed = event.flag("isError");
        self.turn.tool_failed |= failed;
        self.answer(&id, &content, failed, at, sink)
    }

    /// What a tool answered; the first telling is written.
    fn answer<S: Sink>(&mut self, id: &str, content: &str, failed: bool, at: Moment, sink: &mut S) -> Recorded<S> {
        let hash = short_hash(id.as_bytes());
        if self.answered.contains(&hash) {
            return Ok(());
        }
        if self.answered.len() == ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(hash);
        let Some(shown) = shortened(content, self.options.tool_result_bytes_max) else {
            return put(&self.frame(&milliseconds(at)).tool_result(id, content, failed, None), sink);
        };
        let full = sink.blob(content).map_err(RecordError::Sink)?;
        put(&self.frame(&milliseconds(at)).tool_result(id, &shown, failed, Some(&full)), sink)
    }

    fn fatal<S: Sink>(&mut self, event: &Object<'_>, at: Moment, sink: &mut S) -> Recorded<S> {
        let error = event.object("error");
        let told = error.as_ref().and_then(|error| error.word("message").or_else(|| error.word("name")));
        let told = told.or_else(|| event.word("error")).or_else(|| event.word("message"));
        (self.turn.failure, self.turn.ended) = (Some("error_fatal"), true);
        put(&self.frame(&milliseconds(at)).failure(told.as_deref().unwrap_or("fatal error")), sink)
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
    fn keep<S: Sink>(&mut self, kind: &str, text: &str, at: Moment, sink: &mut S) -> Recorded<S> {
        let raw: &RawValue = serde_json::from_str(text).map_err(RecordError::Json)?;
        put(&self.frame(&milliseconds(at)).system(kind, raw), sink)
    }

    /// Writes the result of a turn that came to its end, once.
    fn settle<S: Sink>(&mut self, sink: &mut S) -> Recorded<S> {
        let turn = std::mem::take(&mut self.turn);
        if !turn.ended {
            return Ok(());
        }
        let told = Snapshot { responses: turn.responses, tokens: turn.tokens, cost: turn.cost };
        let stats = turn.snapshot.unwrap_or(told);
        let subtype = match turn.failure {
            Some(failure) => failure,
            None if turn.tool_failed && turn.final_text.is_empty() => "error_tool",
            None => "success",
        };
        let at = self.last_at.unwrap_or_else(|| self.options.clock.now());
        let micros = at.as_micros() - turn.started_at.unwrap_or(at).as_micros();
        let cost: Box<RawValue> =
            RawValue::from_string(stats.cost.to_string()).or_else(|_| to_raw_value(&0)).map_err(RecordError::Json)?;
        let ending = Ending {
            subtype,
            text: &turn.final_text,
            turns: stats.responses,
            cost: &cost,
            tokens: stats.tokens,
            stop_reason: turn.stop_reason.as_deref(),
            duration_ms: u64::try_from(micros / 1000).unwrap_or_default(),
        };
        put(&self.frame(&milliseconds(at)).result(&ending), sink)
    }

    fn frame<'a>(&'a self, timestamp: &'a str) -> Builder<'a> {
        Builder { timestamp, session_id: self.session_id.as_deref() }
    }
}

fn put<S: Sink>(line: &Line<'_>, sink: &mut S) -> Recorded<S> {
    let text = line.to_text().map_err(RecordError::Json)?;
    if !matches!(check_object(&text), Err(JsonFault::TooDeep(_))) {
        return sink.line(&text).map_err(RecordError::Sink);
    }
    // A log takes no line that nests so deep; as text it takes it.
    let frame = Builder { timestamp: line.timestamp(), session_id: None };
    let flat = frame.remark("too_deep", &text).to_text().map_err(RecordError::Json)?;
    sink.line(&flat).map_err(RecordError::Sink)
}
