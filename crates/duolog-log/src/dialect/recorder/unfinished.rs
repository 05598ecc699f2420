//! Messages and calls that a runtime started and did not finish: they are written when the input ends.

use std::collections::VecDeque;

use duolog_types::Timestamp;
use serde_json::value::RawValue;

use super::event::milliseconds;
use super::{Recorded, Recorder, Sink, put};
use crate::dialect::envelope::Block;
use crate::dialect::object::Object;
use crate::dialect::scene::short_hash;

/// The remark after a message without an end.
pub(super) const MESSAGE_CUT: &str = "the input ended before this message did";

/// Maximum number of remembered open calls, and of written calls.
const CALLS_MAX: usize = 256;

/// A call without a result.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) id: String,
    /// The event that started it.
    pub(super) start: Option<String>,
    /// The last event with its output so far.
    pub(super) update: Option<String>,
}

/// The unfinished message and calls.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// The last event that contains the unfinished message as a whole.
    message: Option<String>,
    /// The events with only a part of that message, after the one above.
    parts: Vec<String>,
    calls: VecDeque<OpenCall>,
    /// The hashes of calls that are in a line already.
    written: VecDeque<u64>,
}

impl Unfinished {
    /// Adds the start or a part of a message.
    pub(super) fn message(&mut self, event: &Object<'_>, text: &str) {
        if event.object("message").is_some() {
            self.message = Some(text.to_owned());
            self.parts.clear();
        } else {
            self.parts.push(text.to_owned());
        }
    }

    /// Returns the number of bytes of the parts.
    pub(super) fn part_bytes(&self) -> usize {
        self.parts.iter().map(String::len).sum()
    }

    /// Takes the unfinished message and the parts that it does not contain.
    pub(super) fn take_message(&mut self) -> (Option<String>, Vec<String>) {
        (self.message.take(), self.take_parts())
    }

    /// Takes the parts.
    pub(super) fn take_parts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.parts)
    }

    /// Adds the start of a call. Returns the oldest open call if there are too many.
    pub(super) fn start_call(&mut self, id: &str, text: &str) -> Option<OpenCall> {
        self.finish_call(id);
        self.open(OpenCall { id: id.to_owned(), start: Some(text.to_owned()), update: None })
    }

    /// Adds the output of a call so far. Returns the oldest open call if there are too many.
    pub(super) fn update_call(&mut self, id: &str, text: &str) -> Option<OpenCall> {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            call.update = Some(text.to_owned());
            return None;
        }
        self.open(OpenCall { id: id.to_owned(), start: None, update: Some(text.to_owned()) })
    }

    fn open(&mut self, call: OpenCall) -> Option<OpenCall> {
        self.calls.push_back(call);
        if self.calls.len() > CALLS_MAX { self.calls.pop_front() } else { None }
    }

    /// Removes a call that has its result.
    pub(super) fn finish_call(&mut self, id: &str) {
        self.calls.retain(|call| call.id != id);
    }

    /// Takes the open calls, oldest first.
    pub(super) fn take_calls(&mut self) -> VecDeque<OpenCall> {
        std::mem::take(&mut self.calls)
    }

    /// Records that a line has the call.
    pub(super) fn mark_written(&mut self, id: &str) {
        if self.written.len() == CALLS_MAX {
            self.written.pop_front();
        }
        self.written.push_back(short_hash(id.as_bytes()));
    }

    /// Returns true if a line has the call.
    pub(super) fn is_written(&self, id: &str) -> bool {
        self.written.contains(&short_hash(id.as_bytes()))
    }
}

impl Recorder {
    /// Writes the unfinished message and calls when the input ended.
    pub(super) fn write_unfinished<S: Sink>(&mut self, sink: &mut S) -> Recorded<S> {
        let at = self.last_at.unwrap_or_else(|| self.options.clock.now());
        let (message, parts) = self.unfinished.take_message();
        if let Some(text) = &message
            && let Some(event) = Object::parse(text)
        {
            self.message(&event, text, at, sink)?;
        }
        for part in &parts {
            self.keep("message_update", part, at, sink)?;
        }
        if message.is_some() || !parts.is_empty() {
            put(&self.frame(&milliseconds(at)).remark("unfinished", MESSAGE_CUT), sink)?;
        }
        self.unfinished.take_calls().iter().try_for_each(|call| self.write_call(call, at, sink))
    }

    /// Writes a call without a result, its output so far, and a remark that it has no end.
    fn write_call<S: Sink>(&mut self, call: &OpenCall, at: Timestamp, sink: &mut S) -> Recorded<S> {
        let OpenCall { id, start, .. } = call;
        let started = start.as_deref().and_then(Object::parse);
        let name = started.as_ref().and_then(|event| event.word("toolName").or_else(|| event.word("name")));
        let input =
            started.as_ref().and_then(|event| ["args", "arguments", "input"].iter().find_map(|it| event.some(it)));
        let is_written = self.unfinished.is_written(id);
        if let (false, Some(name), Ok(input)) =
            (is_written, &name, serde_json::from_str::<&RawValue>(input.unwrap_or("{}")))
        {
            let block = Block::ToolUse { id, name, input };
            put(&self.frame(&milliseconds(at)).assistant(self.options.model.as_deref(), vec![block], None), sink)?;
            self.unfinished.mark_written(id);
            let update = OpenCall { id: id.clone(), start: None, update: call.update.clone() };
            self.keep_call(&update, at, sink)?;
        } else {
            let start = start.clone().filter(|_| !is_written);
            self.keep_call(&OpenCall { id: id.clone(), start, update: call.update.clone() }, at, sink)?;
        }
        let cut = format!("the input ended before tool call {id} had a result");
        put(&self.frame(&milliseconds(at)).remark("unfinished", &cut), sink)
    }

    /// Keeps the events of an open call unchanged.
    pub(super) fn keep_call<S: Sink>(&mut self, call: &OpenCall, at: Timestamp, sink: &mut S) -> Recorded<S> {
        if let Some(start) = &call.start {
            self.keep("tool_execution_start", start, at, sink)?;
        }
        match &call.update {
            Some(update) => self.keep("tool_execution_update", update, at, sink),
            None => Ok(()),
        }
    }
}
