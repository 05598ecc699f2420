//! The way a follower has come through one log: how far, and by what it would know it again.
//!
//! Its state is a position after a newline, and hashes of the bytes before it. Bytes of an incomplete line are dropped and
//! read again, so a rollback or a repair can take them away without anyone having seen them. It holds no file open.

use std::collections::VecDeque;

use duolog_types::{Position, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::fs::Ident;
use crate::reader::{Item, Line, Reader, Writers};
use crate::tail::{Polled, ResetReason};

/// The bytes before the position that are compared before anything behind it is believed.
const SEEN_BYTES: u64 = 4096;
/// The lines of one step whose ends are remembered: its last ones.
const SEEN_LINES: usize = 16;

/// A place that would be known again: the hash of so many bytes before it.
struct Seen {
    end: Position,
    bytes: u64,
    hash: [u8; 32],
}

/// How a log is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Who writes it.
    pub(crate) writers: Writers,
    /// The bytes of a line at most.
    pub(crate) line_bytes_max: usize,
    /// The bytes that one step delivers, up to the end of a line, so that it can be stopped in between.
    pub(crate) step_bytes: u64,
}

/// The way through one log.
pub(crate) struct Trail {
    position: Position,
    /// Which file was delivered from.
    ident: Option<Ident>,
    /// Places where lines that were delivered end, oldest first; the last is `position`, or none is remembered.
    seen: Vec<Seen>,
    /// How many places are remembered: close together near the position and far apart long before it.
    places: usize,
    /// Whether another file took the place of the one that was delivered from, and was not compared with it yet.
    swapped: bool,
    /// Only where a rule is removed on purpose.
    kept: Vec<u8>,
}

impl Trail {
    /// Begins at a position, which must be the start of a line.
    pub(crate) fn at(position: Position, places: usize) -> Self {
        Self { position, ident: None, seen: Vec::new(), places, swapped: false, kept: Vec::new() }
    }

    /// The position after the last line delivered.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Takes note that there is no file, and goes back to where it began.
    pub(crate) fn meet_nothing(&mut self, base: Position) -> Polled {
        self.ident = None;
        if self.position > base { self.reset(base, ResetReason::Missing) } else { Polled::Idle }
    }

    /// Takes note of which file stands there now.
    pub(crate) fn meet(&mut self, ident: Ident) {
        self.swapped |= self.ident.is_some_and(|before| before != ident);
        self.ident = Some(ident);
    }

    /// Whether a log of this size was delivered to its last byte. Were it edited to the same length, the next growth
    /// would tell.
    pub(crate) fn is_at_end(&self, size_end: Position) -> bool {
        size_end == self.position && !self.seen.is_empty() && !self.swapped
    }

    /// Delivers what is new and stable.
    pub(crate) fn advance(&mut self, reader: &Reader, terms: &Terms, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        if mutant::is(Mutant::PartialBytesKept) {
            return self.advance_keeping_partial_bytes(reader, terms, each);
        }
        let end = reader.whole_end(terms.writers)?;
        if end < self.position || !self.still_there(reader)? {
            let why = if end < self.position && !self.swapped { ResetReason::Shorter } else { ResetReason::Replaced };
            let to = self.last_good(reader, end)?;
            return Ok(self.reset(to, why));
        }
        self.swapped = false;
        if end == self.position {
            return Ok(Polled::Idle);
        }
        let from = self.position;
        let mut lines = match reader.lines(from, end, terms.line_bytes_max) {
            // Nothing was delivered yet that could have told: the position was never one of this file's.
            Err(Error::NotABoundary(_)) => return Ok(self.reset(reader.first(), ResetReason::Replaced)),
            other => other?,
        };
        let mut outcome = Ok(Polled::Delivered);
        let remembered = SEEN_LINES.min(self.places);
        let mut ends = VecDeque::with_capacity(remembered);
        while lines.position().0 - from.0 < terms.step_bytes {
            match lines.next() {
                Ok(Some(item)) => {
                    if ends.len() == remembered {
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

    /// Goes on from an earlier position.
    pub(crate) fn go_back(&mut self, to: Position) {
        self.reset(to, ResetReason::Replaced);
    }

    fn reset(&mut self, to: Position, why: ResetReason) -> Polled {
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
        Ok(reader.base().min(self.position))
    }

    fn remember(&mut self, reader: &Reader, end: Position) -> Result<()> {
        let bytes = SEEN_BYTES.min(end.0.saturating_sub(reader.first().0));
        let hash = crate::seal::hash_range(reader, Position(end.0 - bytes), end, &[])?.1;
        self.seen.retain(|seen| seen.end < end);
        if self.seen.len() >= self.places {
            // Every other one of the older half goes: a reset then goes back further, but never too far.
            let (mut number, places) = (0, self.places);
            self.seen.retain(|_| {
                number += 1;
                number > places / 2 || number % 2 == 0
            });
        }
        self.seen.push(Seen { end, bytes, hash });
        Ok(())
    }

    /// The follower without its rule: what it read of an incomplete line stays, and the next bytes are put behind it.
    fn advance_keeping_partial_bytes(
        &mut self,
        reader: &Reader,
        terms: &Terms,
        each: &mut dyn FnMut(Item<'_>),
    ) -> Result<Polled> {
        let (end, rest) = reader.whole_end_and_rest(terms.writers)?;
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
