//! Following a log as it grows: no line lost, doubled or torn, whatever happens to the file.
//!
//! A follower's state is a position after a newline, and hashes by which it knows the bytes before it again. Bytes of an
//! incomplete line are dropped and read again, so a rollback or a repair can take them away without anyone having seen
//! them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use duolog_types::{Position, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::fs::Disk;
use crate::reader::{Item, Line, Place, Reader};

/// The bytes before the position that are compared before anything behind it is believed.
const SEEN_BYTES: u64 = 4096;
/// The places that a follower remembers, close together near its position and far apart long before it.
const SEEN_PLACES: usize = 64;
/// The lines of one poll whose ends are remembered: its last ones.
const SEEN_LINES: usize = 16;
/// The bytes one poll delivers at the most, so that a follower can be stopped in between.
const POLL_BYTES: u64 = 8 << 20;

/// Why a follower had to go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
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
        why: Why,
    },
}

/// A place that a follower would know again: the hash of so many bytes before it.
struct Seen {
    end: Position,
    bytes: u64,
    hash: [u8; 32],
}

/// Follows one log.
pub struct Follower {
    disk: Arc<dyn Disk>,
    place: Place,
    timeout: Duration,
    line_bytes_max: usize,
    reader: Option<Reader>,
    position: Position,
    /// Places where lines that were delivered end, oldest first; the last is `position`, or none is remembered.
    seen: Vec<Seen>,
    /// Whether another file took the place of the one that was delivered from, and was not compared with it yet.
    swapped: bool,
    /// Only where a rule is removed on purpose.
    kept: Vec<u8>,
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
        let (disk, place) = (disk.clone(), place.clone());
        Self {
            disk,
            place,
            timeout,
            line_bytes_max,
            reader: None,
            position,
            seen: Vec::new(),
            swapped: false,
            kept: Vec::new(),
        }
    }

    /// The position after the last line delivered.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Delivers what is new and stable.
    pub fn poll(&mut self, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        let path = &self.place.path;
        let Some(stat) = self.disk.stat(path).map_err(Error::io("look at", path))? else {
            self.reader = None;
            return Ok(if self.position > self.place.base {
                self.reset(self.place.base, Why::Missing)
            } else {
                Polled::Idle
            });
        };
        if self.reader.as_ref().is_none_or(|reader| reader.ident() != stat.ident) {
            self.swapped |= self.reader.is_some();
            self.reader = Reader::open(&self.disk, &self.place)?;
        }
        let size_end = Position(self.place.base.0 + stat.len);
        if size_end == self.position && !self.seen.is_empty() && !self.swapped {
            // As long as we left it. Were it edited to the same length, the next growth would tell.
            return Ok(Polled::Idle);
        }
        let Some(reader) = self.reader.take() else { return Ok(Polled::Idle) };
        let polled = self.advance(&reader, each);
        self.reader = Some(reader);
        match polled {
            // Cut between two of our looks; the next poll sees what is left.
            Err(Error::Shrunk { .. }) => Ok(Polled::Idle),
            other => other,
        }
    }

    fn advance(&mut self, reader: &Reader, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        if mutant::is(Mutant::PartialBytesKept) {
            return self.advance_keeping_partial_bytes(reader, each);
        }
        let end = reader.stable_end(self.timeout)?;
        if end < self.position || !self.still_there(reader)? {
            let why = if end < self.position && !self.swapped { Why::Shorter } else { Why::Replaced };
            let to = self.last_good(reader, end)?;
            return Ok(self.reset(to, why));
        }
        self.swapped = false;
        if end == self.position {
            return Ok(Polled::Idle);
        }
        let from = self.position;
        let mut lines = match reader.lines(from, end, self.line_bytes_max) {
            // Nothing was delivered yet that could have told: the position was never one of this file's.
            Err(Error::NotABoundary(_)) => return Ok(self.reset(reader.first(), Why::Replaced)),
            other => other?,
        };
        let mut outcome = Ok(Polled::Delivered);
        let mut ends = VecDeque::with_capacity(SEEN_LINES);
        while lines.position().0 - from.0 < POLL_BYTES {
            match lines.next() {
                Ok(Some(item)) => {
                    if ends.len() == SEEN_LINES {
                        ends.pop_front();
                    }
                    ends.push_back(item.end());
                    each(item);
                }
                Ok(None) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        // What was delivered is not delivered again, whatever failed behind it.
        self.position = lines.position();
        for end in ends {
            self.remember(reader, end)?;
        }
        outcome
    }

    fn reset(&mut self, to: Position, why: Why) -> Polled {
        self.position = to;
        self.seen.retain(|seen| seen.end <= to);
        self.swapped = false;
        Polled::Reset { to, why }
    }

    /// Whether the bytes before the position are those that were delivered.
    fn still_there(&mut self, reader: &Reader) -> Result<bool> {
        match self.seen.last() {
            Some(last) if last.end == self.position => last.is_in(reader),
            // Not remembered: a start that the caller chose, or a read that failed just then.
            _ => self.remember(reader, self.position).map(|()| true),
        }
    }

    /// The furthest remembered place, at most at `end`, that still stands; where none does, only what was archived.
    fn last_good(&self, reader: &Reader, end: Position) -> Result<Position> {
        for seen in self.seen.iter().rev().filter(|seen| seen.end <= end) {
            if seen.is_in(reader)? {
                return Ok(seen.end);
            }
        }
        Ok(self.place.base.min(self.position))
    }

    fn remember(&mut self, reader: &Reader, end: Position) -> Result<()> {
        let bytes = SEEN_BYTES.min(end.0.saturating_sub(reader.first().0));
        let hash = crate::seal::hash_range(reader, Position(end.0 - bytes), end, &[])?.1;
        self.seen.retain(|seen| seen.end < end);
        if self.seen.len() == SEEN_PLACES {
            // Every other one of the older half goes: a reset then goes back further, but never too far.
            let mut number = 0;
            self.seen.retain(|_| {
                number += 1;
                number > SEEN_PLACES / 2 || number % 2 == 0
            });
        }
        self.seen.push(Seen { end, bytes, hash });
        Ok(())
    }

    /// The follower without its rule: what it read of an incomplete line stays, and the next bytes are put behind it.
    fn advance_keeping_partial_bytes(&mut self, reader: &Reader, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        let (end, rest) = reader.stable_end_and_rest(self.timeout)?;
        let at = Position(self.position.0 + self.kept.len() as u64);
        let mut bytes = vec![0; usize::try_from((end.0 + rest).saturating_sub(at.0)).unwrap_or(0)];
        let read = reader.read_at(at, &mut bytes)?;
        self.kept.extend_from_slice(&bytes[..read]);
        let mut delivered = Polled::Idle;
        while let Some(newline) = memchr::memchr(b'\n', &self.kept) {
            let line: Vec<u8> = self.kept.drain(..=newline).collect();
            let (start, end) = (self.position, Position(self.position.0 + line.len() as u64));
            self.position = end;
            each(Item::Line(Line { start, end, bytes: &line[..newline] }));
            delivered = Polled::Delivered;
        }
        Ok(delivered)
    }
}

impl Seen {
    fn is_in(&self, reader: &Reader) -> Result<bool> {
        let from = Position(self.end.0 - self.bytes);
        Ok(crate::seal::hash_range(reader, from, self.end, &[])?.1 == self.hash)
    }
}
