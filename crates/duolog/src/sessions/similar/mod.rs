//! The messages whose embeddings are nearest to a vector: exactly, by looking at all of those that are meant.
//!
//! Embeddings come from the pack of the home as far as that goes, and from their table behind it; of the messages of one
//! branch, or of a session that has few of all, they come from there. Whichever it is, scores are made by one function of
//! the same bytes, and only what the state says, within one snapshot, is found: so the answer is the same.

mod model;
mod nearest;
mod packing;
mod scope;

pub use duolog_search::vectors::Metric;
pub use model::{PackStanding, Similar, SimilarFilter};

use duolog_search::Error as PackError;
use duolog_search::vectors::{Pack, Wanted};
use duolog_state::Tx;
use duolog_state::owned::message_embeddings::{self as table, Among};
use duolog_state::owned::progressions::Segment;

use super::messages::{Messages, packed};
use crate::error::{Error, Result};
use nearest::Nearest;
use packing::Packer;
use scope::Scope;

/// The embeddings that are read from their table at a time.
const ROWS: u32 = 256;

impl Messages<'_> {
    /// The `k` messages whose embeddings are nearest to a vector, of those that the filter means, the nearest first.
    ///
    /// Exact. Memory does not grow with how many there are. An embedding of another length, of a message that is meant,
    /// is an error: it was made by another model, and nothing can be said of it. Where there are many embeddings they are
    /// packed into a file of the home first, within a bound; that it cannot be written costs time and nothing else.
    pub fn similar(&self, vector: &[f32], k: usize, metric: Metric, filter: &SimilarFilter) -> Result<Vec<Similar>> {
        packed(vector)?;
        filter.check()?;
        let wanted = Wanted::new(vector, metric);
        // Who asks for a few is not kept waiting until all are packed.
        if filter.session.is_some()
            && let Some(found) = self.looked_up(&wanted, k, filter)?
        {
            return Ok(found);
        }
        let packer = Packer::of(self.store);
        packer.bring_up(vector.len());
        let (found, no_good) = self.store.join.state().read(|tx| match Scope::of(tx, filter)? {
            Scope::Nothing => Ok((Vec::new(), None)),
            Scope::Items(segments, among) => {
                Ok::<_, Error>((of_items(tx, Nearest::to(&wanted, k, &among), &segments)?, None))
            }
            Scope::All(among) => of_all(tx, packer, || Nearest::to(&wanted, k, &among)),
        })?;
        if let Some(pack) = no_good {
            packer.throw_away(&pack);
        }
        Ok(found)
    }

    /// The nearest of those that are looked up one by one; nothing where all have to be looked at.
    fn looked_up(&self, wanted: &Wanted, k: usize, filter: &SimilarFilter) -> Result<Option<Vec<Similar>>> {
        self.store.join.state().read(|tx| match Scope::of(tx, filter)? {
            Scope::Nothing => Ok(Some(Vec::new())),
            Scope::Items(segments, among) => of_items(tx, Nearest::to(wanted, k, &among), &segments).map(Some),
            Scope::All(_) => Ok(None),
        })
    }

    /// How the packed embeddings of this home stand, looked at from end to end.
    pub fn packed_embeddings(&self) -> Result<PackStanding> {
        Packer::of(self.store).standing()
    }
}

/// Looks at all embeddings. Says which pack is no good, where one is.
fn of_all<'q>(
    tx: &mut Tx<'_>,
    packer: Packer<'_>,
    begin: impl Fn() -> Nearest<'q>,
) -> Result<(Vec<Similar>, Option<Pack>)> {
    let mut nearest = begin();
    let (mut after, mut no_good) = (0, None);
    if let Some(pack) = packer.open(tx)? {
        nearest = nearest.sampling(pack.published().records);
        match pack.scan(|block| nearest.look_at(tx, block)) {
            Ok(()) => {
                after = pack.published().last_seq;
                // Of one that was not looked at to its end, the sample tells nothing.
                no_good = (!nearest.is_refused() && nearest.is_worn(tx)?).then_some(pack);
            }
            Err(Error::Index(error)) => {
                // Nothing that was seen of it counts.
                nearest = begin();
                no_good = matches!(error, PackError::Unusable { .. }).then_some(pack);
            }
            Err(error) => return Err(error),
        }
    }
    let mut after = Some(after);
    while let Some(last) = after.filter(|_| !nearest.is_refused()) {
        after = table::each(tx, (last, i64::MAX), ROWS, &mut |seq, bytes| nearest.look(seq, bytes))?;
        nearest.settle(tx)?;
    }
    Ok((nearest.found(tx)?, no_good))
}

/// Looks at the embeddings of the items of a history, or of a session's messages.
fn of_items(tx: &mut Tx<'_>, mut nearest: Nearest<'_>, segments: &[Segment]) -> Result<Vec<Similar>> {
    for segment in segments {
        let mut from = Some(segment.from);
        while let Some(next) = from.filter(|_| !nearest.is_refused()) {
            let rest = Segment { from: next, ..segment.clone() };
            let among: &Among = nearest.among();
            from = table::each_of(tx, &rest, among, ROWS, &mut |seq, id, bytes| nearest.take(seq, id, bytes))?;
        }
    }
    nearest.found(tx)
}
