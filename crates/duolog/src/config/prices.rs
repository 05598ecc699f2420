//! `[prices."model"]`: the price of a model in US dollars per million tokens.

use duolog_log::dialect::money::Money;
use duolog_log::dialect::prices::{LongContextRates, Price, Rates};
use duolog_types::limits::MODEL_BYTES_MAX;
use toml_edit::{Item, TableLike, Value};

use super::model::Finding;
use super::rules;

/// The table of all prices.
pub(super) const TABLE: &str = "prices";
/// The kinds of tokens that have a price; the first two are required.
const KINDS: [&str; 5] = ["input", "output", "cache_read", "cache_write_5m", "cache_write_1h"];
/// The form of a rate, for messages.
const EXPECTED: &str = "US dollars per million tokens, like 2.5, with at most six decimals";
/// The picodollars of a micro-dollar. A micro-dollar per million tokens is a picodollar per token.
const PICOS_PER_MICRO: u128 = 1_000_000;
/// The maximum number of dollars per million tokens: far above any price, and sums stay within their bounds.
const DOLLARS_MAX: u128 = 1_000_000;

/// The price that a file sets for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceSetting {
    /// The model, by its name in the logs or its plain name.
    pub model: String,
    /// The price.
    pub price: Price,
    /// The line of the file, counted from 1.
    pub line: usize,
}

/// The text of the file and the lines of its bytes.
#[derive(Clone, Copy)]
pub(super) struct File<'t> {
    pub(super) text: &'t str,
    pub(super) line: &'t dyn Fn(usize) -> usize,
}

impl File<'_> {
    /// Returns a number as written, because TOML parses decimals as binary fractions.
    fn number(&self, item: &Item) -> Option<&str> {
        let is_number = matches!(item.as_value()?, Value::Integer(_) | Value::Float(_));
        self.text.get(item.span()?).filter(|_| is_number)
    }
}

/// Returns every price of the table, or all findings.
pub(super) fn all<'t>(
    models: &'t dyn TableLike,
    file: File<'t>,
) -> impl Iterator<Item = Result<PriceSetting, Vec<Finding>>> + 't {
    rules::entries(models).map(move |(model, item, at)| {
        let at = at.map(file.line);
        let rates = if model.is_empty() || model.len() > MODEL_BYTES_MAX {
            Err(vec![finding(model, None, at, format!("a model's name has 1 to {MODEL_BYTES_MAX} bytes"))])
        } else {
            rates(model, item, at, file)
        };
        let price = rates.map(|rates| Price { rates, long: LongContextRates::Same });
        price.map(|price| PriceSetting { model: model.to_owned(), price, line: at.unwrap_or(1) })
    })
}

fn rates(model: &str, item: &Item, at: Option<usize>, file: File<'_>) -> Result<Rates, Vec<Finding>> {
    let Some(kinds) = item.as_table_like() else {
        let message = format!("{model} is {}; expected a table, [prices.{model:?}]", rules::kind_of(item));
        return Err(vec![finding(model, None, at, message)]);
    };
    let mut said = [None; KINDS.len()];
    let mut findings = Vec::new();
    for (name, item, at) in rules::entries(kinds) {
        let at = at.map(file.line);
        match KINDS.iter().position(|kind| *kind == name) {
            None => findings.push(rules::unknown_among(&format!("prices.{model:?}"), name, &KINDS, at)),
            Some(kind) => {
                said[kind] = file.number(item).and_then(rate);
                if said[kind].is_none() {
                    let found = file.number(item).map_or_else(|| rules::kind_of(item), str::to_owned);
                    findings.push(finding(model, Some(name), at, format!("{name} is {found}; expected {EXPECTED}")));
                }
            }
        }
    }
    for (kind, name) in KINDS.iter().enumerate().take(2) {
        if said[kind].is_none() && !kinds.contains_key(name) {
            findings.push(finding(model, Some(name), at, format!("[prices.{model:?}] does not say {name}")));
        }
    }
    let (Some(input), Some(output), true) = (said[0], said[1], findings.is_empty()) else { return Err(findings) };
    // A kind of cache tokens without a price costs as much as input.
    let cached = |kind: usize| said[kind].unwrap_or(input);
    Ok(Rates { input, output, cache_read: cached(2), cache_write_5m: cached(3), cache_write_1h: cached(4) })
}

/// Converts dollars per million tokens to picodollars per token, exactly.
fn rate(number: &str) -> Option<u64> {
    let number = number.replace('_', "");
    let dollars = Money::parse(&number).filter(|dollars| *dollars <= Money::from_dollars(DOLLARS_MAX))?;
    let is_whole = dollars.picos().is_multiple_of(PICOS_PER_MICRO);
    u64::try_from(dollars.picos() / PICOS_PER_MICRO).ok().filter(|_| is_whole)
}

fn finding(model: &str, name: Option<&str>, line: Option<usize>, message: String) -> Finding {
    let name = name.map(|name| format!(".{name}")).unwrap_or_default();
    Finding { line, key: Some(format!("prices.{model:?}{name}")), message, hint: None }
}
