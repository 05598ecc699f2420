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
    /// The weight of a result and of the responses that it replaces, larger than that of any other response.
    pub(super) const RESULT: u64 = 1 << 62;
    /// The weight of a main conversation, larger than any token count.
    pub(super) const MAIN: u64 = 1 << 61;
}

/// The state that the claims of later lines depend on.
///
/// A rollout of Codex belongs to a tree of forks. A fork replays the lines of its parent, with other timestamps but the
/// same totals. So a response is identified by its totals and the root of the tree: the oldest session that the chain
/// of `session_meta` lines names.
///
/// A thread of `codex exec` is identified by its id, and is claimed as a whole: if it is resumed in another log, its
/// totals continue there.
///
/// A result of Claude Code has a larger weight in a log with more lines of its stream: that log has the earlier totals.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::dialect) struct Lineage {
    began: bool,
    root: Option<u64>,
    ancestors: u64,
    /// The thread of `codex exec` and its largest total.
    #[serde(default)]
    thread: Option<(u64, u64)>,
    /// The stream of Claude Code and the number of its lines with usage.
    #[serde(default)]
    stream: Option<(u64, u64)>,
}

impl Lineage {
    /// Returns the claim of a line's usage, or `None` if no other log can contain it.
    pub(in crate::dialect) fn claim(&mut self, fact: &UsageFact) -> Option<Claim> {
        match fact {
            UsageFact::Response(response) => {
                response.stream.map(|stream| self.count(stream));
                response.claim()
            }
            UsageFact::Ending { stream, key, .. } => {
                let count = self.count((*stream)?);
                Some(Claim { key: (*key)?, weight: Claim::RESULT + count.min(Claim::RESULT - 1) })
            }
            UsageFact::Running { total, is_exec: true, .. } => self.claim_thread(total.as_ref()?),
            UsageFact::Running { total, last, .. } => self.claim_total(total.as_ref()?, last.as_ref()),
            UsageFact::Began { thread, parent } => {
                self.begin(thread.as_deref().map(name), parent.as_deref().map(name));
                None
            }
            UsageFact::Thread { id, .. } => {
                let id = name(id);
                self.thread = self.thread.filter(|(thread, _)| *thread == id).or(Some((id, 0)));
                None
            }
            UsageFact::Started { .. } | UsageFact::Model(_) => None,
        }
    }

    /// Counts a line of a stream. The count restarts with another stream.
    fn count(&mut self, stream: u64) -> u64 {
        let before = self.stream.filter(|(of, _)| *of == stream).map_or(0, |(_, count)| count);
        self.stream = Some((stream, before + 1));
        before + 1
    }

    /// Returns the claim of a thread. The log with the largest total counts the whole thread.
    fn claim_thread(&mut self, total: &Tokens) -> Option<Claim> {
        let (thread, most) = self.thread?;
        let most = most.max(total.total().min(Claim::MAIN));
        self.thread = Some((thread, most));
        Some(Claim { key: short_hash(format!("thread\0{thread}").as_bytes()), weight: most })
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
