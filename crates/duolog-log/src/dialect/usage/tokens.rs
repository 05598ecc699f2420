//! Token counts.

use serde::{Deserialize, Serialize};

/// Token counts by kind. `reasoning` is a part of `output` and is not added to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    /// Input tokens that were not in the cache.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Input tokens written to the cache for an hour.
    pub cache_write_1h: u64,
    /// Output tokens that were reasoning.
    pub reasoning: u64,
}

impl Tokens {
    /// Returns the sum of input and output.
    pub const fn total(&self) -> u64 {
        self.context().saturating_add(self.output)
    }

    /// Returns the sum of all input, cache included.
    pub const fn context(&self) -> u64 {
        let fresh = self.input.saturating_add(self.cache_read);
        fresh.saturating_add(self.cache_write_5m).saturating_add(self.cache_write_1h)
    }

    /// Returns all counts, in the order of the fields.
    pub(super) const fn counts(&self) -> [u64; 6] {
        [self.input, self.output, self.cache_read, self.cache_write_5m, self.cache_write_1h, self.reasoning]
    }

    /// Adds two counts.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// Subtracts a count; never below 0.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    fn zip(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            input: with(self.input, other.input),
            output: with(self.output, other.output),
            cache_read: with(self.cache_read, other.cache_read),
            cache_write_5m: with(self.cache_write_5m, other.cache_write_5m),
            cache_write_1h: with(self.cache_write_1h, other.cache_write_1h),
            reasoning: with(self.reasoning, other.reasoning),
        }
    }
}

/// Tokens, and separately those of long contexts, which may cost more. The fold knows no prices, so it keeps the counts
/// that any price list may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tiers {
    /// All tokens.
    pub all: Tokens,
    /// Tokens of responses with a context over 200,000.
    pub over_200k: Tokens,
    /// Tokens of responses with a context over 272,000.
    pub over_272k: Tokens,
}

impl Tiers {
    /// Returns the tokens of one response.
    pub fn of(tokens: Tokens) -> Self {
        let over = |limit| if tokens.context() > limit { tokens } else { Tokens::default() };
        Self { all: tokens, over_200k: over(200_000), over_272k: over(272_000) }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            all: self.all.plus(&other.all),
            over_200k: self.over_200k.plus(&other.over_200k),
            over_272k: self.over_272k.plus(&other.over_272k),
        }
    }

    pub(super) fn less(&self, other: &Self) -> Self {
        Self {
            all: self.all.less(&other.all),
            over_200k: self.over_200k.less(&other.over_200k),
            over_272k: self.over_272k.less(&other.over_272k),
        }
    }
}
