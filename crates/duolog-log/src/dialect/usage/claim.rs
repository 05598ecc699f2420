//! The key of a response in every log that contains it, and the choice of the log that counts it.

use serde::{Deserialize, Serialize};

use super::fact::UsageFact;
use super::tokens::Tokens;
use crate::dialect::scene::short_hash;

/// Maximum number of ancestors of a rollout; more are damage.
const ANCESTORS_MAX: u64 = 64;

/// A log's claim of a response. The log with the largest weight counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The key; the same in every log that contains the response.
    pub key: u64,
    /// The weight against the claims of other logs.
    pub weight: u64,
}

impl Claim {
    /// The weight of a main conversation, larger than any token count.
    pub(super) const MAIN: u64 = 1 << 62;
}

/// The tree of forks that a Codex rollout belongs to.
///
/// A fork replays its parent's lines with other timestamps but the same totals. So a response is identified by its
/// totals and the root of the tree: the oldest session in the chain of `session_meta` lines.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::dialect) struct Lineage {
    began: bool,
    root: Option<u64>,
    ancestors: u64,
}

impl Lineage {
    /// Returns the claim of a line's usage, or `None` if no other log can contain it.
    pub(in crate::dialect) fn claim(&mut self, fact: &UsageFact) -> Option<Claim> {
        match fact {
            UsageFact::Response(response) => response.claim(),
            UsageFact::Running { total, last, .. } => self.claim_total(total.as_ref()?, last.as_ref()),
            UsageFact::Began { thread, parent } => {
                self.begin(thread.as_deref().map(name), parent.as_deref().map(name));
                None
            }
            UsageFact::Ending { .. } | UsageFact::Model(_) | UsageFact::Thread { .. } => None,
        }
    }

    /// Follows the chain of ancestors. The first line is about this session; a fork then copies the first lines of its
    /// ancestors, nearest first.
    fn begin(&mut self, thread: Option<u64>, parent: Option<u64>) {
        let is_first = !std::mem::replace(&mut self.began, true);
        let is_next = self.root.is_some() && self.root == thread && self.ancestors < ANCESTORS_MAX;
        if is_first {
            self.root = parent.or(thread);
            self.ancestors = parent.is_some().into();
        } else if is_next && parent.is_some() {
            self.root = parent;
            self.ancestors += 1;
        }
    }

    /// Returns the claim of a total. The session nearest to the root wrote it first, and counts it on the day of its
    /// use.
    fn claim_total(&self, total: &Tokens, last: Option<&Tokens>) -> Option<Claim> {
        let root = self.root?;
        let counts = [total.counts(), last.copied().unwrap_or_default().counts()].concat();
        let bytes: Vec<u8> = std::iter::once(root).chain(counts).flat_map(u64::to_le_bytes).collect();
        Some(Claim { key: short_hash(&bytes), weight: ANCESTORS_MAX - self.ancestors })
    }
}

fn name(id: &str) -> u64 {
    short_hash(id.as_bytes())
}
