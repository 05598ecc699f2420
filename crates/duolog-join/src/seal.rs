//! Seals: a hash chain over synced bytes. It shows any later change before the end of the last seal.
//!
//! The last seal grows with the log until it covers [`SEAL_BYTES`]; then the next one begins. Before it grows, its
//! bytes are hashed again in the same pass, so that a change cannot be sealed.

use duolog_log::{Blocks, Reader, chain, hash_range_and_blocks};
use duolog_state::Tx;
use duolog_state::owned::repairs::{self, RepairAction};
use duolog_state::owned::seals::{self, SealExtension, SealRow};
use duolog_types::limits::SEAL_BYTES;
use duolog_types::{Durability, Position, SessionId};

use crate::error::{Error, Result};
use crate::store::{Join, Known};

/// The maximum number of seals per transaction.
const SEALS_AT_ONCE: usize = 256;

/// Seals over synced bytes that are not written yet.
pub(crate) struct SealPlan {
    /// The last seal and its extension.
    grown: Option<(SealRow, SealExtension)>,
    new: Vec<SealRow>,
    to: Position,
}

impl SealPlan {
    /// Returns the end of the seals.
    pub(crate) fn to(&self) -> Position {
        self.to
    }

    /// Writes all seals. Returns false if another process sealed meanwhile; then its seals are kept.
    pub(crate) fn put(&self, tx: &mut Tx<'_>) -> Result<bool> {
        if let Some((last, grown)) = &self.grown
            && !seals::extend(tx, last, grown)?
        {
            return Ok(false);
        }
        if self.new.is_empty() {
            return Ok(true);
        }
        match tx.savepoint(|tx| self.new.iter().try_for_each(|row| seals::insert(tx, row))) {
            Ok(()) => Ok(true),
            Err(error) if Error::from(error.clone()).is_taken() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Join {
    /// Seals a session's log up to its fold checkpoint, whose bytes are synced.
    pub(crate) fn seal(&self, session: &SessionId) -> Result<()> {
        loop {
            let known = self.known(session)?;
            let Some(to) = known.catalog.as_ref().map(|row| row.position) else { return Ok(()) };
            if known.seal.as_ref().is_some_and(|last| last.to_position >= to) {
                return Ok(());
            }
            let Some(reader) = known.reader(&self.disk)? else { return Ok(()) };
            let Some(plan) = self.plan_seals(&known, &reader, to)? else { return Ok(()) };
            let sealed_to = plan.to;
            let put = self.write(Durability::Process, move |tx| plan.put(tx));
            if put.map_err(|error| error.of_session(session))? {
                self.set_sealed(session, sealed_to);
                if sealed_to >= to {
                    return Ok(());
                }
            }
        }
    }

    /// Computes the seals for a log up to `to`, which must be synced, or as many as fit into one transaction. `None` if
    /// it is sealed up to there.
    pub(crate) fn plan_seals(&self, known: &Known, reader: &Reader, to: Position) -> Result<Option<SealPlan>> {
        let (session, epoch, last) = (&known.row.id, known.row.log_epoch, known.seal.as_ref());
        if last.is_some_and(|last| last.to_position >= to) {
            return Ok(None);
        }
        let grown = match last {
            Some(last) if last.to_position.0 - last.from_position.0 < SEAL_BYTES => self.grow(last, reader, to)?,
            _ => None,
        };
        let mut from = grown.as_ref().map(|(_, grown)| grown.to_position).or(last.map(|last| last.to_position));
        let mut hash = grown.as_ref().map(|(_, grown)| grown.hash).or(last.map(|last| last.hash));
        let mut ord = last.map_or(0, |last| last.ord + 1);
        let mut new = Vec::new();
        while from.unwrap_or(known.row.log_base) < to && new.len() < SEALS_AT_ONCE {
            let start = from.unwrap_or(known.row.log_base);
            let end = Position(to.0.min(start.0 + SEAL_BYTES));
            let hashed = hash_range_and_blocks(reader, start, end, &[], Blocks::default())?;
            let link = chain(hash.as_ref(), &hashed.whole);
            new.push(SealRow {
                session_id: session.clone(),
                epoch,
                ord,
                home_id: self.home,
                from_position: start,
                to_position: end,
                hash: link,
                sealed_at: self.clock.now(),
                blocks: Some(hashed.blocks),
            });
            (from, hash, ord) = (Some(end), Some(link), ord + 1);
        }
        Ok(Some(SealPlan { grown, new, to: from.unwrap_or(to) }))
    }

    /// Computes the extension of the last seal. `None` if its bytes have changed.
    fn grow(&self, last: &SealRow, reader: &Reader, to: Position) -> Result<Option<(SealRow, SealExtension)>> {
        let before = self.hash_before(last)?;
        let (from, end) = (last.from_position, Position(to.0.min(last.from_position.0 + SEAL_BYTES)));
        // Complete blocks are not hashed again: the bytes of the whole seal are compared below.
        let blocks = match &last.blocks {
            Some(known) => Blocks::resume(known, last.to_position.0 - from.0),
            None => Blocks::default(),
        };
        let hashed = hash_range_and_blocks(reader, from, end, &[last.to_position], blocks)?;
        if hashed.so_far.first().is_none_or(|hash| chain(before.as_ref(), hash) != last.hash) {
            self.note_unsealed(last)?;
            return Ok(None);
        }
        let grown = SealExtension {
            to_position: end,
            hash: chain(before.as_ref(), &hashed.whole),
            blocks: hashed.blocks,
            sealed_at: self.clock.now(),
        };
        Ok(Some((last.clone(), grown)))
    }

    /// Returns the hash of the previous seal. A seal does not change once there is a next one.
    fn hash_before(&self, seal: &SealRow) -> Result<Option<[u8; 32]>> {
        let Some(ord) = seal.ord.checked_sub(1) else { return Ok(None) };
        let page = self.state.read(|tx| seals::page(tx, &seal.session_id, seal.epoch, ord, 1))?;
        Ok(page.first().map(|seal| seal.hash))
    }

    /// Sets the sealed end in this process's writer.
    pub(crate) fn set_sealed(&self, session: &SessionId, to: Position) {
        if let Some(open) = self.open.get(session) {
            open.writer.sealed(to);
        }
    }

    fn note_unsealed(&self, seal: &SealRow) -> Result<bool> {
        let mut repair = self.repair_row(&seal.session_id, seal.epoch, RepairAction::Unsealed, seal.from_position);
        repair.bytes = seal.to_position.0 - seal.from_position.0;
        self.write(Durability::Power, move |tx| Ok(repairs::note(tx, &repair)?))
    }
}
