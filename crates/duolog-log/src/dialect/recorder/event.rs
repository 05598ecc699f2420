//! Decodes the content of a runtime's events.

use duolog_types::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::dialect::envelope::{Block, Usage};
use crate::dialect::money::Money;
use crate::dialect::object::{Object, elements};

/// Maximum number of characters of a reason in a remark.
const REASON_CHARS_MAX: usize = 200;

/// The runtime's counts of a turn. 0 means unknown: runtimes write it for what they did not count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    responses: u64,
    tokens: Usage,
    cost: Money,
}

impl Snapshot {
    /// Merges a later snapshot: its known values replace the earlier ones.
    pub(super) fn merge(&mut self, event: &Object<'_>) {
        let stats = event.object("stats").unwrap_or_else(|| event.clone());
        let later = Self {
            responses: stats.count("assistantMessages").or_else(|| stats.count("turns")).unwrap_or_default(),
            tokens: stats.object("tokens").map(|counted| tokens(&counted)).unwrap_or_default(),
            cost: stats.raw("cost").and_then(Money::parse).unwrap_or_default(),
        };
        let (responses, tokens, cost) = later.or_counted(self.responses, self.tokens, self.cost);
        *self = Self { responses, tokens, cost };
    }

    /// Returns the counts of the snapshot, and the given ones where it has none.
    pub(super) fn or_counted(&self, responses: u64, tokens: Usage, cost: Money) -> (u64, Usage, Money) {
        let known = |stated: u64, counted: u64| if stated == 0 { counted } else { stated };
        let tokens = Usage {
            input_tokens: known(self.tokens.input_tokens, tokens.input_tokens),
            output_tokens: known(self.tokens.output_tokens, tokens.output_tokens),
            cache_read_input_tokens: known(self.tokens.cache_read_input_tokens, tokens.cache_read_input_tokens),
            cache_creation_input_tokens: known(
                self.tokens.cache_creation_input_tokens,
                tokens.cache_creation_input_tokens,
            ),
        };
        (known(self.responses, responses), tokens, if self.cost == Money::ZERO { cost } else { self.cost })
    }
}

/// A part of the agent's message, in the runtime's terms.
pub(super) enum Part {
    Text(String),
    Thinking(String),
    Call {
        id: String,
        name: String,
        input: Box<RawValue>,
    },
    /// A part without a block type in the envelope.
    Other(String),
}

impl Part {
    pub(super) fn of(raw: &str, keep_thinking: bool) -> Option<Self> {
        let other = || Some(Self::Other(raw.to_owned()));
        let Some(part) = Object::parse(raw) else { return other() };
        match part.text("type").as_deref() {
            Some("text") => part.text("text").map_or_else(other, |text| Some(Self::Text(text.into_owned()))),
            Some("thinking") => {
                if !keep_thinking {
                    return None;
                }
                match part.word("thinking").or_else(|| part.word("text")) {
                    Some(thought) => Some(Self::Thinking(thought)),
                    // Empty thinking has no content to keep.
                    None if part.has("thinking") => None,
                    None => other(),
                }
            }
            Some("toolCall" | "tool_use") => {
                let input = part.some("arguments").or_else(|| part.some("input")).unwrap_or("{}");
                match (part.word("id"), part.word("name"), RawValue::from_string(input.to_owned())) {
                    (Some(id), Some(name), Ok(input)) => Some(Self::Call { id, name, input }),
                    _ => other(),
                }
            }
            _ => other(),
        }
    }

    pub(super) fn block(&self) -> Option<Block<'_>> {
        match self {
            Self::Text(text) => Some(Block::Text { text }),
            Self::Thinking(thinking) => Some(Block::Thinking { thinking }),
            Self::Call { id, name, input } => Some(Block::ToolUse { id, name, input }),
            Self::Other(_) => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn other(&self) -> Option<&str> {
        if let Self::Other(raw) = self { Some(raw) } else { None }
    }
}

/// Returns true if a message's content is text only.
pub(super) fn is_text(content: &str) -> bool {
    let text_part = |part: &&str| Object::parse(part).is_some_and(|part| part.is("type", "text"));
    elements(content).is_none_or(|parts| parts.iter().all(text_part))
}

/// Returns a text shortened at a character boundary, with a note of how many characters were cut; `None` if it is short
/// enough.
pub(super) fn shortened(text: &str, bytes_max: usize) -> Option<String> {
    if text.len() <= bytes_max {
        return None;
    }
    let (shown, dropped) = text.split_at(text.floor_char_boundary(bytes_max));
    Some(format!("{shown}\n…[truncated {} chars]", dropped.chars().count()))
}

/// Returns the runtime's token counts.
pub(super) fn tokens(usage: &Object<'_>) -> Usage {
    let count = |name| usage.count(name).unwrap_or_default();
    Usage {
        input_tokens: count("input"),
        output_tokens: count("output"),
        cache_read_input_tokens: count("cacheRead"),
        cache_creation_input_tokens: count("cacheWrite"),
    }
}

pub(super) fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        input_tokens: one.input_tokens.saturating_add(other.input_tokens),
        output_tokens: one.output_tokens.saturating_add(other.output_tokens),
        cache_read_input_tokens: one.cache_read_input_tokens.saturating_add(other.cache_read_input_tokens),
        cache_creation_input_tokens: one.cache_creation_input_tokens.saturating_add(other.cache_creation_input_tokens),
    }
}

/// Returns the remark about a retry, and true if the reason was cut.
pub(super) fn retry(event: &Object<'_>, kind: &str) -> (String, bool) {
    let count = |name| event.count(name).unwrap_or_default();
    let cut = |text: String| text.chars().take(REASON_CHARS_MAX).collect::<String>();
    let is_long = |text: String| text.chars().nth(REASON_CHARS_MAX).is_some();
    let is_cut = ["errorMessage", "finalError"].iter().any(|name| event.word(name).is_some_and(is_long));
    if kind == "auto_retry_start" {
        let (attempt, of, seconds) = (count("attempt"), count("maxAttempts"), count("delayMs").div_ceil(1000));
        let why = event.word("errorMessage").map(cut).unwrap_or_default();
        return (format!("Auto-retry {attempt}/{of} in {seconds}s: {why}"), is_cut);
    }
    let remark = match event.word("finalError").map(cut) {
        Some(why) => format!("Auto-retry gave up after {} attempts: {why}", count("attempt")),
        None => format!("Auto-retry recovered after {} attempts", count("attempt")),
    };
    (remark, is_cut)
}

/// Returns true if a fatal error has more than its message.
pub(super) fn fatal_has_more(event: &Object<'_>) -> bool {
    let frame = ["type", "timestamp", "sessionId", "error", "message"];
    let has_name = |error: &Object<'_>| error.word("name").is_some_and(|name| name != "Error" && error.has("message"));
    let error = event.object("error");
    let more = |error: &Object<'_>| error.members().any(|(name, _)| !["message", "name"].contains(&name));
    event.members().any(|(name, _)| !frame.contains(&name))
        || error.as_ref().is_some_and(|error| more(error) || has_name(error))
        || (event.has("message") && event.has("error"))
}

/// Merges a snapshot into an earlier one, member by member; 0 means unknown. `None` if one of them cannot be decoded.
pub(super) fn merged(earlier: &str, later: &str) -> Option<String> {
    let mut merged_value: Value = serde_json::from_str(earlier).ok()?;
    merge(&mut merged_value, serde_json::from_str(later).ok()?);
    serde_json::to_string(&merged_value).ok()
}

fn merge(merged_value: &mut Value, later: Value) {
    match (merged_value, later) {
        (Value::Object(merged_value), Value::Object(later)) => {
            for (name, value) in later {
                match merged_value.get_mut(&name) {
                    Some(there) => merge(there, value),
                    None => drop(merged_value.insert(name, value)),
                }
            }
        }
        (Value::Number(_), Value::Number(zero)) if zero.as_f64() == Some(0.0) => {}
        (_, Value::Null) => {}
        (merged_value, later) => *merged_value = later,
    }
}

/// Formats a timestamp as ISO text with milliseconds, as Last Light does.
pub(super) fn milliseconds(at: Timestamp) -> String {
    let mut text = at.to_string();
    // The text always ends with `.ssssssZ`: drop three digits.
    text.truncate(text.len().saturating_sub(4));
    text + "Z"
}
