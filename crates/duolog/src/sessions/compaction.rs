//! Compaction: summaries that stand for ranges of a history. Nothing is taken away, and each can be undone.

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

/// The summaries of a branch.
#[derive(Clone)]
pub struct Compaction {
    pub(crate) store: Store,
    pub(crate) session: SessionId,
    pub(crate) branch: BranchRef,
}

/// A summary that stands for a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summarised {
    /// The branch that it was made on: this one, or one that it comes from.
    pub branch: BranchId,
    /// The places that it stands for.
    pub range: Range<u64>,
    /// Its message.
    pub message: MessageId,
}

impl From<Active> for Summarised {
    fn from(one: Active) -> Self {
        Self { branch: one.branch, range: one.from..one.to, message: one.message }
    }
}

/// How a branch stands with summaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionInfo {
    /// How many items its history has.
    pub items: u64,
    /// The summaries that are shown in the place of what they stand for, the last made first.
    pub summaries: Vec<Summarised>,
    /// The items that a summary may stand for and none does.
    pub uncompacted: u64,
    /// The number of those beyond which a summary is due.
    pub threshold: u64,
}

impl CompactionInfo {
    /// Whether a summary is due.
    pub fn is_due(&self) -> bool {
        self.uncompacted > self.threshold
    }
}

impl Compaction {
    /// Has an item stand for a range of the history; all of it where nothing is said.
    ///
    /// What is added while the summary is made is kept: say where the history ended when it was read.
    pub fn compact(&self, range: Option<Range<u64>>, summary: &str, durability: Durability) -> Result<Summarised> {
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
            Ok((Summarised { branch, range: from..to, message: message.id.clone() }, Vec::new()))
        })
    }

    /// Undoes the summary that was made last of those that are shown, and says which.
    pub fn undo(&self, durability: Durability) -> Result<Summarised> {
        let now = self.store.join.clock().now();
        let (session, which) = (self.session.clone(), self.branch.clone());
        self.store.transact(durability, move |tx| {
            let place = conversation::open(tx, &session, &which, now)?;
            let Some(last) = active::shown(tx, &place.branch)?.into_iter().next() else {
                return Err(Error::NotFound(NotFound::Summary));
            };
            place.undo(tx, &last, now)?;
            Ok((Summarised::from(last), Vec::new()))
        })
    }

    /// How the branch stands, and whether a summary is due.
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
            let summaries = shown.into_iter().map(Summarised::from).collect();
            Ok::<_, Error>(CompactionInfo { items: place.head.end, summaries, uncompacted, threshold })
        })
    }
}
