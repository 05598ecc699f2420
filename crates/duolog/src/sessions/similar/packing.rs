//! Bringing the pack of a home up to the state: what was added since is added to it, in whole blocks.
//!
//! Only what is settled is packed: numbers that no transaction can still come with (see [`Horizon`]). The row that
//! publishes the pack is written after it, in the state that the embeddings were read from.

use duolog_search::vectors::{Pack, PackLock, Packing, Published, records_of};
use duolog_state::Tx;
use duolog_state::owned::embedding_packs::{self as packs, PackRow};
use duolog_state::owned::message_embeddings::{self as table, Horizon};
use duolog_types::Durability;
use duolog_types::limits::{PACK_BATCH_BYTES, PACK_BEFORE_SEARCH_BYTES, PACK_FROM_BYTES};

use super::{PackStanding, ROWS};
use crate::error::{Error, Result};
use crate::store::Store;

/// Packs the embeddings of a store for its home.
#[derive(Clone, Copy)]
pub(super) struct Packer<'s> {
    store: &'s Store,
}

impl<'s> Packer<'s> {
    pub(super) fn of(store: &'s Store) -> Self {
        Self { store }
    }

    /// Opens the pack that counts, as a transaction sees it; nothing where there is none that can be used.
    pub(super) fn open(self, tx: &mut Tx<'_>) -> Result<Option<Pack>> {
        let row = packs::find(tx, &self.store.join.home())?;
        Ok(row.and_then(|row| self.open_published(&row).ok().flatten()))
    }

    /// Packs what is new, where it is enough and nobody else does. What keeps it from that keeps no search from its
    /// answer.
    pub(super) fn bring_up(self, dimension: usize) {
        if self.store.is_writable() {
            let _ = self.try_bring_up(dimension);
        }
    }

    /// Throws away a pack that is no good, unless someone is working on it. The next search makes it anew.
    pub(super) fn throw_away(self, pack: &Pack) {
        if self.store.is_writable()
            && let Ok(Some(lock)) = PackLock::take(&self.store.home.state)
        {
            let _ = lock.throw_away(pack);
        }
    }

    /// How the pack stands, looked at from end to end.
    pub(super) fn standing(self) -> Result<PackStanding> {
        let row = self.row()?.filter(|row| row.pack.is_some());
        let Some(row) = row else { return Ok(PackStanding::Absent) };
        let looked = self.open_published(&row).and_then(|pack| {
            let Some(pack) = pack else { return Ok(PackStanding::Absent) };
            pack.scan(|_| Ok::<_, Error>(std::ops::ControlFlow::Continue(())))?;
            let Published { records, bytes, .. } = *pack.published();
            Ok(PackStanding::Whole { records, bytes })
        });
        match looked {
            Err(Error::Index(duolog_search::Error::Missing(_))) => Ok(PackStanding::Absent),
            Err(Error::Index(error)) => Ok(PackStanding::Unusable(error.to_string())),
            other => other,
        }
    }

    fn try_bring_up(self, dimension: usize) -> Result<()> {
        if !self.is_worth_it(dimension)? {
            return Ok(());
        }
        let Some(lock) = PackLock::take(&self.store.home.state)? else { return Ok(()) };
        let state = self.store.join.state();
        // In a transaction of its own: what it says holds for those that begin after it.
        let now = state.read(|tx| Ok::<_, Error>(table::horizon(tx)?))?;
        let (row, ended) =
            state.read(|tx| Ok::<_, Error>((packs::find(tx, &self.store.join.home())?, table::ended_before(tx)?)))?;
        let (to, horizon) = settled(ended, now, row.as_ref().and_then(|row| row.horizon));
        let mut published = row.as_ref().and_then(|row| row.pack);
        let mut packing = Packing::begin(lock, self.store.join.home(), published.map(of_row))?;
        if let Some(to) = to {
            self.fill(&mut packing, to)?;
            if let Some(now) = packing.finish()? {
                published = Some(to_row(now));
            }
        }
        let before = row.as_ref().map(|row| (row.pack, row.horizon));
        if before.unwrap_or((None, None)) != (published, horizon) {
            self.publish(row, published, horizon)?;
        }
        Ok(())
    }

    /// Whether so much is not packed that packing it is worth while.
    fn is_worth_it(self, dimension: usize) -> Result<bool> {
        let home = self.store.join.home();
        let read = |tx: &mut Tx<'_>| Ok::<_, Error>((packs::find(tx, &home)?, table::last(tx)?));
        let (row, last) = self.store.join.state().read(read)?;
        let pack = row.and_then(|row| self.open_published(&row).ok().flatten());
        let missing =
            last.saturating_sub(pack.as_ref().map_or(0, |pack| pack.published().last_seq)).max(0).unsigned_abs();
        Ok(match pack {
            Some(_) => missing >= records_of(dimension) as u64,
            None => missing.saturating_mul(dimension as u64 * 4) >= PACK_FROM_BYTES,
        })
    }

    /// Adds embeddings up to a number, within the bound of one search; from several snapshots, as none should be kept
    /// for long.
    fn fill(self, packing: &mut Packing, to: i64) -> Result<()> {
        while packing.last_seq() < to && packing.added_bytes() < PACK_BEFORE_SEARCH_BYTES {
            let enough = packing.added_bytes() + PACK_BATCH_BYTES;
            let more = self.store.join.state().read(|tx| {
                loop {
                    let mut added = Ok(());
                    let after = table::each(tx, (packing.last_seq(), to), ROWS, &mut |seq, bytes| {
                        if added.is_ok() {
                            added = packing.add(seq, bytes);
                        }
                    })?;
                    added?;
                    if after.is_none() || packing.added_bytes() >= enough {
                        return Ok::<_, Error>(after.is_some());
                    }
                }
            });
            if !more? {
                break;
            }
        }
        Ok(())
    }

    /// Has the state say what of the pack counts, unless someone changed what it said.
    fn publish(self, before: Option<PackRow>, pack: Option<packs::Published>, horizon: Option<Horizon>) -> Result<()> {
        let join = &self.store.join;
        let row = PackRow { home_id: join.home(), pack, horizon, packed_at: join.clock().now() };
        let replace = move |tx: &mut Tx<'_>| Ok((packs::replace(tx, before.as_ref(), &row)?, Vec::new()));
        self.store.transact(Durability::Process, replace).map(drop)
    }

    fn row(self) -> Result<Option<PackRow>> {
        let home = self.store.join.home();
        self.store.join.state().read(|tx| Ok(packs::find(tx, &home)?))
    }

    fn open_published(self, row: &PackRow) -> Result<Option<Pack>> {
        let Some(published) = row.pack else { return Ok(None) };
        Ok(Some(Pack::open(&self.store.home.state, self.store.join.home(), of_row(published))?))
    }
}

/// Up to which number all are settled, where that is known, and the horizon to be noted for the next one who packs.
///
/// `ended` is the transaction before which all have ended, `now` the horizon of a moment before that, `noted` that of
/// the last one who packed. Where transactions always overlap, the noted one is settled some time all the same.
fn settled(ended: i64, now: Horizon, noted: Option<Horizon>) -> (Option<i64>, Option<Horizon>) {
    match noted {
        _ if now.xid <= ended => (Some(now.seq), None),
        Some(noted) if noted.xid <= ended => (Some(noted.seq), Some(now)),
        Some(noted) if noted.xid <= now.xid => (None, Some(noted)),
        // Noted on another server, or never.
        _ => (None, Some(now)),
    }
}

fn of_row(row: packs::Published) -> Published {
    let packs::Published { pack_id, chain, bytes, records, last_seq } = row;
    Published { pack: pack_id, chain, bytes, records, last_seq }
}

fn to_row(published: Published) -> packs::Published {
    let Published { pack, chain, bytes, records, last_seq } = published;
    packs::Published { pack_id: pack, chain, bytes, records, last_seq }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_settled_once_all_that_ran_have_ended() {
        let at = |seq, xid| Horizon { seq, xid };
        assert_eq!(settled(0, at(7, 0), None), (Some(7), None), "in a file one writes at a time");
        assert_eq!(settled(51, at(7, 50), Some(at(3, 20))), (Some(7), None));
        assert_eq!(settled(40, at(7, 50), None), (None, Some(at(7, 50))));
        assert_eq!(settled(40, at(9, 60), Some(at(7, 50))), (None, Some(at(7, 50))), "it is waited for");
        assert_eq!(settled(55, at(9, 60), Some(at(7, 50))), (Some(7), Some(at(9, 60))));
        assert_eq!(settled(40, at(9, 60), Some(at(7, 5000))), (None, Some(at(9, 60))), "noted on another server");
    }
}
