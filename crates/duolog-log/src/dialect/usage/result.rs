//! What the end of a turn says, and how much of it the turn before took already.
//!
//! The totals of a stream of Claude Code are those of its process. A process that answers several prompts ends each with
//! the sum so far; one that answers a single prompt, and every other writer, with what the turn took.

use serde::{Deserialize, Serialize};

use super::fact::ModelTotal;
use super::tokens::Tokens;
use crate::dialect::money::Money;

/// Costs by model that add up to the cost of all but for this, in picodollars, are its parts: programs add doubles.
const ROUNDING_PICOS: u128 = 1_000_000;

/// What a turn took, as its end says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) tokens: Tokens,
    pub(super) cost: Option<Money>,
    /// The same by model, where the line tells it.
    pub(super) models: Vec<ModelTotal>,
}

impl Ending {
    /// All tokens: those by model, where they are told.
    pub(super) fn tokens(&self) -> Tokens {
        if self.models.is_empty() { self.tokens } else { sum(&self.models) }
    }

    /// The cost by model; all of it under `last_model` if the parts do not add up to it.
    pub(super) fn costs(&self, cost: Money, last_model: &str) -> Vec<(String, Money)> {
        let parts: Money = self.models.iter().filter_map(|total| total.cost).sum();
        let apart = parts.picos().abs_diff(cost.picos());
        if self.models.iter().any(|total| total.cost.is_none()) || apart > ROUNDING_PICOS || parts == Money::ZERO {
            return vec![(last_model.to_owned(), cost)];
        }
        let told = self.models.iter().filter_map(|total| Some((total.model.clone(), total.cost?)));
        told.filter(|(_, cost)| *cost != Money::ZERO).collect()
    }
}

/// What the result of a stream said in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StreamTotal {
    /// The session of the agent that the line names.
    stream: Option<u64>,
    models: Vec<ModelTotal>,
    cost: Money,
    /// The line told no counts by model.
    is_sum: bool,
}

impl StreamTotal {
    /// The totals of a result; those of no named model are counted as the last one's.
    pub(super) fn of(ending: Ending, stream: Option<u64>, last_model: &str) -> Self {
        let (is_sum, cost) = (ending.models.is_empty(), ending.cost.unwrap_or_default());
        let one = || vec![ModelTotal { model: last_model.to_owned(), tokens: ending.tokens, cost: None }];
        Self { stream, models: if is_sum { one() } else { ending.models }, cost, is_sum }
    }

    /// What the turn took whose responses told `told`: how far the totals moved if they run up over the turns of one
    /// process, else all of it.
    ///
    /// They run up if none fell and they hold both the totals before and the turn. A turn without responses moves
    /// nothing, so its totals are either the same as before or its own.
    pub(super) fn since(&self, before: Option<&Self>, told: &Tokens) -> Ending {
        let before = before.filter(|before| before.stream == self.stream);
        let moved = before.and_then(|before| self.less(before)).filter(|_| {
            let (now, before) = (sum(&self.models).total(), before.map_or(0, |before| sum(&before.models).total()));
            if told.total() == 0 { now == before } else { now >= before.saturating_add(told.total()) }
        });
        let Self { models, cost, is_sum, .. } = moved.unwrap_or_else(|| self.clone());
        let cost = Some(cost).filter(|cost| *cost != Money::ZERO);
        Ending { tokens: sum(&models), cost, models: if is_sum { Vec::new() } else { models } }
    }

    /// How far the totals moved; `None` if one fell.
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
