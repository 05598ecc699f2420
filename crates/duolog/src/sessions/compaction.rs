//! Compaction: summaries that replace ranges of a history. No item is deleted, and each summary can be undone.

use std::ops::Range;

use duolog_state::owned::compactions::CompactionEntry;
use duolog_state::owned::messages::{self, MessageRow};
use duolog_state::owned::{progression_items, progressions};
use duolog_types::limits::COMPACTION_THRESHOLD;
use duolog_types::{BranchId, Durability, MessageId, SessionId};
use serde::{Deserialize, Serialize};

use super::active::{self, Active};
use super::contents::Contents;
use super::conversation::{self, BranchRef};
use crate::error::{Conflict, Error, Invalid, NotFound, Result};
use crate::store::Store;

/// The handle for the summaries of a branch.
#[derive(Clone)]
pub struct Compaction {
    pub(crate) store: Store,
    pub(crate) session: SessionId,
    pub(crate) branch: BranchRef,
}

/// A summary of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeSummary {
    /// The branch of the summary: this one or an ancestor.
    pub branch: BranchId,
    /// The ordinals that it replaces.
    pub range: Range<u64>,
    /// The message with the summary.
    pub message: MessageId,
}

impl From<Active> for RangeSummary {
    fn from(one: Active) -> Self {
        Self { branch: one.branch, range: one.from..one.to, message: one.message }
    }
}

/// The state of compaction of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionInfo {
    /// The number of items in its history.
    pub items: u64,
    /// The summaries that are shown, newest first.
    pub summaries: Vec<RangeSummary>,
    /// The number of items that can be summarised and are not.
    pub uncompacted: u64,
    /// The value of `uncompacted` above which a summary is due.
    pub threshold: u64,
}

impl CompactionInfo {
    /// Returns true if a summary is due.
    pub fn is_due(&self) -> bool {
        self.uncompacted > self.threshold
    }
}

impl Compaction {
    /// Replaces a range of the history with a summary [default: the whole history].
    ///
    /// Pass the end of the history at the time it was read, so that items that were added since then are kept.
    pub fn compact(&self, range: Option<Range<u64>>, summary: &str, durability: Durability) -> Result<RangeSummary> {
        let join = &self.store.join;
        let now = join.clock().now();
        let contents = Contents::of(join);
        let message = contents.message(summary, now)?;
        let message = MessageRow { compactable: false, ..message };
        let (session, which) = (self.session.clone(), self.branch.clone());
        self.store.transact(durability, move |tx| {
            let mut place = conversation::open(tx, &session, &which, now)?;
            let len = place.head.end;
            let Range { start: from, end: to } = range.clone().unwrap_or(0..len);
            if to > len {
                return Err(Error::Invalid(Invalid::PastEnd { at: to, len }));
            }
            if from >= to {
                return Err(Error::Invalid(Invalid::EmptyRange { from, to }));
            }
            let shown = active::shown(tx, &place.branch)?;
            let around = |one: &Active| from <= one.from && one.to <= to;
            if let Some(one) = shown.iter().find(|one| !around(one) && !one.is_apart_from(from, to)) {
                return Err(Error::Conflict(Conflict::RangeCrosses {
                    from,
                    to,
                    other_from: one.from,
                    other_to: one.to,
                }));
            }
            messages::add(tx, std::slice::from_ref(&message))?;
            place.pool(tx, &message.id)?;
            place.note(tx)?;
            let covers_all = shown.iter().all(around);
            place.say(tx, from, to, CompactionEntry::Summary { message: message.id.clone(), covers_all }, now)?;
            let branch = place.branch.id.clone();
            Ok((RangeSummary { branch, range: from..to, message: message.id.clone() }, Vec::new()))
        })
    }

    /// Undoes the newest of the summaries that are shown, and returns it.
    pub fn undo(&self, durability: Durability) -> Result<RangeSummary> {
        let now = self.store.join.clock().now();
        let (session, which) = (self.session.clone(), self.branch.clone());
        self.store.transact(durability, move |tx| {
            let place = conversation::open(tx, &session, &which, now)?;
            let Some(last) = active::shown(tx, &place.branch)?.into_iter().next() else {
                return Err(Error::NotFound(NotFound::Summary));
            };
            place.undo(tx, &last, now)?;
            Ok((RangeSummary::from(last), Vec::new()))
        })
    }

    /// Returns the state of compaction, with the default threshold if none is given.
    pub fn info(&self, threshold: Option<u64>) -> Result<CompactionInfo> {
        let threshold = threshold.unwrap_or(COMPACTION_THRESHOLD);
        self.store.join.state().read(|tx| {
            let Some(place) = conversation::find(tx, &self.session, &self.branch)? else {
                return Ok(CompactionInfo { items: 0, summaries: Vec::new(), uncompacted: 0, threshold });
            };
            let shown = active::shown(tx, &place.branch)?;
            let mut edges: Vec<(u64, u64)> = shown.iter().map(|one| (one.from, one.to)).collect();
            edges.sort_unstable();
            edges.push((place.head.end, place.head.end));
            let (mut uncompacted, mut at) = (0, 0);
            for (from, to) in edges {
                for part in progressions::segments(tx, &place.head, at, from)? {
                    uncompacted += progression_items::count_compactable(tx, &part.progression, part.from, part.to)?;
                }
                at = to;
            }
            let summaries = shown.into_iter().map(RangeSummary::from).collect();
            Ok::<_, Error>(CompactionInfo { items: place.head.end, summaries, uncompacted, threshold })
        })
    }
}
