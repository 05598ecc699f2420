//! The usage at the end of a turn, without what earlier turns used.
//!
//! The totals of a Claude Code stream are those of its process. A process that answers several prompts ends each with
//! the sum so far; a process with a single prompt, and every other writer, ends with the usage of the turn.

use serde::{Deserialize, Serialize};

use super::fact::ModelTotal;
use super::tokens::Tokens;
use crate::dialect::money::Money;

/// Maximum rounding error in picodollars when costs by model are added up: programs add doubles.
const ROUNDING_PICOS: u128 = 1_000_000;

/// The usage of a turn, from the line that ends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) tokens: Tokens,
    pub(super) cost: Option<Money>,
    /// The usage by model, if the line has it.
    pub(super) models: Vec<ModelTotal>,
}

impl Ending {
    /// Returns all tokens: the sum by model, if there is one.
    pub(super) fn tokens(&self) -> Tokens {
        if self.models.is_empty() { self.tokens } else { sum(&self.models) }
    }

    /// Returns the cost by model; the total under `last_model` if the parts do not add up to it.
    pub(super) fn costs(&self, cost: Money, last_model: &str) -> Vec<(String, Money)> {
        let parts: Money = self.models.iter().filter_map(|total| total.cost).sum();
        let difference = parts.picos().abs_diff(cost.picos());
        if self.models.iter().any(|total| total.cost.is_none()) || difference > ROUNDING_PICOS || parts == Money::ZERO {
            return vec![(last_model.to_owned(), cost)];
        }
        let costs = self.models.iter().filter_map(|total| Some((total.model.clone(), total.cost?)));
        costs.filter(|(_, cost)| *cost != Money::ZERO).collect()
    }
}

/// The totals of a stream's result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StreamTotal {
    /// The session of the agent that the line names.
    stream: Option<u64>,
    models: Vec<ModelTotal>,
    cost: Money,
    /// True if the line had no counts by model.
    is_sum: bool,
}

impl StreamTotal {
    /// Creates the totals of a result; counts without a model belong to the last model.
    pub(super) fn of(ending: Ending, stream: Option<u64>, last_model: &str) -> Self {
        let (is_sum, cost) = (ending.models.is_empty(), ending.cost.unwrap_or_default());
        let one = || vec![ModelTotal { model: last_model.to_owned(), tokens: ending.tokens, cost: None }];
        Self { stream, models: if is_sum { one() } else { ending.models }, cost, is_sum }
    }

    /// Returns the usage of a turn; `reported` is the sum of its responses. It is the difference to the totals before
    /// if they are cumulative, else all of it.
    ///
    /// They are cumulative if none decreased and their sum covers the totals before and the turn. A turn without
    /// responses adds nothing, so its totals are either unchanged or its own.
    pub(super) fn since(&self, before: Option<&Self>, reported: &Tokens) -> Ending {
        let before = before.filter(|before| before.stream == self.stream);
        let moved = before.and_then(|before| self.less(before)).filter(|_| {
            let (now, before) = (sum(&self.models).total(), before.map_or(0, |before| sum(&before.models).total()));
            if reported.total() == 0 { now == before } else { now >= before.saturating_add(reported.total()) }
        });
        let Self { models, cost, is_sum, .. } = moved.unwrap_or_else(|| self.clone());
        let cost = Some(cost).filter(|cost| *cost != Money::ZERO);
        Ending { tokens: sum(&models), cost, models: if is_sum { Vec::new() } else { models } }
    }

    /// Returns the difference to the totals before; `None` if one decreased.
    fn less(&self, before: &Self) -> Option<Self> {
        if self.cost < before.cost {
            return None;
        }
        let mut moved = self.clone();
        moved.cost = self.cost.less(before.cost);
        for old in &before.models {
            let new = moved.models.iter_mut().find(|new| new.model == old.model)?;
            let less = new.tokens.less(&old.tokens);
            if old.tokens.plus(&less) != new.tokens || new.cost < old.cost {
                return None;
            }
            new.tokens = less;
            new.cost = new.cost.map(|cost| cost.less(old.cost.unwrap_or_default()));
        }
        Some(moved)
    }
}

fn sum(models: &[ModelTotal]) -> Tokens {
    models.iter().fold(Tokens::default(), |sum, total| sum.plus(&total.tokens))
}
