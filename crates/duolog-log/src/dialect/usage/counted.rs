//! Sums of usage, and their parts by charge.

use duolog_types::Charge;
use serde::{Deserialize, Serialize};

use super::tokens::{Tiers, Tokens};
use crate::dialect::money::Money;

/// The sum of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UsageSum {
    pub(super) responses: u64,
    /// Number of responses that a stated cost covers.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) covered: u64,
    pub(super) tokens: Tokens,
    /// Tokens that no stated cost covers.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) bare: Tiers,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) stated: Money,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl UsageSum {
    pub(super) fn of_response(tokens: Tokens, cost: Option<Money>) -> Self {
        let bare = if cost.is_some() { Tiers::default() } else { Tiers::of(tokens) };
        Self { responses: 1, covered: cost.is_some().into(), tokens, bare, stated: cost.unwrap_or_default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.responses = self.responses.saturating_add(other.responses);
        self.covered = self.covered.saturating_add(other.covered);
        self.tokens = self.tokens.plus(&other.tokens);
        self.bare = self.bare.plus(&other.bare);
        self.stated += other.stated;
    }

    pub(super) fn remove(&mut self, other: &Self) {
        self.responses = self.responses.saturating_sub(other.responses);
        self.covered = self.covered.saturating_sub(other.covered);
        self.tokens = self.tokens.less(&other.tokens);
        self.bare = self.bare.less(&other.bare);
        self.stated = self.stated.less(other.stated);
    }

    /// Returns the part of one charge.
    pub(super) fn used(&self, charge: Charge) -> Used {
        match charge {
            Charge::Bare => {
                let responses = self.responses.saturating_sub(self.covered);
                Used { responses, tokens: self.bare.all, stated: Money::ZERO }
            }
            Charge::Stated => {
                Used { responses: self.covered, tokens: self.tokens.less(&self.bare.all), stated: self.stated }
            }
            Charge::Over200k => Used { tokens: self.bare.over_200k, ..Used::default() },
            Charge::Over272k => Used { tokens: self.bare.over_272k, ..Used::default() },
        }
    }
}

/// The usage of one charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Number of responses.
    pub responses: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// The cost that the log states.
    pub stated: Money,
}
