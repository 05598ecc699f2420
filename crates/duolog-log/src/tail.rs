//! Following a log as it grows: no line lost, doubled or torn, whatever happens to the file.
//!
//! What a follower knows of its way is a [`Trail`]; here is the file it keeps open, and how it waits. Across processes it
//! wakes by [`Hints`] where the system gives them, and looks at intervals anyway.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duolog_types::Position;

use crate::error::{Error, Result};
use crate::fs::{Disk, Ident};
use crate::hint::{Bell, Hints, Listener, Watched};
use crate::reader::{Item, Place, Reader, Writers};
use crate::trail::{Terms, Trail};

/// The places that a follower remembers.
const SEEN_PLACES: usize = 64;
/// The bytes one poll delivers at the most.
const POLL_BYTES: u64 = 8 << 20;

/// Why a follower had to go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// The file is gone.
    Missing,
    /// The file ends before what was delivered.
    Shorter,
    /// Other bytes stand where the delivered ones stood.
    Replaced,
}

/// What one poll did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Nothing new.
    Idle,
    /// Lines were delivered; there may be more.
    Delivered,
    /// What was delivered is no longer there. The follower goes on from `to`.
    Reset {
        /// The last position whose line still stands.
        to: Position,
        /// What happened.
        why: ResetReason,
    },
}

/// How often a follower looks without having heard anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// After a line, where nothing can be heard; twice as long each time, while none comes.
    pub soon: Duration,
    /// At the most, where nothing can be heard.
    pub seldom: Duration,
    /// Where changes are heard: only what no hint tells of waits for it.
    pub hearing: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let millis = Duration::from_millis;
        Self { soon: millis(5), seldom: millis(100), hearing: millis(500) }
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
    /// The log's path on the real disk, where that can be heard.
    heard_at: Option<PathBuf>,
    pace: Pace,
    pause: Duration,
    /// Whether a writer was inside: that it leaves makes no sound.
    is_held_up: bool,
    files: Files,
}

/// The files that a follower may read at its log's path.
#[derive(Clone, Copy)]
enum Files {
    /// Every file that it finds there.
    Any,
    /// Only this file; `None` if there must be no file.
    Only(Option<Ident>),
}

impl Follower {
    /// Follows from `position` on, which must be the start of a line.
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
            listener: Listener::deaf(),
            heard_at: None,
            pace: Pace::default(),
            pause: Pace::default().soon,
            is_held_up: false,
            files: Files::Any,
        }
    }

    /// Wakes by hints from now on. `root` is where the disk's paths begin.
    #[must_use]
    pub fn hearing(mut self, hints: &Hints, root: &Path) -> Self {
        self.listener = Listener::of(hints);
        self.heard_at = std::path::absolute(root.join(&self.place.path)).ok();
        self
    }

    /// Looks at another pace.
    #[must_use]
    pub fn at_pace(mut self, pace: Pace) -> Self {
        (self.pace, self.pause) = (pace, pace.soon);
        self
    }

    /// What wakes this follower, for a writer in the same process.
    pub fn bell(&self) -> Bell {
        self.listener.bell()
    }

    /// Which file it reads, if there is one.
    pub fn file(&self) -> Option<Ident> {
        self.reader.as_ref().map(Reader::ident)
    }

    /// Reads this file from now on and no other that takes its place, until it is told again.
    pub fn read_only(&mut self, file: Option<Ident>) {
        self.files = Files::Only(file);
    }

    /// Goes on from an earlier position: what was delivered behind it is no longer there.
    pub fn go_back(&mut self, to: Position) {
        self.trail.go_back(to);
    }

    /// The position after the last line delivered.
    pub fn position(&self) -> Position {
        self.trail.position()
    }

    /// Delivers what is new and stable.
    pub fn poll(&mut self, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        let polled = self.look(each);
        self.is_held_up = matches!(polled, Err(Error::Busy { .. }));
        if !matches!(polled, Ok(Polled::Idle)) {
            self.pause = self.pace.soon;
        }
        polled
    }

    /// Waits until the log may have changed, or the bell rings, at most `timeout`. Meanwhile it is only looked at from
    /// outside, now and then.
    pub fn wait(&mut self, timeout: Duration) {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let watched = self.watch();
            // What came before the watch made no sound.
            if watched == Watched::Now && self.may_have_changed() {
                return;
            }
            let pause =
                if watched == Watched::Not || self.is_held_up { self.pause_longer() } else { self.pace.hearing };
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            let rang = self.listener.wait(left.min(pause));
            self.listener.take();
            // That a writer leaves cannot be seen from outside.
            if rang || left <= pause || self.is_held_up || self.may_have_changed() {
                return;
            }
        }
    }

    fn pause_longer(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(self.pace.seldom);
        pause
    }

    /// Whether the log does not look as it did when it was last read. What cannot be looked at is for a poll to tell.
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

    fn watch(&mut self) -> Watched {
        let Some((directory, name)) = self.heard_at.as_ref().and_then(|path| path.parent().zip(path.file_name()))
        else {
            return Watched::Not;
        };
        self.listener.watch(directory, Some(name))
    }

    fn look(&mut self, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        let path = &self.place.path;
        let stat = self.disk.stat(path).map_err(Error::io("stat", path))?;
        if matches!(self.files, Files::Only(file) if file != stat.map(|stat| stat.ident)) {
            return Ok(Polled::Idle);
        }
        let Some(stat) = stat else {
            self.reader = None;
            return Ok(self.trail.meet_nothing(self.place.base));
        };
        if self.reader.as_ref().is_none_or(|reader| reader.ident() != stat.ident) {
            self.reader = Reader::open(&self.disk, &self.place)?;
        }
        let opened = self.reader.as_ref().filter(|reader| reader.ident() == stat.ident);
        let Some(reader) = opened else { return Ok(Polled::Idle) };
        self.trail.meet(reader.ident());
        if self.trail.is_at_end(Position(self.place.base.0 + stat.len)) {
            return Ok(Polled::Idle);
        }
        match self.trail.advance(reader, &self.terms, each) {
            // Cut between two of our looks; the next poll sees what is left.
            Err(Error::Shrunk { .. }) => Ok(Polled::Idle),
            other => other,
        }
    }
}
