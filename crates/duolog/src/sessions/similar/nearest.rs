//! The nearest candidates so far.
//!
//! Candidates are looked up in the state in batches, nearest first. Only messages that match the filter are kept, and a
//! candidate that is farther than all kept ones is never looked up. A filter that most messages match therefore costs
//! almost nothing.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use duolog_search::Wanted;
use duolog_state::Tx;
use duolog_state::owned::message_embeddings::{self as table, MessageFilter};
use duolog_types::MessageId;

use super::Similar;
use crate::error::{Error, Invalid, Result};

/// The number of candidates that are looked up at a time.
const TOGETHER: usize = 64;

/// A candidate that was looked up.
struct Kept {
    nearness: f32,
    seq: i64,
    id: MessageId,
}

impl Ord for Kept {
    /// Orders by distance; of equally near ones, the later is greater.
    fn cmp(&self, other: &Self) -> Ordering {
        other.nearness.total_cmp(&self.nearness).then(self.seq.cmp(&other.seq))
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Kept {}

/// The nearest candidates so far, by the numbers of their embeddings.
pub(super) struct Nearest<'q> {
    wanted: &'q Wanted,
    k: usize,
    among: &'q MessageFilter,
    /// The nearest existing messages that match, at most `k`; the farthest is on top.
    kept: BinaryHeap<Kept>,
    /// The limit: only a nearer candidate, or an equally near and earlier one, can be among the nearest.
    least: (f32, i64),
    /// The candidates that were not looked up yet: nearness and number.
    waiting: Vec<(f32, i64)>,
    /// The embeddings of another length that were not looked up yet: number and length.
    others: Vec<(i64, usize)>,
    /// The first matching message with an embedding of another length, and that length.
    refused: Option<(MessageId, usize)>,
}

impl<'q> Nearest<'q> {
    pub(super) fn to(wanted: &'q Wanted, k: usize, among: &'q MessageFilter) -> Self {
        Self {
            wanted,
            k,
            among,
            kept: BinaryHeap::new(),
            least: (if k == 0 { f32::INFINITY } else { f32::NEG_INFINITY }, i64::MAX),
            waiting: Vec::new(),
            others: Vec::new(),
            refused: None,
        }
    }

    pub(super) fn among(&self) -> &'q MessageFilter {
        self.among
    }

    /// Returns true if a matching message has an embedding of another length; then the search fails.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Compares an embedding by its number.
    pub(super) fn look(&mut self, seq: i64, bytes: &[u8]) {
        let packed = bytes.as_chunks().0;
        if packed.len() != self.wanted.dimension() {
            self.others.push((seq, packed.len()));
            return;
        }
        let nearness = self.wanted.nearness(packed);
        if self.may_be_kept(nearness, seq) {
            self.waiting.push((nearness, seq));
        }
    }

    /// Takes the embedding of a message that is known to match.
    pub(super) fn take(&mut self, seq: i64, id: MessageId, bytes: &[u8]) {
        let packed = bytes.as_chunks().0;
        if packed.len() == self.wanted.dimension() {
            self.keep(Kept { nearness: self.wanted.nearness(packed), seq, id });
        } else {
            self.refused.get_or_insert((id, packed.len()));
        }
    }

    /// Looks up the waiting candidates, as far as needed.
    pub(super) fn settle(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for some in waiting.chunks(TOGETHER) {
            if some.first().is_none_or(|nearest| !self.may_be_kept(nearest.0, nearest.1)) {
                break;
            }
            let seqs: Vec<i64> = some.iter().map(|one| one.1).collect();
            let mut standing: BTreeMap<i64, MessageId> = table::existing(tx, &seqs, self.among)?.into_iter().collect();
            for (nearness, seq) in some {
                if let Some(id) = standing.remove(seq) {
                    self.keep(Kept { nearness: *nearness, seq: *seq, id });
                }
            }
        }
        waiting.clear();
        // The allocation is reused.
        self.waiting = waiting;
        for some in std::mem::take(&mut self.others).chunks(TOGETHER) {
            let seqs: Vec<i64> = some.iter().map(|one| one.0).collect();
            let first = table::existing(tx, &seqs, self.among)?.into_iter().min();
            if let Some((seq, id)) = first.filter(|_| self.refused.is_none()) {
                let numbers = some.iter().find(|one| one.0 == seq).map_or(0, |one| one.1);
                self.refused = Some((id, numbers));
            }
        }
        Ok(())
    }

    /// Returns the results, nearest first.
    pub(super) fn found(mut self, tx: &mut Tx<'_>) -> Result<Vec<Similar>> {
        self.settle(tx)?;
        if let Some((id, numbers)) = self.refused {
            let dimension = self.wanted.dimension();
            let why = format!("has {dimension} numbers, but the embedding of message {id} has {numbers}");
            return Err(Error::Invalid(Invalid::Value { what: "vector", why }));
        }
        let found = self.kept.into_sorted_vec().into_iter();
        Ok(found.map(|one| Similar { id: one.id, score: self.wanted.score(one.nearness) }).collect())
    }

    fn keep(&mut self, one: Kept) {
        if self.kept.len() < self.k {
            self.kept.push(one);
        } else if let Some(mut farthest) = self.kept.peek_mut()
            && one < *farthest
        {
            *farthest = one;
        }
        if self.kept.len() >= self.k
            && let Some(farthest) = self.kept.peek()
        {
            self.least = (farthest.nearness, farthest.seq);
        }
    }

    /// Returns true if a candidate is nearer than the farthest that is kept. Most are not.
    fn may_be_kept(&self, nearness: f32, seq: i64) -> bool {
        nearness >= self.least.0 && (nearness > self.least.0 || seq < self.least.1)
    }
}
