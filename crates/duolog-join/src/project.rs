//! From lines to derived rows: pure, and a function of log bytes alone (I3).

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

/// The derived rows of a session on their way through its log.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    pub(crate) row: CatalogRow,
    /// Nothing where an older fold made the row that this goes on from: it stays as much behind until it is made anew.
    digest: Option<Digest>,
    /// Sessions that count responses this log tells of too, each with one of them.
    counting: BTreeMap<SessionId, u64>,
}

impl Derived {
    /// The rows of a log of which nothing was folded.
    pub(crate) fn new(row: CatalogRow) -> Self {
        Self { row, digest: Some(Digest::default()), counting: BTreeMap::new() }
    }

    /// Goes on from the row that is there, and from what was remembered with it.
    pub(crate) fn going_on(row: CatalogRow, remembered: Option<&DigestRow>) -> Self {
        let same = |kept: &&DigestRow| {
            row.fold_version == Digest::VERSION && (kept.epoch, kept.position) == (row.epoch, row.position)
        };
        let digest = remembered.filter(same).and_then(|kept| Digest::from_bytes(&kept.digest));
        Self { row, digest, counting: BTreeMap::new() }
    }

    /// Adds one line. One that cannot be read is counted, and hides nothing that follows.
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
                // There is no hash of what was not read; the next checkpoint behind it has one again.
                row.line_hash = None;
                row.bytes += end.0 - start.0;
                row.position = *end;
            }
        }
    }

    /// The responses of which it is to be said who counts them, before rows are made; in what order, does not matter.
    pub(crate) fn unsettled(&self) -> Vec<u64> {
        self.digest.iter().flat_map(Digest::keys).collect()
    }

    /// How many lines wait for that.
    pub(crate) fn waiting(&self) -> usize {
        self.digest.as_ref().map_or(0, Digest::unsettled)
    }

    /// Counts what waits, but for what another session counts whose claim holds against this one's: so it is the same
    /// session whichever is folded first.
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

    /// The rows as they are to be written.
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
        let kept = DigestRow {
            session_id: catalog.session_id.clone(),
            epoch: catalog.epoch,
            position: catalog.position,
            digest: digest.to_bytes(),
        };
        let usage = digest.moves().into_iter().map(|moved| UsageChange {
            quarter: moved.quarter,
            model: moved.model,
            charge: moved.charge,
            added: used(&moved.added),
            removed: used(&moved.removed),
        });
        Rows { catalog, digest: Some(kept), usage: usage.collect(), claimed, counting: self.counting.clone() }
    }
}

/// What one step of a fold writes, in one transaction.
pub(crate) struct Rows {
    pub(crate) catalog: CatalogRow,
    pub(crate) digest: Option<DigestRow>,
    pub(crate) usage: Vec<UsageChange>,
    /// The responses counted here, each once.
    pub(crate) claimed: Vec<ResponseClaim>,
    /// The sessions that others were left to, each with one of them.
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

/// The line's own top-level `timestamp`, where it has one that can be read.
fn timestamp(line: &[u8]) -> Option<Timestamp> {
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
