//! The state of one file under a root.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duolog_types::Position;

use super::{EventSink, RootEvent, Skip, Start};
use crate::error::{Error, Result};
use crate::fs::{Disk, Stat};
use crate::reader::{Place, Reader, regular};
use crate::recent::Recent;
use crate::tail::Polled;
use crate::trail::{Terms, Trail};

/// Number of remembered places per file; few, because there can be many files.
const SEEN_PLACES: usize = 8;
/// How long a file must have been unchanged before its modification time is trusted to show the next change: the clocks
/// of file systems are coarse.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// One followed file.
pub(super) struct Log {
    /// Where to start; `None` once reading has started.
    start: Option<Start>,
    trail: Trail,
    /// The metadata at the last check.
    last_check: Option<LastCheck>,
    /// The last sweep that saw it.
    pub(super) last_sweep: u64,
    /// Where its turn ends: the end of the file when the turn began.
    goal: Option<Position>,
    is_queued: bool,
    is_reported_unreadable: bool,
}

#[derive(Clone, Copy)]
struct LastCheck {
    stat: Stat,
    changed_at: SystemTime,
    at: SystemTime,
}

/// How the check of a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Everything was delivered.
    Done,
    /// There is more, and this log is next.
    More,
    /// There is more, but the other logs in the queue are next.
    OthersFirst,
    /// The log could not be checked now.
    Later,
}

/// Whether one check delivered everything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Complete,
    CutShort,
}

impl Log {
    pub(super) fn new(start: Start, last_sweep: u64) -> Self {
        let trail = Trail::at(Position::ZERO, SEEN_PLACES);
        Self {
            start: Some(start),
            trail,
            last_check: None,
            last_sweep,
            goal: None,
            is_queued: false,
            is_reported_unreadable: false,
        }
    }

    pub(super) fn position(&self) -> Position {
        self.trail.position()
    }

    /// Marks the log as queued; returns false if it was queued already.
    pub(super) fn enter_queue(&mut self) -> bool {
        !std::mem::replace(&mut self.is_queued, true)
    }

    /// Returns true if a file with this metadata has nothing new, as far as that can be known without reading it.
    pub(super) fn is_settled(&self, stat: &Stat, changed_at: SystemTime) -> bool {
        let Some(last_check) = self.last_check.filter(|last_check| last_check.stat.ident == stat.ident) else {
            return false;
        };
        let is_at_end = self.start.is_none() && self.trail.is_at_end(Position(stat.len));
        let is_unchanged = last_check.stat == *stat
            && last_check.changed_at == changed_at
            && last_check.at.duration_since(changed_at).is_ok_and(|left_alone| left_alone >= SETTLED_AFTER);
        is_at_end || is_unchanged
    }

    /// Delivers what is new and stable in the file.
    pub(super) fn step(
        &mut self,
        disk: &Arc<dyn Disk>,
        path: &Arc<Path>,
        (stat, changed_at): (Stat, SystemTime),
        readers: &Recent<Arc<Path>, Reader>,
        terms: &Terms,
        each: EventSink<'_>,
    ) -> Result<Step> {
        self.is_queued = false;
        self.last_check = Some(LastCheck { stat, changed_at, at: SystemTime::now() });
        let place = Place::file(&**path);
        regular(&place, stat)?;
        self.trail.see_file(stat.ident);
        if self.start.is_none() && self.trail.is_at_end(Position(stat.len)) {
            return Ok(self.done());
        }
        let Some(reader) = open(disk, path, &place, stat, readers)? else { return Ok(self.wait_in_queue(Step::Later)) };
        match self.advance(path, &reader, terms, each) {
            // A writer holds the lock, or the file was truncated between two checks.
            Err(Error::Busy { .. } | Error::Shrunk { .. }) => Ok(self.wait_in_queue(Step::Later)),
            Err(error) => Err(error),
            Ok(polled) => {
                self.is_reported_unreadable = false;
                Ok(self.after(polled, Position(stat.len), path, each))
            }
        }
    }

    fn advance(
        &mut self,
        path: &Path,
        reader: &Reader,
        terms: &Terms,
        each: EventSink<'_>,
    ) -> Result<(Polled, Delivery)> {
        if let Some(start) = self.start {
            self.trail = start.trail(reader, terms.writers, SEEN_PLACES)?;
            self.trail.see_file(reader.ident());
            self.start = None;
        }
        let from = self.position();
        let polled = self.trail.advance(reader, terms, &mut |item| each(RootEvent::Item { path, item }))?;
        let is_cut_short = polled == Polled::Delivered && self.position().0 - from.0 >= terms.step_bytes;
        Ok((polled, if is_cut_short { Delivery::CutShort } else { Delivery::Complete }))
    }

    /// Decides what follows a check.
    fn after(
        &mut self,
        (polled, delivery): (Polled, Delivery),
        size_end: Position,
        path: &Path,
        each: EventSink<'_>,
    ) -> Step {
        match polled {
            Polled::Idle => self.done(),
            Polled::Delivered if delivery == Delivery::Complete => self.done(),
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

    /// Reports once that the file cannot be read.
    pub(super) fn report_unreadable(&mut self, path: &Path, error: Error, each: EventSink<'_>) {
        if std::mem::replace(&mut self.is_reported_unreadable, true) {
            return;
        }
        let why = match error {
            Error::NotALog { .. } => Skip::NotAFile,
            error => Skip::Unreadable(error),
        };
        each(RootEvent::Skipped { path, why: &why });
    }
}

/// Returns the open file with this identity, or `None` if the file was deleted or replaced just now.
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
