//! What is known of one file under a root.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duolog_types::Position;

use super::{Each, RootEvent, Skip, Start};
use crate::error::{Error, Result};
use crate::fs::{Disk, Stat};
use crate::reader::{Place, Reader, regular};
use crate::recent::Recent;
use crate::tail::Polled;
use crate::trail::{Terms, Trail};

/// The places that are remembered of each file; there can be many files.
const SEEN_PLACES: usize = 8;
/// How long a file must have been left alone before its time of change is believed to tell the next change: clocks of
/// file systems are coarse.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// One file.
pub(super) struct Log {
    /// Where to begin, until it is begun.
    start: Option<Start>,
    trail: Trail,
    /// What stood there when it was last looked at.
    looked: Option<Looked>,
    /// The sweep in which it was last met.
    pub(super) met_in: u64,
    /// How far it goes before others come: what was there when its turn began.
    goal: Option<Position>,
    is_queued: bool,
    is_told_unreadable: bool,
}

#[derive(Clone, Copy)]
struct Looked {
    stat: Stat,
    changed_at: SystemTime,
    at: SystemTime,
}

/// How a look at a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// All that is there was told.
    Done,
    /// There is more, and it comes before others.
    More,
    /// There is more, but it had its turn.
    OthersFirst,
    /// It could not be looked at just now.
    Later,
}

/// Whether one look told all there was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Whole,
    CutShort,
}

impl Log {
    pub(super) fn new(start: Start, met_in: u64) -> Self {
        let trail = Trail::at(Position::ZERO, SEEN_PLACES);
        Self {
            start: Some(start),
            trail,
            looked: None,
            met_in,
            goal: None,
            is_queued: false,
            is_told_unreadable: false,
        }
    }

    pub(super) fn position(&self) -> Position {
        self.trail.position()
    }

    /// Takes a place in the queue; false if it has one.
    pub(super) fn enter_queue(&mut self) -> bool {
        !std::mem::replace(&mut self.is_queued, true)
    }

    /// Whether there is nothing to tell of a file that looks like this, as far as can be known without reading it.
    pub(super) fn is_settled(&self, stat: &Stat, changed_at: SystemTime) -> bool {
        let Some(looked) = self.looked.filter(|looked| looked.stat.ident == stat.ident) else { return false };
        let is_at_end = self.start.is_none() && self.trail.is_at_end(Position(stat.len));
        let is_as_it_was = looked.stat == *stat
            && looked.changed_at == changed_at
            && looked.at.duration_since(changed_at).is_ok_and(|left_alone| left_alone >= SETTLED_AFTER);
        is_at_end || is_as_it_was
    }

    /// Tells what is new and stable in the file.
    pub(super) fn step(
        &mut self,
        disk: &Arc<dyn Disk>,
        path: &Arc<Path>,
        (stat, changed_at): (Stat, SystemTime),
        readers: &Recent<Arc<Path>, Reader>,
        terms: &Terms,
        each: Each<'_>,
    ) -> Result<Step> {
        self.is_queued = false;
        self.looked = Some(Looked { stat, changed_at, at: SystemTime::now() });
        let place = Place::file(&**path);
        regular(&place, stat)?;
        self.trail.meet(stat.ident);
        if self.start.is_none() && self.trail.is_at_end(Position(stat.len)) {
            return Ok(self.done());
        }
        let Some(reader) = open(disk, path, &place, stat, readers)? else { return Ok(self.wait_in_queue(Step::Later)) };
        match self.advance(path, &reader, terms, each) {
            // A writer is inside, or the file was cut between two of our looks.
            Err(Error::Busy { .. } | Error::Shrunk { .. }) => Ok(self.wait_in_queue(Step::Later)),
            Err(error) => Err(error),
            Ok(polled) => {
                self.is_told_unreadable = false;
                Ok(self.after(polled, Position(stat.len), path, each))
            }
        }
    }

    fn advance(&mut self, path: &Path, reader: &Reader, terms: &Terms, each: Each<'_>) -> Result<(Polled, Length)> {
        if let Some(start) = self.start {
            self.trail = start.trail(reader, terms.writers, SEEN_PLACES)?;
            self.trail.meet(reader.ident());
            self.start = None;
        }
        let from = self.position();
        let polled = self.trail.advance(reader, terms, &mut |item| each(RootEvent::Item { path, item }))?;
        let is_cut_short = polled == Polled::Delivered && self.position().0 - from.0 >= terms.step_bytes;
        Ok((polled, if is_cut_short { Length::CutShort } else { Length::Whole }))
    }

    /// What comes after a look.
    fn after(&mut self, (polled, length): (Polled, Length), size_end: Position, path: &Path, each: Each<'_>) -> Step {
        match polled {
            Polled::Idle => self.done(),
            Polled::Delivered if length == Length::Whole => self.done(),
            Polled::Delivered => {
                let goal = *self.goal.get_or_insert(size_end);
                if self.position() < goal {
                    return self.wait_in_queue(Step::More);
                }
                self.goal = None;
                self.wait_in_queue(Step::OthersFirst)
            }
            Polled::Reset { to, why } => {
                each(RootEvent::Reset { path, to, why });
                self.wait_in_queue(Step::More)
            }
        }
    }

    fn done(&mut self) -> Step {
        self.goal = None;
        Step::Done
    }

    fn wait_in_queue(&mut self, step: Step) -> Step {
        self.is_queued = true;
        step
    }

    /// Says once that the file cannot be read.
    pub(super) fn tell_unreadable(&mut self, path: &Path, error: Error, each: Each<'_>) {
        if std::mem::replace(&mut self.is_told_unreadable, true) {
            return;
        }
        let why = match error {
            Error::NotALog { .. } => Skip::NotAFile,
            error => Skip::Unreadable(error),
        };
        each(RootEvent::Skipped { path, why: &why });
    }
}

/// The open file that a look is at; none if it went or changed just now.
fn open(
    disk: &Arc<dyn Disk>,
    path: &Arc<Path>,
    place: &Place,
    stat: Stat,
    readers: &Recent<Arc<Path>, Reader>,
) -> Result<Option<Arc<Reader>>> {
    if let Some(reader) = readers.get(path) {
        if reader.ident() == stat.ident {
            return Ok(Some(reader));
        }
        readers.let_go(path, &reader);
    }
    let Some(reader) = Reader::open(disk, place)?.filter(|reader| reader.ident() == stat.ident) else {
        return Ok(None);
    };
    drop(readers.trim(1));
    Ok(Some(readers.keep(Arc::clone(path), reader)))
}
