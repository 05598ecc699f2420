//! Following a log as it grows: no line lost, doubled or torn, whatever happens to the file.
//!
//! A follower's only state is a position after a newline and the end of the line before it. Bytes of an incomplete line
//! are dropped and read again, so a rollback or a repair can take them away without anyone having seen them.

use std::sync::Arc;
use std::time::Duration;

use duolog_types::{Position, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::fs::Disk;
use crate::reader::{Item, Line, Place, Reader};

/// The bytes before the position that are compared before anything behind it is believed.
const SEEN_BYTES: u64 = 4096;
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

/// Follows one log.
pub struct Follower {
    disk: Arc<dyn Disk>,
    place: Place,
    timeout: Duration,
    line_bytes_max: usize,
    reader: Option<Reader>,
    position: Position,
    /// The hash of the last bytes before `position`, and how many.
    seen: Option<([u8; 32], u64)>,
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
            seen: None,
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
        if size_end == self.position && self.seen.is_some() && !self.swapped {
            // As long as we left it. Were it edited to the same length, the next growth would tell.
            return Ok(Polled::Idle);
        }
        let Some(reader) = self.reader.take() else { return Ok(Polled::Idle) };
        let polled = self.advance(&reader, each);
        self.reader = Some(reader);
        polled
    }

    fn advance(&mut self, reader: &Reader, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        if mutant::is(Mutant::PartialBytesKept) {
            return self.advance_keeping_partial_bytes(reader, each);
        }
        let end = reader.stable_end(self.timeout)?;
        if end < self.position {
            // Of a file that was cut the beginning still stands; of another file nothing is known.
            let (to, why) = if self.swapped { (self.place.base, Why::Replaced) } else { (end, Why::Shorter) };
            return Ok(self.reset(to, why));
        }
        match self.still_there(reader) {
            Ok(true) => self.swapped = false,
            Ok(false) => return Ok(self.reset(self.place.base, Why::Replaced)),
            Err(Error::Shrunk { .. }) => return Ok(Polled::Idle),
            Err(error) => return Err(error),
        }
        if end == self.position {
            return Ok(Polled::Idle);
        }
        let from = self.position;
        let mut lines = match reader.lines(from, end, self.line_bytes_max) {
            Err(Error::NotABoundary(_)) => {
                let to = if from > self.place.base { self.place.base } else { reader.first() };
                return Ok(self.reset(to, Why::Replaced));
            }
            other => other?,
        };
        let mut outcome = Ok(Polled::Delivered);
        while lines.position().0 - from.0 < POLL_BYTES {
            match lines.next() {
                Ok(Some(item)) => each(item),
                Ok(None) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        // What was delivered is not delivered again, whatever failed behind it.
        self.position = lines.position();
        self.seen = None;
        outcome.and_then(|polled| self.remember(reader).map(|()| polled))
    }

    fn reset(&mut self, to: Position, why: Why) -> Polled {
        self.position = to;
        self.seen = None;
        self.swapped = false;
        Polled::Reset { to, why }
    }

    /// Whether the bytes before the position are those that were delivered.
    fn still_there(&mut self, reader: &Reader) -> Result<bool> {
        let Some((hash, len)) = self.seen else {
            self.remember(reader)?;
            return Ok(true);
        };
        let from = Position(self.position.0 - len);
        Ok(crate::seal::hash_range(reader, from, self.position, &[])?.1 == hash)
    }

    fn remember(&mut self, reader: &Reader) -> Result<()> {
        let len = SEEN_BYTES.min(self.position.0.saturating_sub(reader.first().0));
        let from = Position(self.position.0 - len);
        self.seen = Some((crate::seal::hash_range(reader, from, self.position, &[])?.1, len));
        Ok(())
    }

    /// The follower without its rule: what it read of an incomplete line stays, and the next bytes are put behind it.
    fn advance_keeping_partial_bytes(&mut self, reader: &Reader, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        let mut bytes = vec![0; 1 << 20];
        let at = Position(self.position.0 + self.kept.len() as u64);
        let read = reader.read_at(at, &mut bytes)?;
        self.kept.extend_from_slice(&bytes[..read]);
        self.seen = Some(([0; 32], 0));
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
