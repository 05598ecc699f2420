//! A log as a conversation: one object per item, and one at the end of each turn.

use duolog::SessionId;
use duolog::log::{self, Boundary, Full};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Usd;
use crate::schema::ITEM_KINDS;

/// An item of a log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TimelineItem {
    /// Kind of the item.
    #[schemars(extend("enum" = ITEM_KINDS))]
    pub kind: &'static str,
    /// Position of its line.
    pub position: u64,
    /// Index of the item in its line, from 0.
    pub part: u32,
    /// Position of its turn; null before the first turn.
    pub turn_position: Option<u64>,
    /// Effect on its turn.
    #[schemars(extend("enum" = ["opens", "closes", null]))]
    pub boundary: Option<&'static str>,
    /// Timestamp in the line.
    pub occurred_at: Option<String>,
    /// Role in the line.
    pub role: Option<String>,
    /// The agent.
    pub author: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Tool.
    pub tool: Option<String>,
    /// Id that links a tool result to its call.
    pub call_id: Option<String>,
    /// Subtype, step or event in the line.
    pub subtype: Option<String>,
    /// The text.
    pub text: String,
    /// Reference to the full text if the line has only a part: `blob:<sha256>`.
    pub full_text_ref: Option<String>,
    /// If the full text was requested: `found` if it is in `text`, or the reason. `foreign` if its reference is not one of
    /// ours.
    #[schemars(extend("enum" = ["found", "missing", "damaged", "too_large", "foreign", null]))]
    pub full_text_status: Option<&'static str>,
    /// Iteration of a multi-agent run.
    pub round: Option<u64>,
    /// True if it belongs to a side conversation.
    pub is_sidechain: bool,
    /// True if the item reports a failure.
    pub is_error: bool,
    /// Usage of the turn, if the line reports it.
    pub result: Option<TimelineResult>,
}

/// The reported usage of a turn.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TimelineResult {
    /// Number of model responses.
    pub turns: Option<u64>,
    /// Cost.
    pub cost_usd: Option<Usd>,
    /// Duration.
    pub duration_ms: Option<u64>,
    /// Input tokens, without cache reads and writes.
    pub input_tokens: u64,
    /// Input tokens written to a cache.
    pub cache_creation_input_tokens: u64,
    /// Input tokens read from a cache.
    pub cache_read_input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
}

/// The end of a turn.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TurnEnd {
    /// `turn_end`.
    #[schemars(extend("enum" = ["turn_end"]))]
    pub kind: &'static str,
    /// Position of the turn.
    pub turn_position: u64,
    /// Position after the turn.
    pub end_position: u64,
    /// True if the turn has ended.
    pub is_ended: bool,
    /// True if the turn has no end although its dialect marks ends.
    pub is_cut: bool,
    /// True if no other turn follows, so the turn may continue.
    pub is_last: bool,
    /// Items.
    pub item_count: u64,
    /// Tool calls.
    pub tool_call_count: u64,
    /// Hidden items.
    pub hidden_item_count: u64,
    /// Hidden items that only report progress.
    pub progress_item_count: u64,
}

/// The output of `log replay`: one object per line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ReplayEntry {
    /// An item.
    Item(Box<TimelineItem>),
    /// The end of a turn.
    TurnEnd(TurnEnd),
}

/// The output of `log stream`: one object per line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StreamEntry {
    /// An item.
    Item(Box<Sourced<TimelineItem>>),
    /// The end of a turn.
    TurnEnd(Sourced<TurnEnd>),
    /// A notice about a log.
    Notice(Sourced<StreamNotice>),
}

/// The log of an entry.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Source {
    /// The session; null for a file of another program.
    pub session_id: Option<String>,
    /// The name of the session.
    pub session_name: Option<String>,
    /// Path of the log, relative to the followed directory; null for the directory itself.
    pub path: Option<String>,
}

impl From<&log::Source> for Source {
    fn from(source: &log::Source) -> Self {
        Self {
            session_id: source.session.as_ref().map(SessionId::to_string),
            session_name: source.name.clone(),
            path: Some(source.path.to_string_lossy().into_owned()),
        }
    }
}

/// An entry and its log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Sourced{T}")]
pub struct Sourced<T> {
    /// The log.
    #[serde(flatten)]
    pub source: Source,
    /// The entry.
    #[serde(flatten)]
    pub entry: T,
}

/// A notice about a log or about the followed directory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamNotice {
    /// `notice`.
    #[schemars(extend("enum" = ["notice"]))]
    pub kind: &'static str,
    /// Event. After `reset`, the lines after `position` are repeated. `missing`: the directory does not exist.
    #[schemars(extend("enum" = ["damaged", "reset", "lost", "gone", "skipped", "missing"]))]
    pub notice: &'static str,
    /// Start position.
    pub position: Option<u64>,
    /// End position.
    pub end_position: Option<u64>,
    /// Reason.
    pub reason: Option<String>,
}

impl StreamNotice {
    /// Creates a notice without a position.
    pub fn new(notice: &'static str) -> Self {
        Self { kind: "notice", notice, position: None, end_position: None, reason: None }
    }
}

impl From<&log::Notice> for StreamNotice {
    fn from(notice: &log::Notice) -> Self {
        match notice {
            log::Notice::Damaged { start, end, reason } => Self {
                position: Some(start.0),
                end_position: Some(end.0),
                reason: Some(reason.clone()),
                ..Self::new("damaged")
            },
            log::Notice::Reset { to, why } => {
                let reason = match why {
                    log::ResetReason::Missing => "the file is gone",
                    log::ResetReason::Shorter => "the file was cut",
                    log::ResetReason::Replaced => "the file was replaced",
                };
                Self { position: Some(to.0), reason: Some(reason.to_owned()), ..Self::new("reset") }
            }
            log::Notice::Lost(loss) => Self { reason: Some(loss.to_string()), ..Self::new("lost") },
            log::Notice::LostEarlier(loss) => Self { reason: Some(loss.to_string()), ..Self::new("lost") },
            log::Notice::Gone => Self::new("gone"),
            log::Notice::Skipped { reason } => Self { reason: Some(reason.clone()), ..Self::new("skipped") },
            log::Notice::Missing => Self::new("missing"),
        }
    }
}

impl TimelineItem {
    /// Creates an item with its turn, the usage of the turn, and the full text if it was requested.
    pub fn of(
        item: &log::TimelineItem,
        turn: Option<log::TurnAt>,
        ending: Option<&log::Ending>,
        full: Option<&Full>,
    ) -> Self {
        let full_text_status = full.map(|full| match full {
            Full::Found(_) => "found",
            Full::Missing => "missing",
            Full::Damaged => "damaged",
            Full::TooLarge(_) => "too_large",
            Full::Elsewhere => "foreign",
        });
        Self {
            kind: item.kind.word(),
            position: item.position.0,
            part: item.part,
            turn_position: turn.map(|turn| turn.start.0),
            boundary: match item.boundary {
                Boundary::Opens => Some("opens"),
                Boundary::Closes => Some("closes"),
                Boundary::Within => None,
            },
            occurred_at: item.at.map(|at| at.to_string()),
            role: item.role.clone(),
            author: item.author.clone(),
            model: item.model.clone(),
            tool: item.tool.clone(),
            call_id: item.call_id.clone(),
            subtype: item.what.clone(),
            text: if let Some(Full::Found(text)) = full { text.clone() } else { item.text.clone() },
            full_text_ref: item.full.clone(),
            full_text_status,
            round: item.round,
            is_sidechain: item.sidechain,
            is_error: item.failed,
            result: ending.map(TimelineResult::from),
        }
    }
}

impl From<&log::Ending> for TimelineResult {
    fn from(ending: &log::Ending) -> Self {
        let tokens = &ending.tokens;
        Self {
            turns: ending.responses,
            cost_usd: ending.cost.map(Usd),
            duration_ms: ending.duration_ms,
            input_tokens: tokens.input,
            cache_creation_input_tokens: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            cache_read_input_tokens: tokens.cache_read,
            output_tokens: tokens.output,
        }
    }
}

impl From<&log::TurnEnd> for TurnEnd {
    fn from(end: &log::TurnEnd) -> Self {
        Self {
            kind: "turn_end",
            turn_position: end.turn.start.0,
            end_position: end.turn.end.0,
            is_ended: end.turn.is_complete(),
            is_cut: end.is_cut,
            is_last: end.is_last,
            item_count: end.turn.items,
            tool_call_count: end.turn.tool_calls,
            hidden_item_count: end.left_out,
            progress_item_count: end.progress,
        }
    }
}
