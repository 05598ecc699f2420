//! From lines to derived rows: pure, and a function of log bytes alone (I3).

use std::borrow::Cow;
use std::fmt;

use duolog_log::{Item, hash_line};
use duolog_state::derived::catalog::CatalogRow;
use duolog_types::Moment;
use duolog_types::line::check_line;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// Adds one line to a session's catalog row. A line that cannot be read is counted, and hides nothing that follows.
pub(crate) fn project(row: &mut CatalogRow, item: &Item<'_>, line_bytes_max: usize) {
    match item {
        Item::Line(line) => {
            if check_line(line.bytes, line_bytes_max).is_ok() {
                row.events += 1;
                if let Some(at) = timestamp(line.bytes) {
                    row.first_at.get_or_insert(at);
                    row.last_at = Some(at);
                }
            } else {
                row.damaged += 1;
            }
            row.line_hash = Some(hash_line(line.bytes));
            row.bytes += line.end.0 - line.start.0;
            row.position = line.end;
        }
        Item::TooLong { start, end } => {
            row.damaged += 1;
            // There is no hash of what was not read; the next checkpoint behind it has one again.
            row.line_hash = None;
            row.bytes += end.0 - start.0;
            row.position = *end;
        }
    }
}

/// The line's own top-level `timestamp`, where it has one that can be read.
fn timestamp(line: &[u8]) -> Option<Moment> {
    // Mostly there is none, and looking for the word is quicker than reading the line.
    std::str::from_utf8(line).ok().filter(|text| text.contains("\"timestamp\""))?;
    let mut json = serde_json::Deserializer::from_slice(line);
    json.deserialize_map(TimestampOf).ok()??.parse().ok()
}

/// Reads one member and skips the rest undecoded: a duplicate key or a lone surrogate elsewhere is no error here.
struct TimestampOf;

impl<'de> Visitor<'de> for TimestampOf {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = members.next_key::<Cow<'de, str>>()? {
            if key == "timestamp" {
                found = match members.next_value::<serde_json::Value>()? {
                    serde_json::Value::String(text) => Some(text),
                    _ => None,
                };
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_top_level_timestamp_counts_and_the_last_of_two_wins() {
        let at = |line: &str| timestamp(line.as_bytes()).map(|at| at.to_string());
        let expected = Some("2026-01-02T03:04:05.000000Z".to_owned());
        assert_eq!(at(r#"{"timestamp":"2026-01-02T03:04:05Z"}"#), expected);
        assert_eq!(at(r#"{"timestamp":1,"x":"\ud83d","timestamp":"2026-01-02T03:04:05Z"}"#), expected);
        assert_eq!(at(r#"{"a":{"timestamp":"2026-01-02T03:04:05Z"}}"#), None);
        assert_eq!(at(r#"{"timestamp":"yesterday"}"#), None);
        assert_eq!(at(r#"{"timestamp":12}"#), None);
    }
}
