//! The types that callers pass and get.

use std::fmt;

use duolog_join::{Loss, RecordedLoss};
use duolog_log::Line;
use duolog_log::dialect::money::Money;
use duolog_log::dialect::turn::Turn;
use duolog_log::dialect::usage::{Tokens, UsageFact, fact};
use duolog_log::dialect::{Dialect, TimelineItem};
use duolog_types::line::LineFault;
use duolog_types::{Cursor, Durability, OperationId, Position, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Options of an append.
#[derive(Clone, Debug, Default)]
pub struct AppendOptions {
    /// The durability of the batch when it is acknowledged.
    pub durability: Durability,
    /// Append only if the log ends at this position.
    pub if_position: Option<Position>,
    /// Append only once under this id, even if the request is repeated.
    pub operation: Option<OperationId>,
}

/// The position to start reading from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At the first line.
    Start,
    /// At a position, which must be the start of a line.
    Position(Position),
    /// This number of lines before the end.
    Last(u64),
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'b> {
    /// A line.
    Line(Line<'b>),
    /// Bytes that cannot be read as a line.
    Damaged {
        /// The position of the first byte.
        start: Position,
        /// The position after the last byte.
        end: Position,
        /// The reason.
        reason: String,
    },
    /// The log lacks recorded bytes. This comes before the lines.
    Lost(Loss),
    /// The log lost bytes before, and the loss is on record. This comes before the lines.
    LostEarlier(RecordedLoss),
}

/// Entries of a log that are passed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entries<'b> {
    /// Consecutive lines without damage.
    Lines {
        /// The position of the first byte.
        start: Position,
        /// The lines, each with its newline.
        bytes: &'b [u8],
        /// The number of lines.
        count: u64,
    },
    /// A single entry.
    Single(Entry<'b>),
}

/// The detail of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayDetail {
    /// The prompts, the last answer of each turn, the results and the failures.
    Conversation,
    /// The same as `Conversation`, but with every answer, because the last one is not known yet.
    Live,
    /// Every item.
    All,
}

/// An event of a replay.
#[derive(Clone, Copy, Debug)]
pub enum ReplayEvent<'a> {
    /// An item of the conversation.
    Item {
        /// The item.
        item: &'a TimelineItem,
        /// Its turn; `None` before the first turn.
        turn: Option<TurnAt>,
        /// The totals of the turn, if the item is a result that reports them.
        ending: Option<Ending>,
        /// True if the item is a result that repeats the answer before it.
        repeats: bool,
    },
    /// The end of a turn: it has a result, or the next turn began.
    TurnEnd(TurnEnd),
}

/// The turn of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnAt {
    /// The position of the line that began the turn.
    pub start: Position,
    /// The number of the turn, from 1; `None` if the number of earlier turns is unknown.
    pub number: Option<u64>,
    /// The time at which it began.
    pub started_at: Option<Timestamp>,
}

/// The end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The turn.
    pub turn: Turn,
    /// True if the turn has no result although its dialect has one.
    pub is_cut: bool,
    /// True if no other turn follows, so that the turn may continue.
    pub is_last: bool,
    /// The number of its items that were left out.
    pub left_out: u64,
    /// The number of left out items that only report progress.
    pub progress: u64,
}

impl TurnEnd {
    pub(super) const fn of(turn: Turn) -> Self {
        Self { turn, is_cut: false, is_last: false, left_out: 0, progress: 0 }
    }
}

/// The totals of a turn, as its result reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The number of responses of the model.
    pub responses: Option<u64>,
    /// The duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// The tokens.
    pub tokens: Tokens,
    /// The cost, if it is reported.
    pub cost: Option<Money>,
}

#[derive(Deserialize)]
struct Counts<'l> {
    #[serde(borrow)]
    num_turns: Option<&'l RawValue>,
    #[serde(borrow)]
    duration_ms: Option<&'l RawValue>,
}

impl Ending {
    /// Parses the totals in a result line. A member that is not a number counts as absent.
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let Some(UsageFact::Ending { tokens, cost, .. }) = fact(text) else { return None };
        let counts = serde_json::from_str::<Counts<'_>>(text).ok();
        let number = |raw: Option<&RawValue>| raw.and_then(|raw| raw.get().parse().ok());
        Some(Self {
            responses: counts.as_ref().and_then(|counts| number(counts.num_turns)),
            duration_ms: counts.as_ref().and_then(|counts| number(counts.duration_ms)),
            tokens,
            cost,
        })
    }
}

/// The full text of a line that was shortened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Full {
    /// The text; its hash matches.
    Found(String),
    /// The blob does not exist.
    Missing,
    /// The blob's content does not match its hash.
    Damaged,
    /// The text is too large to be shown: this number of bytes.
    TooLarge(u64),
    /// The reference is not one of Duolog's.
    Elsewhere,
}

/// The format in which a recording writes the events of a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordFormat {
    /// Events as envelopes.
    #[default]
    Envelope,
    /// The lines unchanged; they should be in the turns dialect.
    Turns,
    /// The lines unchanged; they should be in the transcript dialect.
    Transcript,
    /// The lines unchanged.
    Raw,
}

impl RecordFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Envelope, Self::Turns, Self::Transcript, Self::Raw];

    /// Returns the name of the format.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Envelope => Dialect::Envelope.word(),
            Self::Turns => Dialect::Turns.word(),
            Self::Transcript => Dialect::Transcript.word(),
        }
    }

    /// Returns the dialect of its lines; `None` if it prescribes none.
    pub const fn dialect(self) -> Option<Dialect> {
        match self {
            Self::Envelope => Some(Dialect::Envelope),
            Self::Turns => Some(Dialect::Turns),
            Self::Transcript => Some(Dialect::Transcript),
            Self::Raw => None,
        }
    }
}

/// Options of a recording.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// The durability of lines when they are flushed.
    pub durability: Durability,
    /// The format that is written.
    pub form: RecordFormat,
    /// The prompt. It becomes the first line of the turn, unless the log has it already.
    pub prompt: Option<String>,
    /// The model, if the caller knows it better than the runtime reports it.
    pub model: Option<String>,
    /// True to keep thinking.
    pub keep_thinking: bool,
    /// Records each event only once under this id: event N of the input is the operation `ID/N`.
    pub operation: Option<OperationId>,
}

/// A line of the input that cannot be appended unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEvent {
    /// Its number in the input, from 1.
    pub number: u64,
    /// The reason.
    pub fault: LineFault,
    /// True if it was kept as a remark.
    pub is_kept: bool,
}

impl fmt::Display for BadEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, fault, is_kept } = self;
        let outcome = if *is_kept { "kept as a remark" } else { "not recorded" };
        write!(f, "cannot append line {number} as it is: {fault}; {outcome}")
    }
}

/// The result of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The number of input lines.
    pub events: u64,
    /// The number of lines that were appended.
    pub lines: u64,
    /// The number of texts that were stored in full as blobs.
    pub blobs: u64,
    /// The number of lines that are not in the given dialect. They were kept.
    pub others: u64,
    /// The number of lines that are in no known dialect. They were kept.
    pub unknown: u64,
    /// The number of lines that cannot be appended unchanged and were kept as remarks.
    pub remarks: u64,
    /// The number of lines that were not kept because they are too long.
    pub refused: u64,
    /// The end of the log after the last recorded line.
    pub cursor: Option<Cursor>,
}
