//! The progress of a follower in one log, and the hashes by which it recognises the log.
//!
//! The state is a position after a newline, and hashes of the bytes before it. Bytes of an incomplete line are dropped
//! and read again, so that a rollback or a repair can remove them before a reader sees them. It keeps no file open.

use std::collections::VecDeque;

use duolog_types::{Position, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::fs::Ident;
use crate::reader::{Item, Line, Reader, Writers};
use crate::tail::{Polled, ResetReason};

/// Number of bytes before the position that are compared before any byte after it is delivered.
const SEEN_BYTES: u64 = 4096;
/// Number of lines of one step whose ends are remembered: the last ones.
const SEEN_LINES: usize = 16;

/// A remembered place: the hash of some bytes before it.
struct Seen {
    end: Position,
    bytes: u64,
    hash: [u8; 32],
}

/// How a log is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Which program writes it.
    pub(crate) writers: Writers,
    /// Maximum length of a line in bytes.
    pub(crate) line_bytes_max: usize,
    /// Number of bytes that one step delivers, rounded up to the end of a line, so that the caller can stop in between.
    pub(crate) step_bytes: u64,
}

/// The progress in one log.
pub(crate) struct Trail {
    position: Position,
    /// The file that lines were delivered from.
    ident: Option<Ident>,
    /// The ends of delivered lines, oldest first; the last is `position`, or none is remembered.
    seen: Vec<Seen>,
    /// Maximum number of remembered places: close together near the position, and far apart long before it.
    places: usize,
    /// True if another file replaced the one that lines were delivered from, and was not compared with it yet.
    swapped: bool,
    /// Used only by a mutant.
    kept: Vec<u8>,
}

impl Trail {
    /// Starts at a position, which must be the start of a line.
    pub(crate) fn at(position: Position, places: usize) -> Self {
        Self { position, ident: None, seen: Vec::new(), places, swapped: false, kept: Vec::new() }
    }

    /// Returns the position after the last delivered line.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Records that there is no file, and goes back to `base`.
    pub(crate) fn see_no_file(&mut self, base: Position) -> Polled {
        self.ident = None;
        if self.position > base { self.reset(base, ResetReason::Missing) } else { Polled::Idle }
    }

    /// Records which file is at the path now.
    pub(crate) fn see_file(&mut self, ident: Ident) {
        self.swapped |= self.ident.is_some_and(|before| before != ident);
        self.ident = Some(ident);
    }

    /// Returns true if a log of this size was delivered completely. An edit that keeps the length is found when the log
    /// grows.
    pub(crate) fn is_at_end(&self, size_end: Position) -> bool {
        size_end == self.position && !self.seen.is_empty() && !self.swapped
    }

    /// Delivers what is new and stable.
    pub(crate) fn advance(&mut self, reader: &Reader, terms: &Terms, each: &mut dyn FnMut(Item<'_>)) -> Result<Polled> {
        if mutant::is(Mutant::PartialBytesKept) {
            return self.advance_keeping_partial_bytes(reader, terms, each);
        }
        let end = reader.whole_end(terms.writers)?;
        if end < self.position || !self.is_unchanged(reader)? {
            let why = if end < self.position && !self.swapped { ResetReason::Shorter } else { ResetReason::Replaced };
            let to = self.last_unchanged(reader, end)?;
            return Ok(self.reset(to, why));
        }
        self.swapped = false;
        if end == self.position {
            return Ok(Polled::Idle);
        }
        let from = self.position;
        let mut lines = match reader.lines(from, end, terms.line_bytes_max) {
            // No line was delivered yet: the position was never one of this file.
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
        // Delivered lines are not delivered again, even if the read after them failed.
        self.position = lines.position();
        for end in ends {
            self.remember(reader, end)?;
        }
        outcome
    }

    /// Continues at an earlier position.
    pub(crate) fn go_back(&mut self, to: Position) {
        self.reset(to, ResetReason::Replaced);
    }

    fn reset(&mut self, to: Position, why: ResetReason) -> Polled {
        self.position = to;
        self.seen.retain(|seen| seen.end <= to);
        self.swapped = false;
        Polled::Reset { to, why }
    }

    /// Returns true if the bytes before the position are those that were delivered.
    fn is_unchanged(&mut self, reader: &Reader) -> Result<bool> {
        match self.seen.last() {
            Some(last) if last.end == self.position => last.is_in(reader),
            // Not remembered: the caller chose this start, or a read failed.
            _ => self.remember(reader, self.position).map(|()| true),
        }
    }

    /// Returns the last remembered place, not after `end`, that is unchanged; without one, the end of the archived
    /// segments.
    fn last_unchanged(&self, reader: &Reader, end: Position) -> Result<Position> {
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
            // Every other place of the older half is dropped: a reset may go back further than needed, but never
            // delivers wrong lines.
            let (mut number, places) = (0, self.places);
            self.seen.retain(|_| {
                number += 1;
                number > places / 2 || number % 2 == 0
            });
        }
        self.seen.push(Seen { end, bytes, hash });
        Ok(())
    }

    /// The mutant: bytes of an incomplete line are kept, and the next bytes are appended to them.
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
