//! Pure decisions: parsing values, and suggestions for unknown keys.

use std::time::Duration;

use duolog_state::{Address, StoreAddress};
use duolog_types::Durability;
use duolog_types::names::check_name;
use toml_edit::{Item, TableLike};

use super::model::{Finding, Key, Shape, Value};
use super::{named, prices};

/// The maximum number of wrong letters for which a key is suggested.
const LETTERS_WRONG_MAX: usize = 2;
/// The minimum number of letters of a prefix for which a key is suggested.
const BEGINNING_LETTERS_MIN: usize = 3;

/// The tables whose keys are names.
const TABLES_OF_NAMES: [&str; 3] = [prices::TABLE, named::SCHEDULES, named::WORKFLOWS];

/// Parses a value of the file. The error is the end of a sentence about the key.
pub(super) fn from_item(key: Key, item: &Item) -> Result<Value, String> {
    match (item.as_integer(), item.as_str()) {
        (Some(_), _) if matches!(key.shape(), Shape::Address | Shape::Name) => Err(expected(key, &kind_of(item))),
        (Some(number), _) => match u64::try_from(number) {
            Ok(number) => from_number(key, number).ok_or_else(|| expected(key, &number)),
            Err(_) => Err(expected(key, &number)),
        },
        (None, Some(text)) if key.shape() == Shape::Address => match address(text)? {
            // A relative path would depend on the current directory of each process.
            StoreAddress::At(Address::Directory(path)) if path.is_relative() => {
                Err("is a relative path; in a file it begins with /".to_owned())
            }
            said => Ok(Value::Address(said)),
        },
        (None, Some(text)) if !matches!(key.shape(), Shape::Number { .. }) => from_text(key, text),
        (None, Some(text)) => Err(expected(key, &format_args!("{text:?}"))),
        (None, None) => Err(expected(key, &kind_of(item))),
    }
}

/// Parses a value of an environment variable.
pub(super) fn from_text(key: Key, text: &str) -> Result<Value, String> {
    let text = text.trim();
    let value = match key.shape() {
        Shape::Durability => {
            let known = [Durability::Process, Durability::Power].into_iter().find(|known| known.as_str() == text);
            known.map(Value::Durability)
        }
        Shape::Address => return address(text).map(Value::Address),
        Shape::Time { min, max } => time(text).filter(|time| (min..=max).contains(time)).map(Value::Time),
        Shape::Name => check_name("user", text).ok().map(|()| Value::Name(text.to_owned())),
        Shape::Size { .. } => size(text).and_then(|bytes| from_number(key, bytes)),
        Shape::Number { .. } => text.parse().ok().and_then(|number| from_number(key, number)),
    };
    value.ok_or_else(|| expected(key, &format_args!("{text:?}")))
}

/// Returns a number if it is within the range of the key.
fn from_number(key: Key, number: u64) -> Option<Value> {
    match key.shape() {
        Shape::Size { min, max } => (min..=max).contains(&number).then_some(Value::Size(number)),
        Shape::Number { min, max, .. } => (min..=max).contains(&number).then_some(Value::Number(number)),
        Shape::Durability | Shape::Address | Shape::Time { .. } | Shape::Name => None,
    }
}

/// Parses an address. The error does not repeat it, because it may contain a password.
fn address(text: &str) -> Result<StoreAddress, String> {
    text.parse().map_err(|error| match error {
        duolog_state::Error::BadAddress { detail } => format!("cannot be used: {detail}"),
        other => format!("cannot be used: {other}"),
    })
}

fn expected(key: Key, found: &dyn std::fmt::Display) -> String {
    format!("is {found}; expected {}", key.shape())
}

/// Parses a size: bytes, or an integer with a unit. Units are powers of 1024; `MB` is not accepted because it is
/// ambiguous.
fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Parses a duration: an integer with a unit.
fn time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim_start() {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(seconds).map(Duration::from_secs)
}

/// Returns the TOML type of a value, for a sentence.
pub(super) fn kind_of(item: &Item) -> String {
    let name = item.type_name();
    let article = if name.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {name}")
}

/// Returns true if a table has this name.
pub(super) fn is_table(name: &str) -> bool {
    TABLES_OF_NAMES.contains(&name) || Key::ALL.iter().any(|key| key.table() == name)
}

/// Returns the key with this name in this table.
pub(super) fn key_of(table: &str, name: &str) -> Option<Key> {
    Key::ALL.iter().copied().find(|key| key.table() == table && key.name() == name)
}

/// Returns the finding about an unknown key, with a suggestion.
pub(super) fn unknown(table: Option<&str>, name: &str, line: Option<usize>) -> Finding {
    let place = table.map_or_else(|| "at the top".to_owned(), |table| format!("in [{table}]"));
    let key = table.map_or_else(|| name.to_owned(), |table| format!("{table}.{name}"));
    let meant = nearest(name, table).map(|meant| format!("did you mean {meant}?"));
    let hint = meant.or_else(|| Some(format!("known here: {}", known(table))));
    Finding { line, key: Some(key), message: format!("unknown key {name} {place}"), hint }
}

/// Returns the finding about an unknown key in a named table, whose keys are `known`.
pub(super) fn unknown_among(table: &str, name: &str, known: &[&str], line: Option<usize>) -> Finding {
    let meant = known.iter().filter_map(|known| Some((near(name, known)?, *known))).min();
    let hint = meant
        .map_or_else(|| format!("known here: {}", known.join(", ")), |(_, known)| format!("did you mean {known}?"));
    let message = format!("unknown key {name} in [{table}]");
    Finding { line, key: Some(format!("{table}.{name}")), message, hint: Some(hint) }
}

/// Returns the names that are allowed in a table, or at the top level.
fn names(table: Option<&str>) -> Vec<&'static str> {
    let mut names: Vec<&str> = match table {
        Some(table) => Key::ALL.iter().filter(|key| key.table() == table).map(|key| key.name()).collect(),
        None => Key::ALL.iter().map(|key| key.table()).chain(TABLES_OF_NAMES).collect(),
    };
    // The keys of one table are adjacent.
    names.dedup();
    names
}

fn known(table: Option<&str>) -> String {
    let names = names(table);
    if table.is_some() { names.join(", ") } else { format!("[{}]", names.join("], [")) }
}

/// Returns a suggestion: a name in the same table first, then the same name elsewhere.
fn nearest(name: &str, table: Option<&str>) -> Option<String> {
    let near = |known: &str| near(name, known);
    let here = names(table).into_iter().filter_map(|known| Some((near(known)?, known))).min();
    if let Some((_, known)) = here {
        return Some(if table.is_some() { known.to_owned() } else { format!("[{known}]") });
    }
    let elsewhere = Key::ALL.iter().filter(|key| Some(key.table()) != table);
    let (_, key) = elsewhere.filter_map(|key| Some((near(key.name())?, key))).min_by_key(|(wrong, _)| *wrong)?;
    Some(format!("{} in [{}]", key.name(), key.table()))
}

/// Returns the number of wrong letters if `name` is similar to `known`.
pub(crate) fn near(name: &str, known: &str) -> Option<usize> {
    let begins = name.len() >= BEGINNING_LETTERS_MIN && (known.starts_with(name) || name.starts_with(known));
    let wrong = strsim::levenshtein(name, known);
    (begins || (wrong <= LETTERS_WRONG_MAX && wrong < known.len())).then_some(wrong)
}

/// Iterates over the keys and values of a table, in the order of the file.
pub(super) fn entries(table: &dyn TableLike) -> impl Iterator<Item = (&str, &Item, Option<usize>)> {
    table.iter().map(|(name, item)| {
        let written = table.get_key_value(name).and_then(|(key, _)| key.span());
        (name, item, written.or_else(|| item.span()).map(|span| span.start))
    })
}
