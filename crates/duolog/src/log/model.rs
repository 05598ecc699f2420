//! What callers give and get.

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

/// How to append.
#[derive(Clone, Debug, Default)]
pub struct AppendOptions {
    /// What the batch survives once it is acknowledged.
    pub durability: Durability,
    /// Append only if the log ends here.
    pub if_position: Option<Position>,
    /// Append only once under this id, however often it is asked.
    pub operation: Option<OperationId>,
}

/// Where to begin reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At the first line.
    Start,
    /// At a position, which must be the start of a line.
    Position(Position),
    /// So many lines before the end.
    Last(u64),
}

/// What stands at a place in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'b> {
    /// A line.
    Line(Line<'b>),
    /// Bytes that are not a line anyone can read.
    Damaged {
        /// Where they begin.
        start: Position,
        /// Where they end.
        end: Position,
        /// What is wrong with them.
        reason: String,
    },
    /// The log lacks bytes that were recorded of it. It is given out before the lines that are there.
    Lost(Loss),
    /// The log lost bytes before, and that is on record. It is given out before the lines that are there.
    LostEarlier(RecordedLoss),
}

/// Entries of a log that are given out at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entries<'b> {
    /// Lines that follow each other, none of them damaged.
    Lines {
        /// The position of the first byte.
        start: Position,
        /// The lines, each with its newline.
        bytes: &'b [u8],
        /// The number of lines.
        count: u64,
    },
    /// A single entry.
    One(Entry<'b>),
}

/// How much of a conversation is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayDetail {
    /// What was asked, the last answer, how it ended, and what failed.
    Conversation,
    /// The same as it happens, so every answer: nobody knows yet which is the last.
    Live,
    /// Every item.
    Every,
}

/// A piece of a conversation.
#[derive(Clone, Copy, Debug)]
pub enum ReplayEvent<'a> {
    /// Something happened.
    Item {
        /// What.
        item: &'a TimelineItem,
        /// Its turn; none before the first.
        turn: Option<TurnAt>,
        /// What the turn took, where it is a result that says so.
        ending: Option<Ending>,
        /// It is a result that repeats the answer before it.
        repeats: bool,
    },
    /// A turn came to its end, or the next one began.
    TurnEnd(TurnEnd),
}

/// Which turn something stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnAt {
    /// The line that began it.
    pub start: Position,
    /// Its number, from 1; none where it is not known how many came before.
    pub number: Option<u64>,
    /// When it began.
    pub started_at: Option<Timestamp>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The turn.
    pub turn: Turn,
    /// It has no end, and in its dialect it should.
    pub is_cut: bool,
    /// No other turn follows, so that it may still go on.
    pub is_last: bool,
    /// How many of its items were not told.
    pub left_out: u64,
    /// How many of those only say that something is under way.
    pub progress: u64,
}

impl TurnEnd {
    pub(super) const fn of(turn: Turn) -> Self {
        Self { turn, is_cut: false, is_last: false, left_out: 0, progress: 0 }
    }
}

/// What a turn took, as its result says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How often the model answered.
    pub responses: Option<u64>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// Its tokens.
    pub tokens: Tokens,
    /// Its cost, where one is told.
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
    /// What a line says of a turn's end; a member that is no number is as good as absent.
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

/// The whole of a text that was shortened in its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Full {
    /// Here it is, and it is what was put.
    Whole(String),
    /// It is not there.
    Missing,
    /// Something else is there.
    Damaged,
    /// It is too large to be shown: so many bytes.
    TooLarge(u64),
    /// What names it is no name of ours.
    Elsewhere,
}

/// What is written for what a runtime says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordFormat {
    /// Its events as envelopes.
    #[default]
    Envelope,
    /// Its lines as they are; they should be in the turns dialect.
    Turns,
    /// Its lines as they are; they should be in the transcript dialect.
    Transcript,
    /// Its lines as they are.
    Raw,
}

impl RecordFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Envelope, Self::Turns, Self::Transcript, Self::Raw];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Envelope => Dialect::Envelope.word(),
            Self::Turns => Dialect::Turns.word(),
            Self::Transcript => Dialect::Transcript.word(),
        }
    }

    /// The dialect that its lines are in.
    pub const fn dialect(self) -> Option<Dialect> {
        match self {
            Self::Envelope => Some(Dialect::Envelope),
            Self::Turns => Some(Dialect::Turns),
            Self::Transcript => Some(Dialect::Transcript),
            Self::Raw => None,
        }
    }
}

/// How to record.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// What lines survive once they are flushed.
    pub durability: Durability,
    /// What is written.
    pub form: RecordFormat,
    /// What the agent is asked; it becomes the first line of the turn, unless it is there already.
    pub prompt: Option<String>,
    /// The model, where it is known better than the runtime tells.
    pub model: Option<String>,
    /// Whether thinking is kept.
    pub keep_thinking: bool,
    /// Records each event only once under this id: event N of the input is the operation `ID/N`.
    pub operation: Option<OperationId>,
}

/// A line of the input that no log takes as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEvent {
    /// Its number in the input, from 1.
    pub number: u64,
    /// What is wrong with it.
    pub fault: LineFault,
    /// It was kept as a remark.
    pub is_kept: bool,
}

impl fmt::Display for BadEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, fault, is_kept } = self;
        let outcome = if *is_kept { "kept as a remark" } else { "not recorded" };
        write!(f, "cannot append line {number} as it is: {fault}; {outcome}")
    }
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// How many lines the runtime said.
    pub events: u64,
    /// How many lines were appended.
    pub lines: u64,
    /// How many texts were kept whole beside the log.
    pub blobs: u64,
    /// How many of the lines are not in the dialect that was named. They were kept.
    pub others: u64,
    /// How many lines nobody understands. They were kept.
    pub unknown: u64,
    /// How many lines no log takes as they are; they were kept as remarks.
    pub remarks: u64,
    /// How many lines no log takes and were not kept, because they are too long.
    pub refused: u64,
    /// The end of the log after the last of them.
    pub cursor: Option<Cursor>,
}
