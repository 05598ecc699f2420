//! What is told of a log as a conversation: for people and for programs, live and in replay.

use duolog::log::{Boundary, Dialect, Ending, Full, Replay, TimelineItem, Told, TurnEnd, View};
use duolog::{Error, Line};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::out::{Detail, Out, Shown, Timeline};

/// Finds the whole of a shortened text by what its line calls it.
pub type Find<'f> = &'f dyn Fn(&str) -> Result<Full, Error>;

/// Tells lines as a conversation.
pub struct Teller<'f> {
    replay: Replay,
    voice: Voice<'f>,
}

/// How it is told.
struct Voice<'f> {
    timeline: Timeline,
    find: Option<Find<'f>>,
    /// Whole texts that a line names and that are not as they were put.
    lost: u64,
}

impl<'f> Teller<'f> {
    pub fn new(dialect: Dialect, view: View, timeline: Timeline) -> Self {
        Self { replay: Replay::new(dialect, view), voice: Voice { timeline, find: None, lost: 0 } }
    }

    /// Shows what was shortened whole.
    #[must_use]
    pub fn finding(mut self, find: Find<'f>) -> Self {
        self.voice.find = Some(find);
        self
    }

    /// Tells what a line adds.
    pub fn line(&mut self, out: &mut Out, line: &Line<'_>) -> Result<(), Failure> {
        let Self { replay, voice } = self;
        replay.line(line, &mut |told| voice.tell(out, told))
    }

    /// Tells what is left at the end. Says how many whole texts are missing or damaged.
    pub fn finish(&mut self, out: &mut Out) -> Result<u64, Failure> {
        let Self { replay, voice } = self;
        replay.finish(&mut |told| voice.tell(out, told))?;
        Ok(voice.lost)
    }
}

impl Voice<'_> {
    fn tell(&mut self, out: &mut Out, told: Told<'_>) -> Result<(), Failure> {
        match told {
            Told::Item { item, turn, ending, repeats } => {
                let full = match (&item.full, self.find) {
                    (Some(reference), Some(find)) => Some(find(reference)?),
                    _ => None,
                };
                self.lost += u64::from(matches!(full, Some(Full::Missing | Full::Damaged)));
                let shape = ItemShape::of(item, turn.map(|turn| turn.0), ending.as_ref(), full.as_ref());
                let shown = Shown { item, ending, repeats, full: full.as_ref() };
                out.piece(&shape, |text| self.timeline.item(text, &shown))
            }
            Told::TurnEnd(end) => out.piece(&TurnShape::of(&end), |text| self.timeline.turn_end(text, &end)),
        }
    }
}

/// An item in JSON.
#[derive(Serialize)]
struct ItemShape<'a> {
    kind: &'static str,
    position: u64,
    part: u32,
    turn: Option<u64>,
    boundary: Option<&'static str>,
    at: Option<String>,
    role: Option<&'a str>,
    author: Option<&'a str>,
    model: Option<&'a str>,
    tool: Option<&'a str>,
    call_id: Option<&'a str>,
    what: Option<&'a str>,
    text: &'a str,
    full: Option<&'a str>,
    full_is: Option<&'static str>,
    round: Option<u64>,
    sidechain: bool,
    failed: bool,
    ending: Option<EndingShape>,
}

#[derive(Serialize)]
struct EndingShape {
    turns: Option<u64>,
    cost_usd: Option<Box<RawValue>>,
    duration_ms: Option<u64>,
    tokens: TokensShape,
}

#[derive(Serialize)]
struct TokensShape {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

/// The end of a turn in JSON.
#[derive(Serialize)]
struct TurnShape {
    kind: &'static str,
    turn: u64,
    end: u64,
    complete: bool,
    incomplete: bool,
    last: bool,
    items: u64,
    tool_calls: u64,
    left_out: u64,
}

impl<'a> ItemShape<'a> {
    fn of(item: &'a TimelineItem, turn: Option<u64>, ending: Option<&Ending>, full: Option<&'a Full>) -> Self {
        let full_is = full.map(|full| match full {
            Full::Whole(_) => "whole",
            Full::Missing => "missing",
            Full::Damaged => "damaged",
            Full::TooLarge(_) => "too_large",
            Full::Elsewhere => "elsewhere",
        });
        Self {
            kind: item.kind.word(),
            position: item.position.0,
            part: item.part,
            turn,
            boundary: match item.boundary {
                Boundary::Opens => Some("opens"),
                Boundary::Closes => Some("closes"),
                Boundary::Within => None,
            },
            at: item.at.map(|at| at.to_string()),
            role: item.role.as_deref(),
            author: item.author.as_deref(),
            model: item.model.as_deref(),
            tool: item.tool.as_deref(),
            call_id: item.call_id.as_deref(),
            what: item.what.as_deref(),
            text: if let Some(Full::Whole(whole)) = full { whole } else { &item.text },
            full: item.full.as_deref(),
            full_is,
            round: item.round,
            sidechain: item.sidechain,
            failed: item.failed,
            ending: ending.map(EndingShape::of),
        }
    }
}

impl EndingShape {
    fn of(ending: &Ending) -> Self {
        let tokens = &ending.tokens;
        Self {
            turns: ending.responses,
            cost_usd: ending.cost.and_then(|cost| RawValue::from_string(cost.to_string()).ok()),
            duration_ms: ending.duration_ms,
            tokens: TokensShape {
                input: tokens.input,
                output: tokens.output,
                cache_read: tokens.cache_read,
                cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            },
        }
    }
}

impl TurnShape {
    fn of(end: &TurnEnd) -> Self {
        Self {
            kind: "turn_end",
            turn: end.turn.start.0,
            end: end.turn.end.0,
            complete: end.turn.is_complete(),
            incomplete: end.is_cut,
            last: end.is_last,
            items: end.turn.items,
            tool_calls: end.turn.tool_calls,
            left_out: end.left_out,
        }
    }
}

/// How much of each item is shown.
pub const fn detail(full: bool) -> Detail {
    if full { Detail::Full } else { Detail::Folded }
}
