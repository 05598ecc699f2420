//! Which sealed bytes are not what they were: block by block where a seal knows its blocks, as a whole where it does not.

use duolog_log::{Reader, chain, hash_blocks, hash_range};
use duolog_state::owned::seals::{self, SealRow};
use duolog_types::limits::{SEAL_BLOCK_BYTES, SEAL_BLOCK_HASH_BYTES};
use duolog_types::{Position, SessionId};

use super::{DAMAGE_LISTED, Damage, DamageKind, SealMismatch};
use crate::error::Result;
use crate::store::{Join, Known};

const SEAL_PAGE: u32 = 256;

/// The bytes that a log has.
pub(super) struct Extent<'r> {
    pub(super) reader: &'r Reader,
    pub(super) base: Position,
    /// Its size, a torn last line included.
    pub(super) end: Position,
}

impl Extent<'_> {
    /// Where sealed bytes would stand if all were moved by `shift`; nothing where the log has no such place.
    fn moved(&self, from: Position, to: Position, shift: i64) -> Option<(Position, Position)> {
        let (from, to) = (from.0.checked_add_signed(shift)?, to.0.checked_add_signed(shift)?);
        (from >= self.base.0 && to <= self.end.0).then_some((Position(from), Position(to)))
    }
}

/// How sealed bytes stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    Same,
    Differs,
    /// The log has no such place.
    Gone,
}

/// A stretch with a hash of its own.
pub(super) struct Unit {
    pub(super) from: Position,
    pub(super) to: Position,
    pub(super) stands: Stands,
}

/// Stretches one behind the other that differ.
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

/// Where the seals of a log begin to be looked at again.
#[derive(Clone, Copy, Default)]
pub(super) struct Start {
    ord: u64,
    pub(super) before: Option<[u8; 32]>,
}

/// How the bytes of a log compare with its seals.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) seals: u64,
    /// Runs behind which something is as it was; the first of them.
    pub(super) ended: Vec<Run>,
    pub(super) ended_count: u64,
    /// The range from the first to the last of those that `ended` has no room for.
    pub(super) unlisted: Option<Run>,
    /// A run behind which nothing is.
    pub(super) last: Option<Run>,
    /// The first stretch that the log is too short for.
    pub(super) gone: Option<(Position, Position)>,
    /// The seal in which the last run, or what is gone, begins.
    pub(super) start: Option<Start>,
}

impl Compared {
    fn add(&mut self, unit: &Unit, seal: Start) {
        match unit.stands {
            Stands::Same => {
                self.start = None;
                let Some(run) = self.last.take() else { return };
                self.ended_count += 1;
                if self.ended.len() < DAMAGE_LISTED {
                    self.ended.push(run);
                } else {
                    self.unlisted.get_or_insert(run).to = run.to;
                }
            }
            Stands::Differs => {
                self.start.get_or_insert(seal);
                let run = Run { from: unit.from, first_to: unit.to, to: unit.to };
                self.last.get_or_insert(run).to = unit.to;
            }
            Stands::Gone => {
                self.start.get_or_insert(seal);
                self.gone.get_or_insert((unit.from, unit.to));
            }
        }
    }

    /// Where what is not known to stand begins, and the end of the stretch it begins with.
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

    /// Visits the seals of a log in order, each with where it stands in the chain.
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
                // The recorded hash, not ours: one changed place must not make every later seal look changed.
                start = Start { ord: seal.ord + 1, before: Some(seal.hash) };
            }
            if page.len() < SEAL_PAGE as usize {
                return Ok(());
            }
        }
    }
}

/// How the bytes of a seal stand, if all were moved by `shift`: as one where it holds, else as finely as it knows them.
pub(super) fn units(extent: &Extent<'_>, seal: &SealRow, before: Option<&[u8; 32]>, shift: i64) -> Result<Vec<Unit>> {
    let (from, to) = (seal.from_position, seal.to_position);
    let one = |stands| Ok(vec![Unit { from, to, stands }]);
    let whole = extent.moved(from, to, shift);
    if let Some((from, to)) = whole {
        let (_, bytes) = hash_range(extent.reader, from, to, &[])?;
        if chain(before, &bytes) == seal.hash {
            return one(Stands::Same);
        }
    }
    let Some(known) = blocks(seal) else {
        return one(if whole.is_some() { Stands::Differs } else { Stands::Gone });
    };
    let units = block_units(extent, seal, known, shift)?;
    // The short hashes may agree by chance; the long one does not.
    if whole.is_some() && units.iter().all(|unit| unit.stands == Stands::Same) {
        return one(Stands::Differs);
    }
    Ok(units)
}

/// Whether the last block of a seal stands moved by `shift`; nothing where the seal does not know it.
pub(super) fn last_block_stands(extent: &Extent<'_>, seal: &SealRow, shift: i64) -> Result<Option<bool>> {
    let Some(known) = blocks(seal) else { return Ok(None) };
    let (Some((from, to)), Some(hash)) = (ranges(seal).last(), known.chunks(SEAL_BLOCK_HASH_BYTES).last()) else {
        return Ok(None);
    };
    let Some((from, to)) = extent.moved(from, to, shift) else { return Ok(Some(false)) };
    Ok(Some(hash_blocks(extent.reader, from, to)? == hash))
}

fn block_units(extent: &Extent<'_>, seal: &SealRow, known: &[u8], shift: i64) -> Result<Vec<Unit>> {
    let mut units: Vec<_> = ranges(seal).map(|(from, to)| Unit { from, to, stands: Stands::Gone }).collect();
    let there = |unit: &Unit| extent.moved(unit.from, unit.to, shift);
    let first = units.iter().position(|unit| there(unit).is_some()).unwrap_or(units.len());
    let count = units[first..].iter().take_while(|unit| there(unit).is_some()).count();
    let standing = &mut units[first..first + count];
    let span = standing.first().and_then(there).zip(standing.last().and_then(there));
    let Some(((from, _), (_, to))) = span else { return Ok(units) };
    let found = hash_blocks(extent.reader, from, to)?;
    let pairs = found.chunks(SEAL_BLOCK_HASH_BYTES).zip(known.chunks(SEAL_BLOCK_HASH_BYTES).skip(first));
    for (unit, (found, known)) in standing.iter_mut().zip(pairs) {
        unit.stands = if found == known { Stands::Same } else { Stands::Differs };
    }
    Ok(units)
}

/// The blocks of a seal, in order.
fn ranges(seal: &SealRow) -> impl Iterator<Item = (Position, Position)> + use<> {
    let (from, to) = (seal.from_position.0, seal.to_position.0);
    (0..(to - from).div_ceil(SEAL_BLOCK_BYTES)).map(move |number| {
        let start = from + number * SEAL_BLOCK_BYTES;
        (Position(start), Position(to.min(start + SEAL_BLOCK_BYTES)))
    })
}

/// The hashes of a seal's blocks, if it knows one of each.
fn blocks(seal: &SealRow) -> Option<&[u8]> {
    let count = (seal.to_position.0 - seal.from_position.0).div_ceil(SEAL_BLOCK_BYTES);
    seal.blocks.as_deref().filter(|blocks| blocks.len() as u64 == count * SEAL_BLOCK_HASH_BYTES as u64)
}
