//! Seals: a chain of hashes over synced bytes, by which any later change below the last one shows.
//!
//! The last seal grows with the log until it covers [`SEAL_BYTES`]; then the next begins. Before it grows, what it
//! covered is hashed again in the same pass, so a change cannot be sealed over.

use duolog_log::{Reader, chain, hash_range};
use duolog_state::Tx;
use duolog_state::owned::repairs::{self, RepairAction};
use duolog_state::owned::seals::{self, SealRow};
use duolog_types::limits::SEAL_BYTES;
use duolog_types::{Durability, Epoch, Position, SessionId};

use crate::error::Result;
use crate::store::Join;

/// The seals one transaction adds.
const SEALS_AT_ONCE: usize = 256;

impl Join {
    /// Seals a session's log up to its fold checkpoint, whose bytes are synced.
    pub(crate) fn seal(&self, session: &SessionId) -> Result<()> {
        loop {
            let known = self.known(session)?;
            let Some(to) = known.catalog.as_ref().map(|row| row.position) else { return Ok(()) };
            let epoch = known.row.log_epoch;
            let (last, before) = self.state.read(|tx| last_two(tx, session, epoch))?;
            if last.as_ref().is_some_and(|last| last.to_position >= to) {
                return Ok(());
            }
            let Some(reader) = Reader::open(&self.disk, &known.place())? else { return Ok(()) };
            let grown = match &last {
                Some(last) if last.to_position.0 - last.from_position.0 < SEAL_BYTES => {
                    let end = Position(to.0.min(last.from_position.0 + SEAL_BYTES));
                    let (so_far, whole) = hash_range(&reader, last.from_position, end, &[last.to_position])?;
                    let intact = so_far.first().is_some_and(|hash| chain(before.as_ref(), hash) == last.hash);
                    if !intact {
                        self.note_unsealed(session, epoch, last)?;
                    }
                    intact.then(|| (last.clone(), end, chain(before.as_ref(), &whole)))
                }
                _ => None,
            };
            let mut from = grown.as_ref().map(|(_, end, _)| *end).or(last.as_ref().map(|last| last.to_position));
            let mut hash = grown.as_ref().map(|(_, _, hash)| *hash).or(last.as_ref().map(|last| last.hash));
            let mut ord = last.as_ref().map_or(0, |last| last.ord + 1);
            let mut new = Vec::new();
            while from.unwrap_or(known.row.log_base) < to && new.len() < SEALS_AT_ONCE {
                let start = from.unwrap_or(known.row.log_base);
                let end = Position(to.0.min(start.0 + SEAL_BYTES));
                let (_, bytes) = hash_range(&reader, start, end, &[])?;
                let link = chain(hash.as_ref(), &bytes);
                new.push(self.seal_row(session, epoch, ord, (start, end), link));
                (from, hash, ord) = (Some(end), Some(link), ord + 1);
            }
            let sealed_to = from.unwrap_or(to);
            let at = self.clock.now();
            let done = self.write(Durability::Process, move |tx| {
                if let Some((last, end, hash)) = &grown
                    && !seals::extend(tx, last, *end, hash, at)?
                {
                    return Ok(false);
                }
                for row in &new {
                    seals::insert(tx, row)?;
                }
                Ok(true)
            });
            match done {
                Ok(true) => {
                    if let Some(open) = self.open.get(session) {
                        open.writer.sealed(sealed_to);
                    }
                    if sealed_to >= to {
                        return Ok(());
                    }
                }
                // Another process seals too; what it did stands.
                Ok(false) => {}
                Err(error) if error.is_taken() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn seal_row(
        &self,
        session: &SessionId,
        epoch: Epoch,
        ord: u64,
        range: (Position, Position),
        hash: [u8; 32],
    ) -> SealRow {
        SealRow {
            session_id: session.clone(),
            epoch,
            ord,
            home_id: self.home,
            from_position: range.0,
            to_position: range.1,
            hash,
            sealed_at: self.clock.now(),
        }
    }

    fn note_unsealed(&self, session: &SessionId, epoch: Epoch, seal: &SealRow) -> Result<bool> {
        let mut repair = self.repair_row(session, epoch, RepairAction::Unsealed, seal.from_position);
        repair.bytes = seal.to_position.0 - seal.from_position.0;
        self.write(Durability::Power, move |tx| Ok(repairs::note(tx, &repair)?))
    }
}

/// The last seal, and the hash of the one before it.
fn last_two(tx: &mut Tx<'_>, session: &SessionId, epoch: Epoch) -> Result<(Option<SealRow>, Option<[u8; 32]>)> {
    let Some(last) = seals::last(tx, session, epoch)? else { return Ok((None, None)) };
    let before = match last.ord.checked_sub(1) {
        Some(ord) => seals::page(tx, session, epoch, ord, 1)?.first().map(|seal| seal.hash),
        None => None,
    };
    Ok((Some(last), before))
}
