//! What is told of a log as a conversation: for people and for programs, live and in replay.

use std::borrow::Cow;

use clap::Args;
use duolog::log::{Boundary, Ending, Full, Replay, Source, TimelineItem, Told, TurnEnd, View};
use duolog::{Error, Line, SessionId};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::out::{Detail, Out, Shown, Timeline};

/// How much is told.
#[derive(Args)]
pub struct Depth {
    /// Every step: thinking, tools, notes
    #[arg(long, short)]
    pub verbose: bool,
    /// Nothing is folded, and what was shortened in its line is fetched whole
    #[arg(long)]
    pub full: bool,
}

impl Depth {
    /// Every step, or what `otherwise` says.
    pub fn view(&self, otherwise: View) -> View {
        if self.verbose { View::Every } else { otherwise }
    }

    /// How much of each item is shown.
    pub const fn detail(&self) -> Detail {
        if self.full { Detail::Full } else { Detail::Folded }
    }
}

/// Finds the whole of a shortened text by what its line calls it.
pub type Find<'f> = &'f dyn Fn(&str) -> Result<Full, Error>;

/// Tells lines as a conversation.
pub struct Teller<'f> {
    replay: Replay,
    find: Option<Find<'f>>,
    voice: Voice,
}

/// How it is told.
pub struct Voice {
    timeline: Timeline,
    /// Whole texts that a line names and that are not as they were put.
    pub lost: u64,
    /// Whose log was told last, where there are several.
    speaker: Option<Source>,
}

impl<'f> Teller<'f> {
    pub fn new(replay: Replay, detail: Detail) -> Self {
        Self { replay, find: None, voice: Voice::new(detail) }
    }

    /// Shows what was shortened whole.
    #[must_use]
    pub fn finding(mut self, find: Find<'f>) -> Self {
        self.find = Some(find);
        self
    }

    /// Tells what a line adds.
    pub fn line(&mut self, out: &mut Out, line: &Line<'_>) -> Result<(), Failure> {
        let Self { replay, find, voice } = self;
        replay.line(line, &mut |told| voice.tell(out, told, *find))
    }

    /// Tells what is left at the end. Says how many whole texts are missing or damaged.
    pub fn finish(&mut self, out: &mut Out) -> Result<u64, Failure> {
        let Self { replay, find, voice } = self;
        replay.finish(&mut |told| voice.tell(out, told, *find))?;
        Ok(voice.lost)
    }
}

impl Voice {
    pub const fn new(detail: Detail) -> Self {
        Self { timeline: Timeline::new(detail), lost: 0, speaker: None }
    }

    /// Tells a piece of the only log there is.
    fn tell(&mut self, out: &mut Out, told: Told<'_>, find: Option<Find<'_>>) -> Result<(), Failure> {
        self.tell_as(out, told, find, None)
    }

    /// Tells a piece of one log among several.
    pub fn tell_of(
        &mut self,
        out: &mut Out,
        source: &Source,
        told: Told<'_>,
        find: Option<Find<'_>>,
    ) -> Result<(), Failure> {
        if self.speaker.as_ref() != Some(source) {
            self.speaker = Some(source.clone());
            out.part_of(|text| self.timeline.source(text, &label(source)))?;
        }
        self.tell_as(out, told, find, Some(SourceShape::of(source)))
    }

    fn tell_as(
        &mut self,
        out: &mut Out,
        told: Told<'_>,
        find: Option<Find<'_>>,
        source: Option<SourceShape<'_>>,
    ) -> Result<(), Failure> {
        match told {
            Told::Item { item, turn, ending, repeats } => {
                let full = match (&item.full, find) {
                    (Some(reference), Some(find)) => Some(find(reference)?),
                    _ => None,
                };
                self.lost += u64::from(matches!(full, Some(Full::Missing | Full::Damaged)));
                let shape = ItemShape::of(item, turn.map(|turn| turn.start.0), ending.as_ref(), full.as_ref());
                let shown = Shown { item, turn, ending, repeats, full: full.as_ref() };
                out.piece(&Sourced { source, shape }, |text| self.timeline.item(text, &shown))
            }
            Told::TurnEnd(end) => {
                let shape = Sourced { source, shape: TurnShape::of(&end) };
                out.piece(&shape, |text| self.timeline.turn_end(text, &end))
            }
        }
    }
}

/// What people call a log: by its session, or by where it is.
pub fn label(source: &Source) -> String {
    match (&source.session, &source.name, &source.user_id) {
        (Some(_), Some(name), Some(user)) => format!("{name} · {user}"),
        (Some(_), Some(name), None) => name.clone(),
        (Some(id), None, _) => id.to_string(),
        (None, ..) => source.path.display().to_string(),
    }
}

/// Whose log something is of, in JSON.
#[derive(Serialize)]
pub struct SourceShape<'a> {
    session: Option<&'a str>,
    name: Option<&'a str>,
    path: Cow<'a, str>,
}

impl<'a> SourceShape<'a> {
    pub fn of(source: &'a Source) -> Self {
        Self {
            session: source.session.as_ref().map(SessionId::as_str),
            name: source.name.as_deref(),
            path: source.path.to_string_lossy(),
        }
    }
}

/// Anything, and before it whose it is, where there are several.
#[derive(Serialize)]
pub struct Sourced<'a, T> {
    #[serde(flatten)]
    pub source: Option<SourceShape<'a>>,
    #[serde(flatten)]
    pub shape: T,
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
