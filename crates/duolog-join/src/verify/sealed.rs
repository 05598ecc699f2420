//! Comparison of sealed bytes with their seals: by block if a seal has block hashes, otherwise as a whole.

use duolog_log::{Reader, chain, hash_blocks, hash_range};
use duolog_state::owned::seals::{self, SealRow};
use duolog_types::limits::{SEAL_BLOCK_BYTES, SEAL_BLOCK_HASH_BYTES};
use duolog_types::{Position, SessionId};

use super::{DAMAGE_LISTED, Damage, DamageKind, SealMismatch};
use crate::error::Result;
use crate::store::{Join, Known};

const SEAL_PAGE: u32 = 256;

/// The extent of a log.
pub(super) struct Extent<'r> {
    pub(super) reader: &'r Reader,
    pub(super) base: Position,
    /// Its end, including a torn last line.
    pub(super) end: Position,
}

impl Extent<'_> {
    /// Returns the positions of sealed bytes if all were moved by `shift`. `None` if they are outside the log.
    fn moved(&self, from: Position, to: Position, shift: i64) -> Option<(Position, Position)> {
        let (from, to) = (from.0.checked_add_signed(shift)?, to.0.checked_add_signed(shift)?);
        (from >= self.base.0 && to <= self.end.0).then_some((Position(from), Position(to)))
    }
}

/// The result of comparing a range with its hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Same,
    Differs,
    /// The range is outside the log.
    Gone,
}

/// A range with its own hash.
pub(super) struct Unit {
    pub(super) from: Position,
    pub(super) to: Position,
    pub(super) result: Match,
}

/// Consecutive ranges that differ.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) from: Position,
    pub(super) first_to: Position,
    to: Position,
}

impl Run {
    pub(super) fn damage(&self, change: SealMismatch) -> Damage {
        Damage::new(DamageKind::Seal(change), self.from, self.to, self.first_to)
    }
}

/// A position in the chain of seals.
#[derive(Clone, Copy, Default)]
pub(super) struct Start {
    ord: u64,
    pub(super) before: Option<[u8; 32]>,
}

/// The comparison of a log with its seals.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) seals: u64,
    /// The first runs that are followed by unchanged bytes.
    pub(super) ended: Vec<Run>,
    pub(super) ended_count: u64,
    /// The range from the first to the last run that is not in `ended`, which is limited.
    pub(super) unlisted: Option<Run>,
    /// A run that no unchanged bytes follow.
    pub(super) last: Option<Run>,
    /// The first range that is outside the log.
    pub(super) gone: Option<(Position, Position)>,
    /// The seal in which the last run, or the missing part, begins.
    pub(super) start: Option<Start>,
}

impl Compared {
    fn add(&mut self, unit: &Unit, seal: Start) {
        match unit.result {
            Match::Same => {
                self.start = None;
                let Some(run) = self.last.take() else { return };
                self.ended_count += 1;
                if self.ended.len() < DAMAGE_LISTED {
                    self.ended.push(run);
                } else {
                    self.unlisted.get_or_insert(run).to = run.to;
                }
            }
            Match::Differs => {
                self.start.get_or_insert(seal);
                let run = Run { from: unit.from, first_to: unit.to, to: unit.to };
                self.last.get_or_insert(run).to = unit.to;
            }
            Match::Gone => {
                self.start.get_or_insert(seal);
                self.gone.get_or_insert((unit.from, unit.to));
            }
        }
    }

    /// Returns the start of the bytes that do not match up to the end, and the end of the first range of them.
    pub(super) fn rest(&self) -> Option<(Position, Position)> {
        self.last.map(|run| (run.from, run.first_to)).or(self.gone)
    }
}

impl Join {
    /// Compares a log with its seals.
    pub(super) fn compare(&self, known: &Known, extent: &Extent<'_>, mut each: impl FnMut(u64)) -> Result<Compared> {
        let mut compared = Compared::default();
        self.each_seal(known, Start::default(), |seal, start| {
            for unit in units(extent, seal, start.before.as_ref(), 0)? {
                compared.add(&unit, start);
            }
            compared.seals += 1;
            each(seal.to_position.0 - extent.base.0);
            Ok(())
        })?;
        Ok(compared)
    }

    /// Calls `each` for the seals of a log in order, with their positions in the chain.
    pub(super) fn each_seal(
        &self,
        known: &Known,
        mut start: Start,
        mut each: impl FnMut(&SealRow, Start) -> Result<()>,
    ) -> Result<()> {
        let (session, epoch): (&SessionId, _) = (&known.row.id, known.row.log_epoch);
        loop {
            let page = self.state.read(|tx| seals::page(tx, session, epoch, start.ord, SEAL_PAGE))?;
            for seal in &page {
                each(seal, start)?;
                // The recorded hash, not the computed one: one changed place must not make every later seal differ.
                start = Start { ord: seal.ord + 1, before: Some(seal.hash) };
            }
            if page.len() < SEAL_PAGE as usize {
                return Ok(());
            }
        }
    }
}

/// Compares the bytes of a seal, moved by `shift`: as one range if the seal matches, otherwise by block if it has block
/// hashes.
pub(super) fn units(extent: &Extent<'_>, seal: &SealRow, before: Option<&[u8; 32]>, shift: i64) -> Result<Vec<Unit>> {
    let (from, to) = (seal.from_position, seal.to_position);
    let single = |result| Ok(vec![Unit { from, to, result }]);
    let range = extent.moved(from, to, shift);
    if let Some((from, to)) = range {
        let (_, bytes) = hash_range(extent.reader, from, to, &[])?;
        if chain(before, &bytes) == seal.hash {
            return single(Match::Same);
        }
    }
    let Some(known) = blocks(seal) else {
        return single(if range.is_some() { Match::Differs } else { Match::Gone });
    };
    let units = block_units(extent, seal, known, shift)?;
    // Short hashes may match by chance; the long one does not.
    if range.is_some() && units.iter().all(|unit| unit.result == Match::Same) {
        return single(Match::Differs);
    }
    Ok(units)
}

/// Returns true if the last block of a seal matches when moved by `shift`. `None` if the seal has no block hashes.
pub(super) fn last_block_matches(extent: &Extent<'_>, seal: &SealRow, shift: i64) -> Result<Option<bool>> {
    let Some(known) = blocks(seal) else { return Ok(None) };
    let (Some((from, to)), Some(hash)) = (ranges(seal).last(), known.chunks(SEAL_BLOCK_HASH_BYTES).last()) else {
        return Ok(None);
    };
    let Some((from, to)) = extent.moved(from, to, shift) else { return Ok(Some(false)) };
    Ok(Some(hash_blocks(extent.reader, from, to)? == hash))
}

fn block_units(extent: &Extent<'_>, seal: &SealRow, known: &[u8], shift: i64) -> Result<Vec<Unit>> {
    let mut units: Vec<_> = ranges(seal).map(|(from, to)| Unit { from, to, result: Match::Gone }).collect();
    let moved = |unit: &Unit| extent.moved(unit.from, unit.to, shift);
    let first = units.iter().position(|unit| moved(unit).is_some()).unwrap_or(units.len());
    let count = units[first..].iter().take_while(|unit| moved(unit).is_some()).count();
    let inside = &mut units[first..first + count];
    let span = inside.first().and_then(moved).zip(inside.last().and_then(moved));
    let Some(((from, _), (_, to))) = span else { return Ok(units) };
    let found = hash_blocks(extent.reader, from, to)?;
    let pairs = found.chunks(SEAL_BLOCK_HASH_BYTES).zip(known.chunks(SEAL_BLOCK_HASH_BYTES).skip(first));
    for (unit, (found, known)) in inside.iter_mut().zip(pairs) {
        unit.result = if found == known { Match::Same } else { Match::Differs };
    }
    Ok(units)
}

/// Returns the block ranges of a seal, in order.
fn ranges(seal: &SealRow) -> impl Iterator<Item = (Position, Position)> + use<> {
    let (from, to) = (seal.from_position.0, seal.to_position.0);
    (0..(to - from).div_ceil(SEAL_BLOCK_BYTES)).map(move |number| {
        let start = from + number * SEAL_BLOCK_BYTES;
        (Position(start), Position(to.min(start + SEAL_BLOCK_BYTES)))
    })
}

/// Returns the block hashes of a seal, if it has one for each block.
fn blocks(seal: &SealRow) -> Option<&[u8]> {
    let count = (seal.to_position.0 - seal.from_position.0).div_ceil(SEAL_BLOCK_BYTES);
    seal.blocks.as_deref().filter(|blocks| blocks.len() as u64 == count * SEAL_BLOCK_HASH_BYTES as u64)
}
