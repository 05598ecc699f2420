//! Queries an index: candidates, newest first.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use duolog_types::{Epoch, Position, SessionId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};

use super::Index;
use super::batch::{IndexedTo, cut};
use crate::error::Result;
use crate::query::Query;

/// The order of hits: by time, newest first; at the same time by session, and within a session the last line first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The time in microseconds since 1970; 0 if it is unknown.
    pub at: i64,
    /// The session.
    pub session: SessionId,
    /// The position of the line.
    pub position: Position,
    /// The index of the text in that line.
    pub part: u32,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let place = |key: &Self| (key.position, key.part);
        let by_time = other.at.cmp(&self.at);
        by_time.then_with(|| self.session.cmp(&other.session)).then_with(|| place(other).cmp(&place(self)))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Formats a key as `at.position.part.session`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.at, self.position, self.part, self.session)
    }
}

/// The error for text that is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a page token of a search")]
pub struct NotAKey(String);

impl FromStr for Key {
    type Err = NotAKey;

    fn from_str(text: &str) -> std::result::Result<Self, NotAKey> {
        let read = || {
            let mut parts = text.splitn(4, '.');
            Some(Self {
                at: parts.next()?.parse().ok()?,
                position: Position(parts.next()?.parse().ok()?),
                part: parts.next()?.parse().ok()?,
                session: SessionId::parse(parts.next()?).ok()?,
            })
        };
        read().ok_or_else(|| NotAKey(text.chars().take(64).collect()))
    }
}

/// The filter of a search. An absent field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this session.
    pub session: Option<SessionId>,
    /// Only this kind or role, ignoring ASCII case.
    pub role: Option<String>,
    /// Only calls and results of this tool, ignoring ASCII case.
    pub tool: Option<String>,
    /// Only from this time on. Texts without a time do not match.
    pub since: Option<Timestamp>,
}

impl Filter {
    /// Returns true if a text passes; its session is not checked.
    pub fn passes(&self, at: i64, kind: &str, role: Option<&str>, tool: Option<&str>) -> bool {
        let is = |wanted: &Option<String>, names: &[Option<&str>]| {
            wanted.as_ref().is_none_or(|wanted| names.iter().flatten().any(|name| is_same_name(name, wanted)))
        };
        self.earliest().is_none_or(|since| at >= since)
            && is(&self.role, &[Some(kind), role])
            && is(&self.tool, &[tool])
    }
}

impl Filter {
    fn earliest(&self) -> Option<i64> {
        self.since.map(|since| since.as_micros().max(1))
    }
}

fn is_same_name(name: &str, wanted: &str) -> bool {
    cut(name).eq_ignore_ascii_case(cut(wanted))
}

/// A text that may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its place.
    pub key: Key,
    /// Its kind.
    pub kind: String,
    /// The role in its line.
    pub role: Option<String>,
    /// The tool that was called or gave the result.
    pub tool: Option<String>,
}

/// The progress of a session's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexProgress {
    /// The epoch of its log.
    pub epoch: Epoch,
    /// The end of the indexed lines.
    pub position: Position,
    /// Number of unreadable lines before that.
    pub damaged: u64,
}

/// A consistent snapshot of an index; later changes are not visible.
pub struct Snapshot<'i> {
    index: &'i Index,
    names: HashMap<i64, String>,
}

impl<'i> Snapshot<'i> {
    pub(super) fn begin(index: &'i Index) -> Result<Self> {
        let failed = index.failed();
        index.connection.execute_batch("BEGIN DEFERRED").map_err(&failed)?;
        let mut snapshot = Self { index, names: HashMap::new() };
        let mut all = index.connection.prepare_cached("SELECT id, name FROM names").map_err(&failed)?;
        let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&failed)?;
        snapshot.names = rows.collect::<rusqlite::Result<_>>().map_err(&failed)?;
        Ok(snapshot)
    }

    /// Returns the progress of each session.
    pub fn progress(&self) -> Result<HashMap<SessionId, IndexProgress>> {
        let failed = self.index.failed();
        let sql = "SELECT session, epoch, position, damaged FROM sources";
        let mut all = self.index.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = all.query([]).map_err(failed)?;
        let mut progress = HashMap::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let read = || -> rusqlite::Result<(String, IndexProgress)> {
                let count = |column| row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0));
                let of_session =
                    IndexProgress { epoch: Epoch(row.get(1)?), position: Position(count(2)?), damaged: count(3)? };
                Ok((row.get(0)?, of_session))
            };
            let (session, of_session) = read().map_err(failed)?;
            // Duolog did not write an invalid id; its texts are never shown.
            if let Ok(session) = SessionId::parse(&session) {
                progress.insert(session, of_session);
            }
        }
        Ok(progress)
    }

    /// Returns the checkpoint of a session.
    pub fn checkpoint(&self, session: &SessionId) -> Result<Option<IndexedTo>> {
        self.index.find_checkpoint(session)
    }

    /// Returns the first texts after `after` that may match, in the order of their keys; `None` if the query has no
    /// word, so that the index cannot answer it.
    pub fn candidates(
        &self,
        query: &Query,
        filter: &Filter,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Option<Vec<Candidate>>> {
        let Some(expression) = query.expression() else { return Ok(None) };
        let Some((sql, values)) = self.statement(expression, filter, after, limit) else {
            return Ok(Some(Vec::new()));
        };
        let failed = self.index.failed();
        let mut statement = self.index.connection.prepare_cached(&sql).map_err(&failed)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(&failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(&failed)? {
            found.extend(self.read(row).map_err(&failed)?);
        }
        Ok(Some(found))
    }

    fn read(&self, row: &Row<'_>) -> rusqlite::Result<Option<Candidate>> {
        let Ok(session) = SessionId::parse(&row.get::<_, String>(0)?) else { return Ok(None) };
        let position = Position(u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0));
        let name = |column: usize| -> rusqlite::Result<Option<String>> {
            Ok(row.get::<_, Option<i64>>(column)?.and_then(|id| self.names.get(&id)).cloned())
        };
        let key = Key { session, position, part: row.get(2)?, at: row.get(3)? };
        Ok(Some(Candidate { key, kind: name(4)?.unwrap_or_default(), role: name(5)?, tool: name(6)? }))
    }

    /// Returns the statement for candidates; `None` if no text has a name of the filter.
    fn statement(
        &self,
        expression: String,
        filter: &Filter,
        after: Option<&Key>,
        limit: usize,
    ) -> Option<(String, Vec<Value>)> {
        let mut values = vec![Value::Text(expression)];
        let mut take = |value: Value| {
            values.push(value);
            format!("?{}", values.len())
        };
        let mut conditions = vec!["t.texts MATCH ?1".to_owned()];
        if let Some(session) = &filter.session {
            let session = take(Value::Text(session.to_string()));
            conditions.push(format!("d.source = (SELECT id FROM sources WHERE session = {session})"));
        }
        if let Some(since) = filter.earliest() {
            conditions.push(format!("d.at >= {}", take(Value::Integer(since))));
        }
        if let Some(role) = &filter.role {
            let ids = self.ids(role)?;
            conditions.push(format!("(d.kind IN ({ids}) OR d.role IN ({ids}))"));
        }
        if let Some(tool) = &filter.tool {
            conditions.push(format!("d.tool IN ({})", self.ids(tool)?));
        }
        if let Some(Key { at, session, position, part }) = after {
            let (at, session) = (take(Value::Integer(*at)), take(Value::Text(session.to_string())));
            let position = take(Value::Integer(i64::try_from(position.0).unwrap_or(i64::MAX)));
            let part = take(Value::Integer(i64::from(*part)));
            conditions.push(format!(
                "(d.at < {at} OR (d.at = {at} AND (s.session > {session} OR (s.session = {session} \
                 AND (d.position, d.part) < ({position}, {part})))))"
            ));
        }
        let limit = take(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        // The full-text table comes first in the join: only it knows what may match.
        let sql = format!(
            "SELECT s.session, d.position, d.part, d.at, d.kind, d.role, d.tool FROM texts AS t \
             CROSS JOIN docs AS d ON d.id = t.rowid CROSS JOIN sources AS s ON s.id = d.source WHERE {} \
             ORDER BY d.at DESC, s.session, d.position DESC, d.part DESC LIMIT {limit}",
            conditions.join(" AND ")
        );
        Some((sql, values))
    }

    /// Returns the ids of a name, ignoring case; `None` if no text has it.
    fn ids(&self, wanted: &str) -> Option<String> {
        let ids = self.names.iter().filter(|(_, name)| is_same_name(name, wanted)).map(|(id, _)| id.to_string());
        let ids: Vec<String> = ids.collect();
        (!ids.is_empty()).then(|| ids.join(", "))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // The transaction only read.
        let _ = self.index.connection.execute_batch("ROLLBACK");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(at: i64, session: &str, position: u64, part: u32) -> Key {
        Key { at, session: SessionId::parse(session).expect("an id"), position: Position(position), part }
    }

    #[test]
    fn the_newest_key_is_first_and_a_printed_key_parses_back() {
        let mut keys = vec![key(1, "b", 0, 0), key(2, "a.b", 5, 1), key(2, "a.b", 5, 0), key(2, "c", 9, 0)];
        keys.sort();
        assert_eq!(keys, [key(2, "a.b", 5, 1), key(2, "a.b", 5, 0), key(2, "c", 9, 0), key(1, "b", 0, 0)]);
        for key in keys {
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        for bad in ["", "1.2.3", "1.2.3.", "x.1.1.a", "1.1.1.../etc", "1.-1.0.a"] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_role_is_the_kind_or_the_role_of_the_line() {
        let filter = |role: Option<&str>, tool: Option<&str>, since: Option<i64>| Filter {
            session: None,
            role: role.map(str::to_owned),
            tool: tool.map(str::to_owned),
            since: since.map(Timestamp::from_micros),
        };
        assert!(filter(Some("USER"), None, None).passes(0, "user", None, None));
        assert!(filter(Some("moderator"), None, None).passes(0, "assistant", Some("moderator"), None));
        assert!(!filter(Some("user"), None, None).passes(0, "assistant", None, None));
        assert!(filter(None, Some("bash"), None).passes(0, "tool_call", None, Some("Bash")));
        assert!(!filter(None, Some("bash"), None).passes(0, "tool_call", None, None));
        assert!(filter(None, None, Some(5)).passes(5, "user", None, None));
        assert!(!filter(None, None, Some(0)).passes(0, "user", None, None), "texts without a time do not match");
    }
}
