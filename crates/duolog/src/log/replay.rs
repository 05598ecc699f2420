//! Replaying the lines of a log as a conversation, turn by turn, finished or live.
//!
//! Memory is bounded by one line and one answer that may be the last of its turn.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::ControlFlow;

use duolog_log::Line;
use duolog_log::dialect::detect::Detector;
use duolog_log::dialect::turn::TurnFold;
use duolog_log::dialect::{Boundary, Dialect, Interpreter, ItemKind, TimelineItem};
use duolog_types::Position;

use super::model::{Ending, Entry, ReadFrom, ReplayDetail, ReplayEvent, TurnAt, TurnEnd};
use super::rules;
use crate::error::Result;

/// The number of lines per turn in which the last turns are searched first. If they contain too few turns, four times
/// as many lines are read, so the total stays within a small factor of the result.
const LINES_A_TURN: u64 = 32;

/// Replays the lines of a log as a conversation.
#[derive(Debug)]
pub struct Replay {
    view: ReplayDetail,
    /// `None` until a line determines it.
    dialect: Option<Dialect>,
    /// Examines the first lines, if no dialect was given.
    detector: Option<Detector>,
    interpreter: Interpreter,
    turns: TurnFold,
    /// The number of turns so far; `None` if the number of earlier turns is unknown.
    number: Option<u64>,
    items: Vec<TimelineItem>,
    /// The last answer so far, if only the last one is delivered.
    answer: Option<TimelineItem>,
    /// The hash of the last answer, to recognise it in a result.
    said: Option<u64>,
    /// The number of items of the turn that were left out so far.
    left_out: u64,
    /// The number of those that only report progress.
    progress: u64,
}

impl Replay {
    /// Returns a replay of a log that is mostly in `dialect`; if that is `None`, the first lines determine it.
    pub fn new(dialect: Option<Dialect>, view: ReplayDetail) -> Self {
        Self {
            view,
            dialect,
            detector: dialect.is_none().then(Detector::default),
            // Until a line determines the dialect, any dialect reads the lines equally well.
            interpreter: Interpreter::new(dialect.unwrap_or(Dialect::Envelope)),
            turns: TurnFold::default(),
            number: Some(0),
            items: Vec::new(),
            answer: None,
            said: None,
            left_out: 0,
            progress: 0,
        }
    }

    /// Declares that the first line is not the first line of the log: turns have no numbers.
    #[must_use]
    pub fn from_within(mut self) -> Self {
        self.number = None;
        self
    }

    /// Takes the next line and passes on the events that it adds.
    pub fn line<E>(
        &mut self,
        line: &Line<'_>,
        tell: &mut impl FnMut(ReplayEvent<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.detect(line.bytes);
        let mut items = std::mem::take(&mut self.items);
        self.interpreter.bytes(line.start, line.bytes, &mut items);
        let told = items.drain(..).try_for_each(|item| self.item(item, line.bytes, tell));
        self.items = items;
        told
    }

    /// Passes on the remaining events at the end of the log: a last answer, and a turn that may continue.
    pub fn finish<E>(
        &mut self,
        tell: &mut impl FnMut(ReplayEvent<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.tell_answer(tell)?;
        match std::mem::take(&mut self.turns).last() {
            Some(turn) => self.end_turn(TurnEnd { is_last: true, ..TurnEnd::of(turn) }, tell),
            None => Ok(()),
        }
    }

    fn detect(&mut self, line: &[u8]) {
        let Some(detector) = &mut self.detector else { return };
        detector.line(&String::from_utf8_lossy(line));
        let (told, is_done) = (detector.dialect(), detector.is_done());
        if let Some(dialect) = told.filter(|told| self.dialect != Some(*told)) {
            self.dialect = Some(dialect);
            self.interpreter.set_dialect(dialect);
        }
        if is_done {
            self.detector = None;
        }
    }

    fn item<E>(
        &mut self,
        item: TimelineItem,
        line: &[u8],
        tell: &mut impl FnMut(ReplayEvent<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if item.boundary == Boundary::Opens {
            self.tell_answer(tell)?;
            self.said = None;
        }
        if let Some(turn) = self.turns.item(&item) {
            self.end_turn(TurnEnd::of(turn), tell)?;
        }
        if item.boundary == Boundary::Opens {
            self.number = self.number.map(|number| number + 1);
        }
        let repeats = item.kind == ItemKind::Result && self.said == Some(hash(&item.text));
        if item.kind == ItemKind::Assistant && !item.sidechain {
            self.said = Some(hash(&item.text));
        }
        if item.is_progress() {
            (self.left_out, self.progress) = (self.left_out + 1, self.progress + 1);
            return Ok(());
        }
        if self.view != ReplayDetail::All && !rules::is_conversation(&item) {
            self.left_out += 1;
            return Ok(());
        }
        if self.view == ReplayDetail::Conversation {
            // Several agents may speak in one turn: the last answer of each is delivered.
            if item.kind == ItemKind::Assistant && self.answer.as_ref().is_some_and(|last| last.author == item.author) {
                self.answer = None;
                self.left_out += 1;
            }
            self.tell_answer(tell)?;
            if item.kind == ItemKind::Assistant {
                self.answer = Some(item);
                return Ok(());
            }
        }
        let ending = if item.kind == ItemKind::Result { Ending::of(line) } else { None };
        tell(ReplayEvent::Item { item: &item, turn: self.turn(), ending, repeats })
    }

    /// Passes on the answer that was held back.
    fn tell_answer<E>(
        &mut self,
        tell: &mut impl FnMut(ReplayEvent<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match self.answer.take() {
            Some(item) => tell(ReplayEvent::Item { item: &item, turn: self.turn(), ending: None, repeats: false }),
            None => Ok(()),
        }
    }

    fn end_turn<E>(
        &mut self,
        end: TurnEnd,
        tell: &mut impl FnMut(ReplayEvent<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (left_out, progress) = (std::mem::take(&mut self.left_out), std::mem::take(&mut self.progress));
        let is_cut = self.dialect.is_some_and(rules::has_endings) && !end.turn.is_complete();
        tell(ReplayEvent::TurnEnd(TurnEnd { is_cut, left_out, progress, ..end }))
    }

    fn turn(&self) -> Option<TurnAt> {
        let turn = self.turns.last()?;
        Some(TurnAt { start: turn.start, number: self.number, started_at: turn.started_at })
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.trim().hash(&mut hasher);
    hasher.finish()
}

/// A source of lines that can be replayed as a conversation.
pub trait Replayable {
    /// Passes entries to `each` in order until it returns [`ControlFlow::Break`]. Returns the position after the last
    /// entry.
    fn entries(&self, from: ReadFrom, each: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<Position>;

    /// Returns the dialect of most of the first lines; `None` if no line is in a known dialect.
    fn dialect(&self) -> Result<Option<Dialect>> {
        let mut detector = Detector::default();
        self.entries(ReadFrom::Start, &mut |entry| {
            if let Entry::Line(line) = entry {
                detector.line(&String::from_utf8_lossy(line.bytes));
            }
            if detector.is_done() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(detector.dialect())
    }

    /// Returns the start of the last `count` turns, or of the log if it has fewer. Reads only the end of the log.
    fn start_of_turns(&self, count: usize, dialect: Dialect) -> Result<ReadFrom> {
        let mut lines = LINES_A_TURN.saturating_mul((count as u64).saturating_add(1));
        loop {
            let (mut seen, mut starts) = (0_u64, VecDeque::new());
            let (mut interpreter, mut items) = (Interpreter::new(dialect), Vec::new());
            let end = self.entries(ReadFrom::Last(lines), &mut |entry| {
                seen += u64::from(!matches!(entry, Entry::Lost(_) | Entry::LostEarlier(_)));
                if let Entry::Line(line) = entry {
                    items.clear();
                    interpreter.bytes(line.start, line.bytes, &mut items);
                    let opened = items.iter().filter(|item| item.boundary == Boundary::Opens);
                    starts.extend(opened.map(|item| item.position));
                    // One more than requested: the first one may repeat a prompt from before the window.
                    while starts.len() > count.saturating_add(1) {
                        starts.pop_front();
                    }
                }
                ControlFlow::Continue(())
            })?;
            if count == 0 {
                return Ok(ReadFrom::Position(end));
            }
            let is_whole = seen < lines;
            match starts.len().checked_sub(count).and_then(|at| starts.get(at)) {
                Some(start) if is_whole || starts.len() > count => return Ok(ReadFrom::Position(*start)),
                None if is_whole => return Ok(ReadFrom::Start),
                _ => lines = lines.saturating_mul(4),
            }
        }
    }
}
