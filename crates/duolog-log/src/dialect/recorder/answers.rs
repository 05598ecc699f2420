//! Which tool results were told already. Some runtimes tell each result twice: at the end of the execution, and as a
//! message.

use std::collections::VecDeque;

use super::event::is_text;
use crate::dialect::object::Object;
use crate::dialect::scene::short_hash;
use crate::dialect::timeline::content_text;

/// How many results that were told once are remembered.
const TOLD_MAX: usize = 256;

/// The event that tells a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// `tool_execution_end`.
    Execution,
    /// `message_end` with the role `toolResult`.
    Message,
}

/// A result that was told: by which channel, of which call, what, and whether the call failed.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    channel: Channel,
    call: u64,
    content: u64,
    failed: bool,
}

/// The results of the turn that one channel told and the other has not told yet, oldest first.
///
/// A result is a repetition only if the other channel told the same content for the same call in this turn, and that it
/// failed or not as well; each telling is matched once: call ids may be used again, within a turn and after it.
#[derive(Debug, Default)]
pub(super) struct Answers {
    told: VecDeque<Answer>,
}

impl Answers {
    /// Takes a result, given as raw JSON. Returns true if the other channel told it before.
    pub(super) fn is_repeated(&mut self, channel: Channel, call_id: &str, raw: &str, failed: bool) -> bool {
        let answer = Answer { channel, call: short_hash(call_id.as_bytes()), content: content_hash(raw), failed };
        let key = |answer: &Answer| (answer.call, answer.content, answer.failed);
        let other = |told: &Answer| told.channel != channel && key(told) == key(&answer);
        if let Some(place) = self.told.iter().position(other) {
            self.told.remove(place);
            return true;
        }
        if self.told.len() == TOLD_MAX {
            self.told.pop_front();
        }
        self.told.push_back(answer);
        false
    }

    /// Forgets all results: a turn began.
    pub(super) fn clear(&mut self) {
        self.told.clear();
    }

    /// Forgets the results of a call: its id is used again.
    pub(super) fn called(&mut self, call_id: &str) {
        let call = short_hash(call_id.as_bytes());
        self.told.retain(|told| told.call != call);
    }
}

/// The hash of what was answered, in whichever shape: one channel wraps the content in an object.
fn content_hash(raw: &str) -> u64 {
    let content = Object::parse(raw).and_then(|object| object.some("content")).unwrap_or(raw);
    if is_text(content) { short_hash(content_text(content).as_bytes()) } else { short_hash(content.as_bytes()) }
}
