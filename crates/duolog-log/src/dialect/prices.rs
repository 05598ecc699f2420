//! Prices of tokens: a built-in table that a configuration can override. An unknown model has no price; it is never 0.

use std::collections::BTreeMap;

use super::money::Money;
use super::usage::{Tiers, Tokens};

/// Prices by kind of token, in micro-dollars per million tokens, which is picodollars per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Input that was not in the cache.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input from the cache.
    pub cache_read: u64,
    /// Input written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: u64,
}

impl Rates {
    /// Returns the cost of these tokens.
    pub fn cost(&self, tokens: &Tokens) -> Money {
        Money::of(tokens.input, self.input)
            + Money::of(tokens.output, self.output)
            + Money::of(tokens.cache_read, self.cache_read)
            + Money::of(tokens.cache_write_5m, self.cache_write_5m)
            + Money::of(tokens.cache_write_1h, self.cache_write_1h)
    }
}

/// The price of long contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongContextRates {
    /// The same as for short contexts.
    Same,
    /// A response with a context over 200,000 tokens is charged at these rates completely: Anthropic and Google.
    Whole200k(Rates),
    /// A response with a context over 272,000 tokens is charged at these rates completely: OpenAI.
    Whole272k(Rates),
}

/// The price of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Rates for short contexts.
    pub rates: Rates,
    /// Rates for long contexts.
    pub long: LongContextRates,
}

impl Price {
    /// Returns the cost of these tokens.
    pub fn cost(&self, used: &Tiers) -> Money {
        match self.long {
            LongContextRates::Same => self.rates.cost(&used.all),
            LongContextRates::Whole200k(rates) => {
                self.rates.cost(&used.all.less(&used.over_200k)) + rates.cost(&used.over_200k)
            }
            LongContextRates::Whole272k(rates) => {
                self.rates.cost(&used.all.less(&used.over_272k)) + rates.cost(&used.over_272k)
            }
        }
    }
}

/// Rates of Claude: cache reads cost a tenth of input, writes 1.25 and 2 times.
const fn claude(input: u64, output: u64) -> Rates {
    Rates { input, output, cache_read: input / 10, cache_write_5m: input / 4 * 5, cache_write_1h: input * 2 }
}

/// Rates of OpenAI and Google: cache reads have their own price, writes cost the same as input.
const fn openai(input: u64, output: u64, cache_read: u64) -> Rates {
    Rates { input, output, cache_read, cache_write_5m: input, cache_write_1h: input }
}

const fn flat(rates: Rates) -> Price {
    Price { rates, long: LongContextRates::Same }
}

const OPUS_OLD: Price = flat(claude(15_000_000, 75_000_000));
const OPUS: Price = flat(claude(5_000_000, 25_000_000));
const SONNET: Price = flat(claude(3_000_000, 15_000_000));
const SONNET_LONG: Price =
    Price { rates: claude(3_000_000, 15_000_000), long: LongContextRates::Whole200k(claude(6_000_000, 22_500_000)) };
/// The same model in fast mode, at a multiple of the price.
const OPUS_FAST_6: Price = flat(claude(30_000_000, 150_000_000));
const OPUS_FAST_2: Price = flat(claude(10_000_000, 50_000_000));
const FABLE: Price = flat(claude(10_000_000, 50_000_000));
const GEMINI_3_PRO: Price = Price {
    rates: openai(2_000_000, 12_000_000, 200_000),
    long: LongContextRates::Whole200k(openai(4_000_000, 18_000_000, 400_000)),
};
const GPT_5: Price = flat(openai(1_250_000, 10_000_000, 125_000));
const GPT_5_2: Price = flat(openai(1_750_000, 14_000_000, 175_000));
const GPT_5_MINI: Price = flat(openai(250_000, 2_000_000, 25_000));

/// The built-in table by plain model name (no provider, date or variant). Sorted for binary search.
const TABLE: &[(&str, Price)] = &[
    ("claude-3-5-haiku", flat(claude(800_000, 4_000_000))),
    ("claude-3-5-sonnet", SONNET),
    ("claude-3-7-sonnet", SONNET),
    (
        "claude-3-haiku",
        flat(Rates {
            input: 250_000,
            output: 1_250_000,
            cache_read: 30_000,
            cache_write_5m: 300_000,
            cache_write_1h: 500_000,
        }),
    ),
    ("claude-3-opus", OPUS_OLD),
    ("claude-fable-5", FABLE),
    ("claude-haiku-4-5", flat(claude(1_000_000, 5_000_000))),
    ("claude-opus-4", OPUS_OLD),
    ("claude-opus-4-1", OPUS_OLD),
    ("claude-opus-4-5", OPUS),
    ("claude-opus-4-6", OPUS),
    ("claude-opus-4-6-fast", OPUS_FAST_6),
    ("claude-opus-4-7", OPUS),
    ("claude-opus-4-7-fast", OPUS_FAST_6),
    ("claude-opus-4-8", OPUS),
    ("claude-opus-4-8-fast", OPUS_FAST_2),
    ("claude-opus-5", OPUS),
    ("claude-opus-5-fast", OPUS_FAST_2),
    ("claude-sonnet-4", SONNET_LONG),
    ("claude-sonnet-4-5", SONNET_LONG),
    ("claude-sonnet-4-6", SONNET),
    ("claude-sonnet-5", flat(claude(2_000_000, 10_000_000))),
    ("gemini-2.5-flash", flat(openai(300_000, 2_500_000, 30_000))),
    ("gemini-2.5-flash-lite", flat(openai(100_000, 400_000, 10_000))),
    (
        "gemini-2.5-pro",
        Price {
            rates: openai(1_250_000, 10_000_000, 125_000),
            long: LongContextRates::Whole200k(openai(2_500_000, 15_000_000, 250_000)),
        },
    ),
    ("gemini-3-flash-preview", flat(openai(500_000, 3_000_000, 50_000))),
    ("gemini-3-pro-preview", GEMINI_3_PRO),
    ("gemini-3.1-pro-preview", GEMINI_3_PRO),
    ("gpt-4.1", flat(openai(2_000_000, 8_000_000, 500_000))),
    ("gpt-4.1-mini", flat(openai(400_000, 1_600_000, 100_000))),
    ("gpt-4.1-nano", flat(openai(100_000, 400_000, 25_000))),
    ("gpt-4o", flat(openai(2_500_000, 10_000_000, 1_250_000))),
    ("gpt-4o-mini", flat(openai(150_000, 600_000, 75_000))),
    ("gpt-5", GPT_5),
    ("gpt-5-codex", GPT_5),
    ("gpt-5-mini", GPT_5_MINI),
    ("gpt-5-nano", flat(openai(50_000, 400_000, 5_000))),
    ("gpt-5.1", GPT_5),
    ("gpt-5.1-codex", GPT_5),
    ("gpt-5.1-codex-max", GPT_5),
    ("gpt-5.1-codex-mini", GPT_5_MINI),
    ("gpt-5.2", GPT_5_2),
    ("gpt-5.2-codex", GPT_5_2),
    ("gpt-5.3-codex", GPT_5_2),
    (
        "gpt-5.4",
        Price {
            rates: openai(2_500_000, 15_000_000, 250_000),
            long: LongContextRates::Whole272k(openai(5_000_000, 22_500_000, 500_000)),
        },
    ),
    ("gpt-5.4-mini", flat(openai(750_000, 4_500_000, 75_000))),
    ("gpt-5.4-nano", flat(openai(200_000, 1_250_000, 20_000))),
    (
        "gpt-5.5",
        Price {
            rates: openai(5_000_000, 30_000_000, 500_000),
            long: LongContextRates::Whole272k(openai(10_000_000, 45_000_000, 1_000_000)),
        },
    ),
    ("o3", flat(openai(2_000_000, 8_000_000, 500_000))),
    ("o3-mini", flat(openai(1_100_000, 4_400_000, 550_000))),
    ("o4-mini", flat(openai(1_100_000, 4_400_000, 275_000))),
];

/// The effective prices: the built-in table and the overrides of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    overrides: BTreeMap<String, Price>,
}

impl Prices {
    /// Returns the built-in table.
    pub fn builtin() -> Self {
        Self::default()
    }

    /// Overrides the price of a model, by its name in logs or by its plain name.
    pub fn set(&mut self, model: &str, price: Price) {
        self.overrides.insert(model.to_owned(), price);
    }

    /// Returns the price of a model by its exact name or its plain name; `None` if it is unknown. Prefixes do not
    /// match.
    pub fn get(&self, model: &str) -> Option<Price> {
        let plain = plain_name(model);
        let overrides = self.overrides.get(model).or_else(|| self.overrides.get(&plain)).copied();
        overrides.or_else(|| TABLE.binary_search_by_key(&plain.as_str(), |(name, _)| name).ok().map(|at| TABLE[at].1))
    }
}

/// Returns a model's name without provider, region, date, version and variant.
fn plain_name(model: &str) -> String {
    let lower = model.trim().to_ascii_lowercase();
    let name = match lower.find("claude-") {
        Some(at) => &lower[at..],
        None => lower.rsplit(['/', ':']).next().unwrap_or_default(),
    };
    let (name, speed) = name.strip_suffix("-fast").map_or((name, ""), |name| (name, "-fast"));
    let name = name.split(['[', '@', ':']).next().unwrap_or_default();
    let name = name.strip_suffix("-latest").unwrap_or(name);
    format!("{}{speed}", without_date(without_version(name)))
}

/// Removes a version as Bedrock writes it: `…-v1`.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("-v") {
        Some((rest, digits)) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => name,
    }
}

/// Removes a date: `…-20250514` or `…-2025-05-14`.
fn without_date(name: &str) -> &str {
    let is_date = |text: &str| {
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        let dashed = text.len() == 10 && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
        digits == 8 && (text.len() == 8 || dashed)
    };
    [8, 10]
        .into_iter()
        .filter_map(|len| name.len().checked_sub(len + 1))
        .find(|at| name.as_bytes()[*at] == b'-' && name.is_char_boundary(at + 1) && is_date(&name[at + 1..]))
        .map_or(name, |at| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_sorted_and_has_plain_names() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(TABLE.iter().all(|(name, _)| plain_name(name) == *name));
    }

    #[test]
    fn a_model_has_many_names() {
        let prices = Prices::builtin();
        let sonnet = prices.get("claude-sonnet-4-6");
        for name in [
            "anthropic/claude-sonnet-4-6",
            "claude-sonnet-4-6-20260101",
            "us.anthropic.claude-sonnet-4-6-20260101-v1:0",
            "claude-sonnet-4-6[1m]",
            "claude-sonnet-4-6@20260101",
            "CLAUDE-SONNET-4-6-latest",
        ] {
            assert_eq!(prices.get(name), sonnet, "{name}");
        }
        assert_eq!(prices.get("openai:gpt-4.1-mini-2025-04-14"), prices.get("gpt-4.1-mini"));
        assert_eq!(prices.get("claude-opus-4-8-20260101-fast"), prices.get("claude-opus-4-8-fast"));
        assert_ne!(prices.get("claude-opus-4-8-fast"), prices.get("claude-opus-4-8"));
        assert_ne!(prices.get("claude-opus-4-20250514"), prices.get("claude-opus-4-5-20251101"));
    }

    #[test]
    fn an_unknown_model_has_no_price_and_a_configured_one_has() {
        let mut prices = Prices::builtin();
        for name in ["claude-opus-99", "gpt-6", "", "<synthetic>", "my-model", "claude-opus-4-5-fast"] {
            assert_eq!(prices.get(name), None, "{name}");
        }
        let price = flat(openai(1, 2, 3));
        prices.set("my-model", price);
        prices.set("gpt-5", price);
        assert_eq!(prices.get("my-model"), Some(price));
        assert_eq!(prices.get("openai/gpt-5"), Some(price), "its plain name is configured");
    }

    #[test]
    fn a_long_context_costs_more_for_some_models() {
        let prices = Prices::builtin();
        let cost =
            |model: &str, tokens: Tokens| prices.get(model).map(|price| price.cost(&Tiers::of(tokens)).to_string());
        let input = |input| Tokens { input, ..Tokens::default() };
        assert_eq!(cost("claude-sonnet-4-5", input(200_000)).as_deref(), Some("0.6"));
        assert_eq!(
            cost("claude-sonnet-4-5", input(200_001)).as_deref(),
            Some("1.200006"),
            "all of it at the long rate"
        );
        assert_eq!(cost("claude-sonnet-4-5", input(1_000_000)).as_deref(), Some("6"));
        let read = Tokens { input: 10, cache_read: 200_000, output: 1000, ..Tokens::default() };
        assert_eq!(cost("claude-sonnet-4", read).as_deref(), Some("0.14256"), "cached tokens are input too");
        let output = Tokens { input: 10, output: 250_000, ..Tokens::default() };
        assert_eq!(cost("claude-sonnet-4", output).as_deref(), Some("3.75003"), "output is not context");
        assert_eq!(cost("gemini-2.5-pro", input(200_000)).as_deref(), Some("0.25"));
        let long = Tokens { input: 300_000, output: 1000, ..Tokens::default() };
        assert_eq!(cost("google/gemini-2.5-pro", long).as_deref(), Some("0.765"));
        assert_eq!(cost("gemini-3.1-pro-preview", long).as_deref(), Some("1.218"));
        assert_eq!(cost("gemini-2.5-flash", long).as_deref(), Some("0.0925"), "one price");
        assert_eq!(cost("claude-sonnet-4-6", input(1_000_000)).as_deref(), Some("3"));
        assert_eq!(cost("gpt-5.5", input(272_000)).as_deref(), Some("1.36"));
        assert_eq!(cost("gpt-5.5", input(272_001)).as_deref(), Some("2.72001"));
        assert_eq!(cost("gpt-5.5", input(1_000_000)).as_deref(), Some("10"));
        assert_eq!(cost("gpt-5.2", input(1_000_000)).as_deref(), Some("1.75"), "one price");
        let cached = Tokens { input: 10, cache_read: 300_000, output: 1000, ..Tokens::default() };
        assert_eq!(cost("gpt-5.5", cached).as_deref(), Some("0.3451"), "cached tokens are context");
    }

    proptest! {
        #[test]
        fn no_name_panics(name in "\\PC{0,40}|[a-z0-9:@/\\[-]{0,40}") {
            let _ = Prices::builtin().get(&name);
        }
    }
}
