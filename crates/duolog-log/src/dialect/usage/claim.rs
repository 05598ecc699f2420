//! By what a response is known in every log that tells of it, and which of these logs counts it.

use serde::{Deserialize, Serialize};

use super::fact::UsageFact;
use super::tokens::Tokens;
use crate::dialect::scene::short_hash;

/// The ancestors of a rollout that are followed; one that names more is damage.
const ANCESTORS_MAX: u64 = 64;

/// What a log claims of a response: of several logs, the one with the largest weight counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The same in every log that tells of the response.
    pub key: u64,
    /// How much the claim counts against another log's.
    pub weight: u64,
}

impl Claim {
    /// The weight of a main conversation, above any count of tokens.
    pub(super) const MAIN: u64 = 1 << 62;
}

/// The tree of forks that a Codex rollout belongs to.
///
/// A fork replays what its parent told, under other timestamps but with the same totals. So a response is known by
/// its totals and the root of the tree: the oldest session that the chain of `session_meta` lines names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::dialect) struct Lineage {
    began: bool,
    root: Option<u64>,
    ancestors: u64,
}

impl Lineage {
    /// Returns the claim of what a line says, or `None` if no other log can tell of it.
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

    /// The first line tells of this session; a fork copies the first lines of its ancestors after it, nearest first.
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

    /// The session that is nearer to the root told it first, and counts it on the day when it was used.
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
