//! From lines to derived rows: a pure function of log bytes (I3).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use duolog_log::dialect::digest::Digest;
use duolog_log::dialect::usage::{Claim, Used};
use duolog_log::{Item, hash_line};
use duolog_state::derived::catalog::CatalogRow;
use duolog_state::derived::digests::DigestRow;
use duolog_state::derived::responses::{Owner, ResponseClaim};
use duolog_state::derived::usage_by_quarter::{UsageChange, UsedRow};
use duolog_types::line::check_line;
use duolog_types::{SessionId, Timestamp};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// The derived rows of a session during a fold.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    pub(crate) row: CatalogRow,
    /// `None` if an older fold version wrote the row: then it stays outdated until it is rebuilt.
    digest: Option<Digest>,
    /// Sessions that count responses of this log, each with one of them.
    counting: BTreeMap<SessionId, u64>,
}

impl Derived {
    /// Returns the rows of a log that was not folded yet.
    pub(crate) fn new(row: CatalogRow) -> Self {
        Self { row, digest: Some(Digest::default()), counting: BTreeMap::new() }
    }

    /// Continues from the existing row and its saved digest.
    pub(crate) fn resume(row: CatalogRow, saved: Option<&DigestRow>) -> Self {
        let same = |saved: &&DigestRow| {
            row.fold_version == Digest::VERSION && (saved.epoch, saved.position) == (row.epoch, row.position)
        };
        let digest = saved.filter(same).and_then(|saved| Digest::from_bytes(&saved.digest));
        Self { row, digest, counting: BTreeMap::new() }
    }

    /// Adds one line. A line that cannot be read is counted and does not affect the next ones.
    pub(crate) fn project(&mut self, item: &Item<'_>, line_bytes_max: usize) {
        let row = &mut self.row;
        match item {
            Item::Line(line) => {
                if check_line(line.bytes, line_bytes_max).is_ok() {
                    row.events += 1;
                    if let Some(at) = timestamp(line.bytes) {
                        row.first_at.get_or_insert(at);
                        row.last_at = Some(at);
                    }
                    if let Some(digest) = &mut self.digest {
                        digest.line(line.bytes);
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
                // A line that was not read has no hash; the next checkpoint after it has one again.
                row.line_hash = None;
                row.bytes += end.0 - start.0;
                row.position = *end;
            }
        }
    }

    /// Returns the responses whose owners must be known before the rows are written, in any order.
    pub(crate) fn unsettled(&self) -> Vec<u64> {
        self.digest.iter().flat_map(Digest::keys).collect()
    }

    /// Returns the number of lines that wait for that.
    pub(crate) fn waiting(&self) -> usize {
        self.digest.as_ref().map_or(0, Digest::unsettled)
    }

    /// Counts the waiting responses, except those of another session with a stronger claim. So the result does not
    /// depend on which session is folded first.
    pub(crate) fn settle(&mut self, owners: &HashMap<u64, Owner>) {
        let Some(digest) = &mut self.digest else { return };
        let (session, counting) = (&self.row.session_id, &mut self.counting);
        digest.settle(|claim| {
            let elsewhere = owners.get(&claim.key).filter(|owner| owner.holds_against(session, claim.weight));
            if let Some(owner) = elsewhere.filter(|owner| !counting.contains_key(&owner.session_id)) {
                counting.insert(owner.session_id.clone(), claim.key);
            }
            elsewhere.is_some()
        });
    }

    /// Returns the rows to write.
    pub(crate) fn rows(&self) -> Rows {
        let mut catalog = self.row.clone();
        let Some(digest) = &self.digest else {
            catalog.fold_version = 0;
            return Rows { catalog, digest: None, usage: Vec::new(), claimed: Vec::new(), counting: BTreeMap::new() };
        };
        catalog.fold_version = Digest::VERSION;
        catalog.dialect = digest.dialect().map(|dialect| dialect.word().to_owned());
        catalog.model = digest.model().map(str::to_owned);
        catalog.title = digest.title().map(str::to_owned);
        catalog.shared = digest.shared();
        let claimed = digest.claimed().map(|Claim { key, weight }| ResponseClaim { response: key, weight }).collect();
        let saved = DigestRow {
            session_id: catalog.session_id.clone(),
            epoch: catalog.epoch,
            position: catalog.position,
            digest: digest.to_bytes(),
        };
        let usage = digest.moves().into_iter().map(|change| UsageChange {
            quarter: change.quarter,
            model: change.model,
            charge: change.charge,
            added: used(&change.added),
            removed: used(&change.removed),
        });
        Rows { catalog, digest: Some(saved), usage: usage.collect(), claimed, counting: self.counting.clone() }
    }
}

/// The rows that one step of a fold writes in one transaction.
pub(crate) struct Rows {
    pub(crate) catalog: CatalogRow,
    pub(crate) digest: Option<DigestRow>,
    pub(crate) usage: Vec<UsageChange>,
    /// The responses counted here, each once.
    pub(crate) claimed: Vec<ResponseClaim>,
    /// The sessions that count other responses of this log, each with one of them.
    pub(crate) counting: BTreeMap<SessionId, u64>,
}

fn used(used: &Used) -> UsedRow {
    UsedRow {
        responses: used.responses,
        input: used.tokens.input,
        output: used.tokens.output,
        cache_read: used.tokens.cache_read,
        cache_write_5m: used.tokens.cache_write_5m,
        cache_write_1h: used.tokens.cache_write_1h,
        reasoning: used.tokens.reasoning,
        cost_picos: used.stated.picos(),
    }
}

/// Returns the line's top-level `timestamp`, if it has a valid one.
fn timestamp(line: &[u8]) -> Option<Timestamp> {
    // Most lines have none, and searching for the word is faster than parsing the line.
    std::str::from_utf8(line).ok().filter(|text| text.contains("\"timestamp\""))?;
    let mut json = serde_json::Deserializer::from_slice(line);
    json.deserialize_map(TimestampOf).ok()??.parse().ok()
}

/// Reads one member and skips the others undecoded: a duplicate key or a lone surrogate elsewhere is not an error here.
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
