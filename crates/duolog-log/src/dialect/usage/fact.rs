//! The usage in single lines.

use duolog_types::Timestamp;
use duolog_types::limits::{MODEL_BYTES_MAX, USAGE_COST_MAX, USAGE_STREAM_MODELS_MAX, USAGE_TOKENS_MAX};
use serde::{Deserialize, Serialize};

use super::claim::Claim;
use super::tokens::Tokens;
use crate::dialect::codex;
use crate::dialect::money::Money;
use crate::dialect::object::{Object, repair_json};
use crate::dialect::scene::short_hash;
use crate::dialect::stream;

/// The usage in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageFact {
    /// A response of a model, or a part of one.
    Response(Response),
    /// The usage of a turn, from the line that ends it.
    Ending {
        /// Its tokens.
        tokens: Tokens,
        /// Its cost; `None` if the line has no cost, or 0 for a turn that cannot have been free.
        cost: Option<Money>,
        /// The usage by model, if the line has it.
        models: Vec<ModelTotal>,
        /// True for a stream of Claude Code, whose totals may be cumulative over several turns.
        is_stream: bool,
        /// The session of the agent that it names.
        stream: Option<u64>,
        /// The key of the result, equal in every line and log that contains it; `None` if it cannot be identified.
        key: Option<u64>,
        /// The timestamp.
        at: Option<Timestamp>,
    },
    /// Totals of the session so far.
    Running {
        /// The totals.
        total: Option<Tokens>,
        /// The usage of the last response.
        last: Option<Tokens>,
        /// The model, if the line names it.
        model: Option<String>,
        /// True if the totals are those of a thread of `codex exec`.
        is_exec: bool,
        /// The timestamp.
        at: Option<Timestamp>,
    },
    /// The model from here on.
    Model(String),
    /// The start of a process of Claude Code. A turn that an earlier process of the session left open has no end.
    Started {
        /// The session of the agent that it names.
        stream: Option<u64>,
        /// The model, if the line names it.
        model: Option<String>,
    },
    /// The thread of `codex exec` to which the following totals belong.
    Thread {
        /// Its id.
        id: String,
        /// The model, if the line names it.
        model: Option<String>,
    },
    /// The start of a session.
    Began {
        /// Its id.
        thread: Option<String>,
        /// The session that it was forked from and may replay.
        parent: Option<String>,
    },
}

/// The usage of one model, from the line that ends a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTotal {
    /// The model.
    pub model: String,
    /// Its tokens.
    pub tokens: Tokens,
    /// Its cost.
    pub cost: Option<Money>,
}

/// A response of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The model.
    pub model: Option<String>,
    /// The response's own id.
    pub response_id: Option<String>,
    /// The id of its request.
    pub request_id: Option<String>,
    /// The session of the agent that its line names, if the line is from a stream.
    pub stream: Option<u64>,
    /// The timestamp.
    pub at: Option<Timestamp>,
    /// True if it belongs to a side conversation.
    pub sidechain: bool,
    /// Its tokens.
    pub tokens: Tokens,
    /// Its cost, if the file states one.
    pub cost: Option<Money>,
}

impl Response {
    /// Returns the claim of this response. Two lines with the same key, in one log or in several, are the same
    /// response; the one with the larger weight counts: the main conversation before a side one, then the larger count.
    /// `None` if it has no id.
    pub fn claim(&self) -> Option<Claim> {
        let id = self.response_id.as_ref()?;
        let key = short_hash(format!("{id}\0{}", self.request_id.as_deref().unwrap_or_default()).as_bytes());
        let main = if self.sidechain { 0 } else { Claim::MAIN };
        Some(Claim { key, weight: main + self.tokens.total().min(Claim::MAIN - 1) })
    }
}

/// Returns the usage in a line; `None` for most lines.
pub fn fact(line: &str) -> Option<UsageFact> {
    let text = line.trim();
    // Most lines contain none of these words, and are not parsed.
    let words = ["usage", "tokens", "\"model\"", "\"result\"", "session_meta", "thread.started"];
    if !words.iter().any(|word| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some()) {
        return None;
    }
    if let Some(object) = Object::parse(text) {
        return fact_of(&object);
    }
    fact_of(&Object::parse(&repair_json(text))?)
}

fn fact_of(line: &Object<'_>) -> Option<UsageFact> {
    if codex::is_rollout(line) {
        return codex_fact(line);
    }
    match line.text("type").as_deref() {
        // A line copied from another session has the same key as the original, and counts only if the original's log
        // does not. Without an id the two cannot be matched.
        Some("assistant") => {
            let response = response(line)?;
            let is_counted = response.response_id.is_some() || !line.has("forkedFrom");
            is_counted.then_some(UsageFact::Response(response))
        }
        Some("progress") => progress(line).map(UsageFact::Response),
        Some("result") => Some(ending(line)),
        Some("system") if line.is("subtype", "init") => {
            Some(UsageFact::Started { stream: stream_of(line), model: model_of(line) })
        }
        Some("thread.started") => Some(UsageFact::Thread { id: line.word("thread_id")?, model: model_of(line) }),
        Some("turn.completed") => {
            let total = codex_tokens(&line.object("usage")?);
            let (total, model) = (Some(total).filter(|total| total.total() > 0)?, model_of(line));
            let at = line.instant("timestamp");
            Some(UsageFact::Running { total: Some(total), last: None, model, is_exec: true, at })
        }
        _ => None,
    }
}

fn response(line: &Object<'_>) -> Option<Response> {
    let message = line.object("message")?;
    let usage = message.object("usage")?;
    let model = message.word("model");
    if model.as_deref() == Some("<synthetic>") {
        return None;
    }
    // The same model at another speed has another price.
    let fast = usage.is("speed", "fast");
    Some(Response {
        model: model.map(|model| if fast { format!("{model}-fast") } else { model }).filter(|model| is_model(model)),
        response_id: message.word("id"),
        request_id: line.word("requestId"),
        stream: stream_of(line),
        at: line.instant("timestamp"),
        sidechain: line.flag("isSidechain") || line.some("parent_tool_use_id").is_some(),
        tokens: claude_tokens(&usage),
        cost: line.raw("costUSD").and_then(cost),
    })
}

/// Returns a subagent's response in its parent's log. The subagent may have its own log, so only a response with an id
/// is counted.
fn progress(line: &Object<'_>) -> Option<Response> {
    let message = line.object("data")?.object("message")?;
    if !message.is("type", "assistant") {
        return None;
    }
    let response = response(&message).filter(|response| response.response_id.is_some())?;
    Some(Response { at: response.at.or_else(|| line.instant("timestamp")), sidechain: true, ..response })
}

fn claude_tokens(usage: &Object<'_>) -> Tokens {
    let count = |name| count(usage, name);
    let tokens = Tokens {
        input: count("input_tokens"),
        output: count("output_tokens"),
        cache_read: count("cache_read_input_tokens"),
        ..Tokens::default()
    };
    // The total, and its parts by cache lifetime; tokens without a part are kept for five minutes.
    let part = |name| usage.object("cache_creation").map_or(0, |kept| self::count(&kept, name));
    let (short, long) = (part("ephemeral_5m_input_tokens"), part("ephemeral_1h_input_tokens"));
    let rest = count("cache_creation_input_tokens").saturating_sub(short.saturating_add(long));
    Tokens { cache_write_5m: short + rest, cache_write_1h: long, ..tokens }
}

fn ending(line: &Object<'_>) -> UsageFact {
    let nested = line.object("usage").map(|usage| claude_tokens(&usage));
    let count = |name| count(line, name);
    let tokens = nested.unwrap_or_else(|| Tokens {
        input: count("total_input_tokens"),
        output: count("total_output_tokens"),
        cache_read: count("total_cache_read_input_tokens"),
        cache_write_5m: count("total_cache_creation_input_tokens"),
        ..Tokens::default()
    });
    // Writers without prices write 0.
    let cost = line.raw("total_cost_usd").and_then(cost).filter(|cost| *cost != Money::ZERO);
    let is_stream = stream::recognises(line);
    let models = model_totals(line).unwrap_or_default();
    let (stream, at) = (stream_of(line), line.instant("timestamp"));
    let key = stream.filter(|_| is_stream).and_then(|stream| result_key(line, stream));
    UsageFact::Ending { tokens, cost, models, is_stream, stream, key, at }
}

/// Returns the session of the agent that a line of a stream names.
fn stream_of(line: &Object<'_>) -> Option<u64> {
    line.word("session_id").map(|id| short_hash(id.as_bytes()))
}

/// Returns the key of a result in every log: its id, or else its duration and the fields of its turn. The result of a
/// resumed session has another id and another duration.
fn result_key(line: &Object<'_>, stream: u64) -> Option<u64> {
    let fields = ["duration_ms", "duration_api_ms", "num_turns", "total_cost_usd", "usage", "modelUsage"];
    let id = if let Some(id) = line.word("uuid") {
        id
    } else {
        line.raw("duration_ms")?;
        fields.map(|name| line.raw(name).unwrap_or_default()).join("\0")
    };
    Some(short_hash(format!("result\0{stream}\0{id}").as_bytes()))
}

/// Returns the usage by model; `None` if the line has none, or has one that no row can hold.
fn model_totals(line: &Object<'_>) -> Option<Vec<ModelTotal>> {
    let models = line.object("modelUsage")?;
    let mut totals = Vec::new();
    for (model, raw) in models.members() {
        let usage = Object::parse(raw).filter(|_| is_model(model) && totals.len() < USAGE_STREAM_MODELS_MAX)?;
        let count = |name| count(&usage, name);
        let tokens = Tokens {
            input: count("inputTokens"),
            output: count("outputTokens"),
            cache_read: count("cacheReadInputTokens"),
            cache_write_5m: count("cacheCreationInputTokens"),
            ..Tokens::default()
        };
        totals.push(ModelTotal { model: model.to_owned(), tokens, cost: usage.raw("costUSD").and_then(cost) });
    }
    Some(totals)
}

fn model_of(line: &Object<'_>) -> Option<String> {
    line.word("model").filter(|model| is_model(model))
}

/// Returns a token count. A number that no model reaches is damage; it is limited so that sums fit their columns.
fn count(object: &Object<'_>, name: &str) -> u64 {
    object.count(name).unwrap_or_default().min(USAGE_TOKENS_MAX)
}

/// Parses a stated cost; `None` if it is not plausible.
fn cost(number: &str) -> Option<Money> {
    Money::parse(number).filter(|cost| *cost <= Money::from_dollars(USAGE_COST_MAX))
}

/// Returns true if a model's name can be stored in a row: bounded, and without control characters.
pub(in crate::dialect) fn is_model(name: &str) -> bool {
    name.len() <= MODEL_BYTES_MAX && !name.chars().any(char::is_control)
}

fn codex_fact(line: &Object<'_>) -> Option<UsageFact> {
    let payload = line.object("payload")?;
    match line.text("type").as_deref() {
        Some("session_meta") => {
            let spawned =
                || payload.object("source")?.object("subagent")?.object("thread_spawn")?.word("parent_thread_id");
            let parent = payload.word("forked_from_id").or_else(|| payload.word("parent_thread_id")).or_else(spawned);
            Some(UsageFact::Began { thread: payload.word("id"), parent })
        }
        Some("turn_context") => model_of(&payload).map(UsageFact::Model),
        Some("event_msg") if payload.is("type", "token_count") => {
            let info = payload.object("info")?;
            let tokens = |name| info.object(name).map(|usage| codex_tokens(&usage)).filter(|used| used.total() > 0);
            let (total, last) = (tokens("total_token_usage"), tokens("last_token_usage"));
            (total.is_some() || last.is_some()).then(|| UsageFact::Running {
                total,
                last,
                model: None,
                is_exec: false,
                at: line.instant("timestamp"),
            })
        }
        _ => None,
    }
}

/// Returns the tokens of Codex, which includes cache reads and writes in the input.
fn codex_tokens(usage: &Object<'_>) -> Tokens {
    let count = |name| count(usage, name);
    let input = count("input_tokens");
    let cache_read = count("cached_input_tokens").min(input);
    let written = count("cache_write_input_tokens").min(input - cache_read);
    Tokens {
        input: input - cache_read - written,
        output: count("output_tokens"),
        cache_read,
        cache_write_5m: written,
        reasoning: count("reasoning_output_tokens"),
        ..Tokens::default()
    }
}
