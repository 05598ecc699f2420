//! Detection of moved bytes: distinguishes removed and inserted bytes from changed ones.
//!
//! There are two sources for the distance: the difference between the log's size and the recorded end, and a line that
//! equals the last folded line. Both are guesses until the hashes match there.

use duolog_log::{Item, hash_line};
use duolog_types::Position;

use super::sealed::{Compared, Extent, Match, last_block_matches, units};
use super::{Damage, DamageKind, SealMismatch};
use crate::error::Result;
use crate::store::{Join, Known};

/// The maximum number of guesses that are checked, nearest first.
const GUESSES_MAX: usize = 16;

/// A possible distance of the moved bytes.
#[derive(Clone, Copy)]
struct Guess {
    shift: i64,
    /// The original position of the last folded line, if an equal line is at this distance from it.
    line_from: Option<Position>,
}

impl Join {
    /// Returns the single removal or insertion that explains why all following bytes moved. `None` if there is none.
    pub(super) fn find_shift(&self, known: &Known, extent: &Extent<'_>, compared: &Compared) -> Result<Option<Damage>> {
        let Some((from, first_to)) = compared.rest() else { return Ok(None) };
        if self.is_last_line_in_place(known, extent)? {
            return Ok(None);
        }
        let mut best: Option<(Position, i64)> = None;
        for guess in self.guesses(known, extent)? {
            let Some(to) = self.moved_from(known, extent, compared, from, guess)? else { continue };
            if best.is_none_or(|(best, _)| to < best) {
                best = Some((to, guess.shift));
            }
        }
        Ok(best.map(|(to, shift)| {
            let bytes = shift.unsigned_abs();
            let change = if shift < 0 { SealMismatch::Removed { bytes } } else { SealMismatch::Inserted { bytes } };
            Damage::new(DamageKind::Seal(change), from, to, first_to)
        }))
    }

    /// Returns the position from which sealed bytes match when moved by the guess, up to the last of them. `None` if
    /// they do not.
    fn moved_from(
        &self,
        known: &Known,
        extent: &Extent<'_>,
        compared: &Compared,
        from: Position,
        guess: Guess,
    ) -> Result<Option<Position>> {
        let (Some(last), Some(start)) = (&known.seal, compared.start) else { return Ok(None) };
        let mut moved_from = last.to_position;
        // The last block is checked first: that is usually enough to reject a wrong guess.
        if last_block_matches(extent, last, guess.shift)?.unwrap_or(true) {
            moved_from = from;
            self.each_seal(known, start, |seal, start| {
                for unit in units(extent, seal, start.before.as_ref(), guess.shift)? {
                    if unit.result != Match::Same && unit.from >= from {
                        moved_from = unit.to;
                    }
                }
                Ok(())
            })?;
        }
        let moved_from = guess.line_from.map_or(moved_from, |line_from| moved_from.min(line_from.max(from)));
        Ok((moved_from < last.to_position).then_some(moved_from))
    }

    fn guesses(&self, known: &Known, extent: &Extent<'_>) -> Result<Vec<Guess>> {
        let (recorded_to, base) = (known.watermark.recorded_to, extent.base);
        let between = |to: Position, from: Position| i64::try_from(i128::from(to.0) - i128::from(from.0)).ok();
        let mut guesses = Vec::new();
        if let Some((position, hash)) = known.watermark.folded {
            let end = extent.reader.stable_end(self.limits.busy_timeout)?;
            let mut lines = extent.reader.lines(base, end, self.limits.line_bytes_max)?;
            while let Some(item) = lines.next()? {
                let Item::Line(line) = item else { continue };
                if let Some(shift) = between(line.end, position).filter(|shift| *shift != 0)
                    && hash_line(line.bytes) == hash
                {
                    let line_from = Some(Position(position.0.saturating_sub(line.end.0 - line.start.0)));
                    guesses.push(Guess { shift, line_from });
                    keep_nearest(&mut guesses);
                }
            }
        }
        let by_size = between(extent.end, recorded_to).filter(|shift| *shift != 0);
        if let Some(shift) = by_size.filter(|shift| guesses.iter().all(|guess| guess.shift != *shift)) {
            guesses.push(Guess { shift, line_from: None });
        }
        Ok(guesses)
    }
}

/// Drops the farthest guesses if there are too many.
fn keep_nearest(guesses: &mut Vec<Guess>) {
    if guesses.len() > GUESSES_MAX {
        guesses.sort_by_key(|guess| guess.shift.unsigned_abs());
        guesses.truncate(GUESSES_MAX);
    }
}
