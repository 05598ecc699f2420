//! Usage of models in tokens and money: facts per line, and a fold that counts each response once.
//!
//! Each dialect repeats usage in its own way:
//! - **Claude**: one response spans several lines, each with the usage so far. Lines with the same message id and
//!   request id are one response, and the largest count is used (the first of equal ones), as in ccusage. A side
//!   conversation may replay a message at the same instant under another request id; the main line is counted. A line
//!   copied from another session (`forkedFrom`) has the key of the original, and is counted once. Responses of
//!   subagents are in `progress` lines, and again in their own logs.
//! - **Codex**: totals are cumulative over the session, and the difference is counted. A repeated total adds nothing; a
//!   total that decreased was reset. A fork first replays its parent's totals; they are counted once, by the session
//!   that wrote them first if its log exists. A first total larger than its response counts as that response alone.
//! - **Codex exec**: `turn.completed` has the totals of the thread. The difference to the last turn of that thread is
//!   counted; another thread starts at 0. Of several logs of a thread, the one with the largest total counts all of it:
//!   the first total of a resumed thread includes the totals of the earlier logs.
//! - **Envelope**: the `result` of a turn has the usage of the turn, and replaces that of the messages before it.
//! - **Claude stream**: as the envelope, by model (`modelUsage`). Messages of a stream have only part of their output,
//!   so the result is used. The totals of a process that answers several prompts are cumulative; the difference is
//!   counted. Partial messages (`stream_event`) are never counted. A result is identified by the agent's session and
//!   its own id. Of several logs that have it, the one with the most lines of the stream counts it and the messages
//!   of its turn.
//!
//! The fold remembers a bounded number of responses: [`USAGE_RECENT_MAX`](duolog_types::limits::USAGE_RECENT_MAX) that
//! a later line can still correct, and [`USAGE_SEEN_MAX`](duolog_types::limits::USAGE_SEEN_MAX) more that it only knows
//! to be counted. So it can be stored in a few kilobytes and resumed. The cost: a response that is repeated after more
//! than that many others is counted again. In all known files repetitions are adjacent, except in a session that was
//! resumed by copying, where they are one sequence.
//!
//! A session that was resumed by copying into its own log, and a fork, contain responses that another log counts. Each
//! response has a [`Claim`]: a key that is the same in every log, and a weight that decides which log counts it, by the
//! rules above. The caller that folds several logs uses it to decide which responses are counted elsewhere. Two forks
//! of one session with exactly equal totals are taken for one response.

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

/// The usage of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Usage by model, in the order of their names.
    pub models: Vec<ModelUsage>,
    /// Number of lines about a response that was counted already.
    pub repeated: u64,
}

/// The usage of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelUsage {
    /// The model, if the log names one.
    pub model: Option<String>,
    /// Number of responses.
    pub responses: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// Their cost; `None` if the model has no price.
    pub cost: Option<Money>,
}

impl Usage {
    /// Returns the sum of all tokens.
    pub fn tokens(&self) -> Tokens {
        self.models.iter().fold(Tokens::default(), |sum, model| sum.plus(&model.tokens))
    }

    /// Returns the sum of all known costs.
    pub fn cost(&self) -> Money {
        self.models.iter().filter_map(|model| model.cost).sum()
    }

    /// Returns true if a model has no price, so that the cost is incomplete.
    pub fn is_unpriced(&self) -> bool {
        self.models.iter().any(|model| model.cost.is_none())
    }
}
