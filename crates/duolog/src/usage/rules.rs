//! Pure decisions: the cost of sums.

use std::collections::BTreeMap;

use duolog_log::dialect::money::Money;
use duolog_log::dialect::prices::Prices;
use duolog_log::dialect::usage::{Tiers, Tokens};
use duolog_state::derived::usage_by_quarter::{UsageSum, UsedRow};
use duolog_types::Charge;

use super::model::UsageTotal;

/// Adds up the sums of one group over models and charges, with their cost.
pub(super) fn priced<'a>(sums: impl IntoIterator<Item = &'a UsageSum>, prices: &Prices) -> UsageTotal {
    let mut total = UsageTotal::default();
    let mut bare: BTreeMap<&str, Tiers> = BTreeMap::new();
    for UsageSum { model, charge, used, .. } in sums {
        let tokens = tokens(used);
        if !charge.is_part() {
            total.responses += used.responses;
            total.tokens = total.tokens.plus(&tokens);
        }
        match charge {
            Charge::Stated => total.cost = Some(total.cost.unwrap_or_default() + Money::from_picos(used.cost_picos)),
            Charge::Bare => add(&mut bare.entry(model).or_default().all, &tokens),
            Charge::Over200k => add(&mut bare.entry(model).or_default().over_200k, &tokens),
            Charge::Over272k => add(&mut bare.entry(model).or_default().over_272k, &tokens),
        }
    }
    for (model, used) in bare {
        match prices.get(model) {
            Some(price) => total.cost = Some(total.cost.unwrap_or_default() + price.cost(&used)),
            // Zero tokens cost nothing at any price.
            None if used.all == Tokens::default() => {}
            None => total.unpriced.push(Some(model.to_owned()).filter(|model| !model.is_empty())),
        }
    }
    total
}

fn add(sum: &mut Tokens, tokens: &Tokens) {
    *sum = sum.plus(tokens);
}

fn tokens(used: &UsedRow) -> Tokens {
    Tokens {
        input: used.input,
        output: used.output,
        cache_read: used.cache_read,
        cache_write_5m: used.cache_write_5m,
        cache_write_1h: used.cache_write_1h,
        reasoning: used.reasoning,
    }
}
