//! Finding the messages whose embeddings are nearest to a vector: exact, by a scan of the embeddings in one snapshot.
//!
//! For one branch, or a session with few of all embeddings, they are looked up by message instead. The scores and
//! results are the same.

mod model;
mod nearest;
mod scope;

pub use duolog_search::Metric;
pub use model::{Similar, SimilarFilter};

use duolog_search::Wanted;
use duolog_state::Tx;
use duolog_state::owned::message_embeddings::{self as table, MessageFilter};
use duolog_state::owned::progressions::Segment;

use super::messages::{Messages, packed};
use crate::error::Result;
use nearest::Nearest;
use scope::Scope;

/// The number of embeddings that are read at a time.
const ROWS: u32 = 256;

impl Messages {
    /// Returns the `k` messages that match the filter whose embeddings are nearest to a vector, nearest first.
    ///
    /// The search is exact: every embedding is compared. Memory does not grow with their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the embedding of a matching message has another length, because it is from another model.
    pub fn similar(&self, vector: &[f32], k: usize, metric: Metric, filter: &SimilarFilter) -> Result<Vec<Similar>> {
        packed(vector)?;
        filter.check()?;
        let wanted = Wanted::new(vector, metric);
        self.store.join.state().read(|tx| match Scope::of(tx, filter)? {
            Scope::Nothing => Ok(Vec::new()),
            Scope::Items(segments, among) => of_items(tx, Nearest::to(&wanted, k, &among), &segments),
            Scope::All(among) => of_all(tx, Nearest::to(&wanted, k, &among)),
        })
    }
}

/// Compares all embeddings.
fn of_all(tx: &mut Tx<'_>, mut nearest: Nearest<'_>) -> Result<Vec<Similar>> {
    let mut after = Some(0);
    while let Some(last) = after.filter(|_| !nearest.is_refused()) {
        after = table::each(tx, last, ROWS, &mut |seq, bytes| nearest.look(seq, bytes))?;
        nearest.settle(tx)?;
    }
    nearest.found(tx)
}

/// Compares the embeddings of the items of a history, or of a session's messages.
fn of_items(tx: &mut Tx<'_>, mut nearest: Nearest<'_>, segments: &[Segment]) -> Result<Vec<Similar>> {
    for segment in segments {
        let mut from = Some(segment.from);
        while let Some(next) = from.filter(|_| !nearest.is_refused()) {
            let rest = Segment { from: next, ..segment.clone() };
            let among: &MessageFilter = nearest.among();
            from = table::each_of(tx, &rest, among, ROWS, &mut |seq, id, bytes| nearest.take(seq, id, bytes))?;
        }
    }
    nearest.found(tx)
}
