//! From the lines of a log to a conversation, turn by turn, live or in replay.
//!
//! Memory is what one line holds, and one answer that may turn out to be the last of its turn.

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

/// The lines for each turn among which the last turns are looked for first; where they hold too few, four times as
/// many are looked at, so that the whole costs no more than a few times what is found.
const LINES_A_TURN: u64 = 32;

/// Tells the lines of a log as a conversation.
#[derive(Debug)]
pub struct Replay {
    view: ReplayDetail,
    /// None as long as no line told.
    dialect: Option<Dialect>,
    /// Looks at the first lines, where it was not said what they are in.
    detector: Option<Detector>,
    interpreter: Interpreter,
    turns: TurnFold,
    /// How many turns began; none where it is not known how many came before.
    number: Option<u64>,
    items: Vec<TimelineItem>,
    /// The last answer so far, where only the last one is told.
    answer: Option<TimelineItem>,
    /// What the last answer was, to know it again in a result.
    said: Option<u64>,
    /// What was left out of the turn so far.
    left_out: u64,
    /// What of it only says that something is under way.
    progress: u64,
}

impl Replay {
    /// A replay of a log that is mostly in `dialect`; where that is not known, its lines tell.
    pub fn new(dialect: Option<Dialect>, view: ReplayDetail) -> Self {
        Self {
            view,
            dialect,
            detector: dialect.is_none().then(Detector::default),
            // What no line tells is read as well in one dialect as in another.
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

    /// The same for one that does not begin with the first line of its log: turns have no numbers.
    #[must_use]
    pub fn from_within(mut self) -> Self {
        self.number = None;
        self
    }

    /// Takes the next line and tells what it adds.
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

    /// Tells what is left where the log ends: an answer that nothing followed, and a turn that may still go on.
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
        if self.view != ReplayDetail::Every && !rules::is_conversation(&item) {
            self.left_out += 1;
            return Ok(());
        }
        if self.view == ReplayDetail::Conversation {
            // Several agents may speak in one turn: the last word of each is told.
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

    /// Tells the answer that was held back.
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

/// What has lines that can be told as a conversation.
pub trait Replayable {
    /// Gives out entries in order until `each` says to stop. Returns the position after the last one given out.
    fn entries(&self, from: ReadFrom, each: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<Position>;

    /// What most of the first lines are in; none if no line is in any dialect.
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

    /// Where the last `count` turns begin, or the log where it has fewer. Only the end of the log is read.
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
                    // One more than asked for: the first one may be a second telling of what stands before the window.
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
