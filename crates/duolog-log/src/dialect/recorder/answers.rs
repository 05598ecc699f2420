//! Finds repeated tool results. Some runtimes send each result twice: at the end of the execution, and as a message.

use std::collections::VecDeque;

use super::event::is_text;
use crate::dialect::object::Object;
use crate::dialect::scene::short_hash;
use crate::dialect::timeline::content_text;

/// Maximum number of results that are remembered for a repetition.
const PENDING_MAX: usize = 256;

/// The event that contains a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// `tool_execution_end`.
    Execution,
    /// `message_end` with the role `toolResult`.
    Message,
}

/// A result: its channel, the hashes of its call and content, and whether the call failed.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    channel: Channel,
    call: u64,
    content: u64,
    failed: bool,
}

/// The results of the turn that only one channel sent so far, oldest first.
///
/// A result is a repetition only if the other channel sent the same content and the same failure for the same call in
/// this turn. Each result is matched once: call ids may be reused, within a turn and after it.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pending: VecDeque<Answer>,
}

impl Answers {
    /// Adds a result, given as raw JSON. Returns true if the other channel sent it before.
    pub(super) fn is_repeated(&mut self, channel: Channel, call_id: &str, raw: &str, failed: bool) -> bool {
        let answer = Answer { channel, call: short_hash(call_id.as_bytes()), content: content_hash(raw), failed };
        let key = |answer: &Answer| (answer.call, answer.content, answer.failed);
        let other = |pending: &Answer| pending.channel != channel && key(pending) == key(&answer);
        if let Some(place) = self.pending.iter().position(other) {
            self.pending.remove(place);
            return true;
        }
        if self.pending.len() == PENDING_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back(answer);
        false
    }

    /// Forgets all results: a new turn begins.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Forgets the results of a call: its id is reused.
    pub(super) fn forget_call(&mut self, call_id: &str) {
        let call = short_hash(call_id.as_bytes());
        self.pending.retain(|pending| pending.call != call);
    }
}

/// Returns the hash of a result's content, in either form: one channel wraps it in an object.
fn content_hash(raw: &str) -> u64 {
    let content = Object::parse(raw).and_then(|object| object.some("content")).unwrap_or(raw);
    if is_text(content) { short_hash(content_text(content).as_bytes()) } else { short_hash(content.as_bytes()) }
}
