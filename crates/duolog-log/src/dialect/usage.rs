//! What the models were asked to do, in tokens and money: facts per line, and a fold that counts each response once.
//!
//! Files repeat themselves, and each in its own way:
//! - **Claude**: one response spans several lines, each with the usage so far. Lines with the same message id and
//!   request id are one response, and the largest count holds (of equal ones the first), as ccusage does it. A side
//!   conversation may replay a message at the same instant under another request id; the main line holds. A line that
//!   says it was copied from another session (`forkedFrom`) has the key of the original, and is counted once. What
//!   subagents said stands in `progress` lines, and again in their own logs.
//! - **Codex**: totals run up over the session; what counts is how far they moved. A total told again moved nothing; one
//!   that fell back began anew. A fork first replays its parent's totals; they are counted once, by the session that told
//!   them first if its log is there. A first total that is more than its response counts as that response alone.
//! - **Codex exec**: `turn.completed` tells the totals of the thread. They count by how far they moved since the last turn of
//!   that thread; another thread begins from nothing. Of several logs of a thread, the one with the largest total counts
//!   all of it: the first total of a thread that was resumed holds what the logs before told.
//! - **Envelope**: the `result` of a turn says what the turn took, and stands for the messages before it.
//! - **Claude stream**: as the envelope, by model (`modelUsage`). Messages of a stream know only a part of their output, so
//!   the result holds. The totals of a process that answers several prompts run up; what counts is how far they moved.
//!   Partial messages (`stream_event`) are never counted. A result is known by the agent's session and its own id. Of
//!   several logs that have it, the one with the most lines of the stream counts it, and with it the messages of its turn.
//!
//! The fold remembers a bounded number of responses ([`USAGE_RECENT_MAX`](duolog_types::limits::USAGE_RECENT_MAX) that a later line can still correct,
//! [`USAGE_SEEN_MAX`](duolog_types::limits::USAGE_SEEN_MAX) more that it only knows to have counted), so that it can be kept as a few kilobytes and go on from
//! there. The price of that: a response repeated after more than that many others is counted again. Repetitions stand
//! next to each other in every file we know of, but for a session resumed by copying, whose copies come in one run.
//!
//! A session resumed by copying into a log of its own, and a fork, tell of responses that another log counts. Each response
//! has a [`Claim`] with a key that is the same in every log, and a weight that says which log's count holds, by the rules
//! above; whoever folds several logs decides by it which responses are counted elsewhere. Two forks of one session
//! whose totals come out equal in every count are taken for one response.

mod claim;
mod counted;
pub(super) mod fact;
mod fold;
mod result;
mod tokens;

pub use claim::Claim;
pub use counted::Used;
pub use fact::{ModelTotal, Response, UsageFact, fact};
pub use fold::{UsageFold, UsageMove};
pub use tokens::{Tiers, Tokens};

use super::money::Money;

/// What a session used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// By model, in the order of their names.
    pub models: Vec<ModelUsage>,
    /// How many lines told of a response that was counted already.
    pub repeated: u64,
}

/// What one model was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelUsage {
    /// The model, where the log names one.
    pub model: Option<String>,
    /// How many responses.
    pub responses: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// Their cost; none where the model has no price.
    pub cost: Option<Money>,
}

impl Usage {
    /// All tokens.
    pub fn tokens(&self) -> Tokens {
        self.models.iter().fold(Tokens::default(), |sum, model| sum.plus(&model.tokens))
    }

    /// The cost of all that has one.
    pub fn cost(&self) -> Money {
        self.models.iter().filter_map(|model| model.cost).sum()
    }

    /// Whether a model without a price is among them, so that the cost is not all of it.
    pub fn is_unpriced(&self) -> bool {
        self.models.iter().any(|model| model.cost.is_none())
    }
}
