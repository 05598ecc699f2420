//! A log as a conversation: one object per item, and one after each turn.

use duolog::SessionId;
use duolog::log::{self, Boundary, Full};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Usd;
use crate::schema::ITEM_KINDS;

/// One thing that happened.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TimelineItem {
    /// What it is.
    #[schemars(extend("enum" = ITEM_KINDS))]
    pub kind: &'static str,
    /// The first byte of its line.
    pub position: u64,
    /// The number of the item in its line, from 0.
    pub part: u32,
    /// The first byte of the turn that it is in; null before the first turn.
    pub turn_position: Option<u64>,
    /// What it does to its turn.
    #[schemars(extend("enum" = ["opens", "closes", null]))]
    pub boundary: Option<&'static str>,
    /// When it happened, as its line says.
    pub occurred_at: Option<String>,
    /// The role that its line names.
    pub role: Option<String>,
    /// The agent.
    pub author: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The tool that is called or answers.
    pub tool: Option<String>,
    /// What ties the answer of a tool to its call.
    pub call_id: Option<String>,
    /// The subtype, step or event that its line names.
    pub subtype: Option<String>,
    /// The text.
    pub text: String,
    /// Where the full text is, if the line holds a part: `blob:<sha256>`.
    pub full_text_ref: Option<String>,
    /// If the full text was asked for: `found` if `text` is it, or why it is not. `foreign` if its name is not one of
    /// ours.
    #[schemars(extend("enum" = ["found", "missing", "damaged", "too_large", "foreign", null]))]
    pub full_text_status: Option<&'static str>,
    /// The iteration of a multi-agent run.
    pub round: Option<u64>,
    /// True if it belongs to a side conversation.
    pub is_sidechain: bool,
    /// True if it tells of a failure.
    pub is_error: bool,
    /// What the turn took, if its line says so.
    pub result: Option<TimelineResult>,
}

/// What a turn took, as its result says.
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
    /// The first byte of the turn.
    pub turn_position: u64,
    /// The byte behind the turn.
    pub end_position: u64,
    /// True if the turn has an end.
    pub is_ended: bool,
    /// True if the turn has no end, and its dialect marks ends.
    pub is_cut: bool,
    /// True if no other turn follows, so that it may still go on.
    pub is_last: bool,
    /// Its items.
    pub item_count: u64,
    /// The calls of tools among them.
    pub tool_call_count: u64,
    /// Items that were not shown.
    pub hidden_item_count: u64,
    /// The hidden items that only say that something is under way.
    pub progress_item_count: u64,
}

/// What `log replay` gives: one object per line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ReplayEntry {
    /// Something that happened.
    Item(Box<TimelineItem>),
    /// The end of a turn.
    TurnEnd(TurnEnd),
}

/// What `log stream` gives: one object per line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StreamEntry {
    /// Something that happened.
    Item(Box<Sourced<TimelineItem>>),
    /// The end of a turn.
    TurnEnd(Sourced<TurnEnd>),
    /// Something about a log.
    Notice(Sourced<StreamNotice>),
}

/// The log that something is of.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Source {
    /// The session; null for a file of another program.
    pub session_id: Option<String>,
    /// The name of the session.
    pub session_name: Option<String>,
    /// The log, relative to the directory that is followed; null for the directory itself.
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

/// Something, and the log that it is of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Sourced{T}")]
pub struct Sourced<T> {
    /// The log.
    #[serde(flatten)]
    pub source: Source,
    /// What is of it.
    #[serde(flatten)]
    pub entry: T,
}

/// Something about a log, or about the directory that is followed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamNotice {
    /// `notice`.
    #[schemars(extend("enum" = ["notice"]))]
    pub kind: &'static str,
    /// What happened. After a reset, what is behind `position` comes again. `missing`: the directory is not there.
    #[schemars(extend("enum" = ["damaged", "reset", "lost", "gone", "skipped", "missing"]))]
    pub notice: &'static str,
    /// Where it begins.
    pub position: Option<u64>,
    /// Where it ends.
    pub end_position: Option<u64>,
    /// Why.
    pub reason: Option<String>,
}

impl StreamNotice {
    /// A notice without a place.
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
    /// An item with its turn, what the turn took, and the full text if it was asked for.
    pub fn of(
        item: &log::TimelineItem,
        turn: Option<log::TurnAt>,
        ending: Option<&log::Ending>,
        full: Option<&Full>,
    ) -> Self {
        let full_text_status = full.map(|full| match full {
            Full::Whole(_) => "found",
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
            text: if let Some(Full::Whole(text)) = full { text.clone() } else { item.text.clone() },
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
