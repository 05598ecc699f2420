//! Follows a log as it grows: no line is lost, duplicated or torn, even if the file is truncated or replaced.
//!
//! The progress of a follower is a [`Trail`]; this module keeps the file open and waits. Across processes it wakes by
//! [`Hints`], if the system gives them, and also checks at intervals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duolog_types::Position;

use crate::error::{Error, Result};
use crate::fs::{Disk, Ident};
use crate::hint::{Bell, Hints, Listener, WatchOutcome};
use crate::reader::{Item, Place, Reader, Writers};
use crate::trail::{Terms, Trail};

/// Number of places that a follower remembers.
const SEEN_PLACES: usize = 64;
/// Maximum number of bytes that one poll delivers.
const POLL_BYTES: u64 = 8 << 20;

/// Why a follower went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// The file is gone.
    Missing,
    /// The file ends before the last delivered line.
    Shorter,
    /// The delivered bytes were changed.
    Replaced,
}

/// The result of one poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Nothing new.
    Idle,
    /// Lines were delivered; there may be more.
    Delivered,
    /// Delivered lines are no longer there. The follower continues at `to`.
    Reset {
        /// The last position whose line is unchanged.
        to: Position,
        /// What happened.
        why: ResetReason,
    },
}

/// How often a follower checks its log without a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first pause after a line without hints; it doubles while no line comes.
    pub min: Duration,
    /// The longest pause without hints.
    pub max: Duration,
    /// The pause with hints: only changes that no hint reports wait for it.
    pub with_hints: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let millis = Duration::from_millis;
        Self { min: millis(5), max: millis(100), with_hints: millis(500) }
    }
}

/// Follows one log.
pub struct Follower {
    disk: Arc<dyn Disk>,
    place: Place,
    terms: Terms,
    reader: Option<Reader>,
    trail: Trail,
    listener: Listener,
    /// The log's absolute path, if it can be watched.
    watched_path: Option<PathBuf>,
    pace: Pace,
    pause: Duration,
    /// True if a writer held the lock: its release causes no hint.
    is_locked: bool,
    files: Files,
}

/// Which files a follower may read at the path of its log.
#[derive(Clone, Copy)]
enum Files {
    /// Any file.
    Any,
    /// Only this file; `None` if there must be no file.
    Only(Option<Ident>),
}

impl Follower {
    /// Follows a log from `position` on, which must be the start of a line.
    pub fn new(
        disk: &Arc<dyn Disk>,
        place: &Place,
        position: Position,
        timeout: Duration,
        line_bytes_max: usize,
    ) -> Self {
        Self {
            disk: disk.clone(),
            place: place.clone(),
            terms: Terms { writers: Writers::Ours { timeout }, line_bytes_max, step_bytes: POLL_BYTES },
            reader: None,
            trail: Trail::at(position, SEEN_PLACES),
            listener: Listener::without_hints(),
            watched_path: None,
            pace: Pace::default(),
            pause: Pace::default().min,
            is_locked: false,
            files: Files::Any,
        }
    }

    /// Wakes by hints from now on. `root` is the root of the disk.
    #[must_use]
    pub fn with_hints(mut self, hints: &Hints, root: &Path) -> Self {
        self.listener = Listener::with_hints(hints);
        self.watched_path = std::path::absolute(root.join(&self.place.path)).ok();
        self
    }

    /// Sets how often the log is checked.
    #[must_use]
    pub fn at_pace(mut self, pace: Pace) -> Self {
        (self.pace, self.pause) = (pace, pace.min);
        self
    }

    /// Returns the bell that wakes this follower, for a writer in the same process.
    pub fn bell(&self) -> Bell {
        self.listener.bell()
    }

    /// Returns the file that it reads, if there is one.
    pub fn file(&self) -> Option<Ident> {
        self.reader.as_ref().map(Reader::ident)
    }

    /// Reads only this file from now on, and no other that replaces it, until the next call.
    pub fn read_only(&mut self, file: Option<Ident>) {
        self.files = Files::Only(file);
    }

    /// Continues at an earlier position: the lines delivered after it are no longer there.
    pub fn go_back(&mut self, to: Position) {
        self.trail.go_back(to);
    }

    /// Returns the position after the last delivered line.
    pub fn position(&self) -> Position {
        self.trail.position()
    }

    /// Delivers what is new and stable.
    pub fn poll(&mut self, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        let polled = self.check(each);
        self.is_locked = matches!(polled, Err(Error::Busy { .. }));
        if !matches!(polled, Ok(Polled::Idle)) {
            self.pause = self.pace.min;
        }
        polled
    }

    /// Waits until the log may have changed, or the bell rings, at most `timeout`. Meanwhile only its metadata is
    /// checked.
    pub fn wait(&mut self, timeout: Duration) {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let watched = self.watch();
            // Changes before the watch caused no hint.
            if watched == WatchOutcome::Started && self.may_have_changed() {
                return;
            }
            let pause = if watched == WatchOutcome::Unavailable || self.is_locked {
                self.pause_longer()
            } else {
                self.pace.with_hints
            };
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            let rang = self.listener.wait(left.min(pause));
            self.listener.take();
            // The metadata does not show that a writer released the lock.
            if rang || left <= pause || self.is_locked || self.may_have_changed() {
                return;
            }
        }
    }

    fn pause_longer(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(self.pace.max);
        pause
    }

    /// Returns true if the metadata differs from the last read. If it cannot be read, the next poll reports the error.
    fn may_have_changed(&self) -> bool {
        match self.disk.stat(&self.place.path) {
            Ok(None) => self.trail.position() > self.place.base,
            Ok(Some(stat)) => {
                self.reader.as_ref().is_none_or(|reader| reader.ident() != stat.ident)
                    || !self.trail.is_at_end(Position(self.place.base.0 + stat.len))
            }
            Err(_) => true,
        }
    }

    fn watch(&mut self) -> WatchOutcome {
        let Some((directory, name)) = self.watched_path.as_ref().and_then(|path| path.parent().zip(path.file_name()))
        else {
            return WatchOutcome::Unavailable;
        };
        self.listener.watch(directory, Some(name))
    }

    fn check(&mut self, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        let path = &self.place.path;
        let stat = self.disk.stat(path).map_err(Error::io("examine", path))?;
        if matches!(self.files, Files::Only(file) if file != stat.map(|stat| stat.ident)) {
            return Ok(Polled::Idle);
        }
        let Some(stat) = stat else {
            self.reader = None;
            return Ok(self.trail.see_no_file(self.place.base));
        };
        if self.reader.as_ref().is_none_or(|reader| reader.ident() != stat.ident) {
            self.reader = Reader::open(&self.disk, &self.place)?;
        }
        let opened = self.reader.as_ref().filter(|reader| reader.ident() == stat.ident);
        let Some(reader) = opened else { return Ok(Polled::Idle) };
        self.trail.see_file(reader.ident());
        if self.trail.is_at_end(Position(self.place.base.0 + stat.len)) {
            return Ok(Polled::Idle);
        }
        match self.trail.advance(reader, &self.terms, each) {
            // The log was truncated between two checks; the next poll sees what is left.
            Err(Error::Shrunk { .. }) => Ok(Polled::Idle),
            other => other,
        }
    }
}
