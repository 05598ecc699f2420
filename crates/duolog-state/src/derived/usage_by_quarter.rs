//! `usage_by_quarter`: the usage of sessions by quarter hour, model and charge; sums also include executions.
//!
//! An execution counts only if the log of its session has no usage: if both have usage, the log's is used.
//!
//! Money is in two columns, micro-dollars and the remaining picodollars, so that sums over rows are exact.

use duolog_types::{Charge, SessionId};

use crate::engine::{Row, Tx, Value};
use crate::error::Result;
use crate::page::PageOrder;
use crate::params;

/// The picodollars in a micro-dollar.
const PICOS: u128 = 1_000_000;

macro_rules! used_columns {
    () => {
        "responses, input, output, cache_read, cache_write_5m, cache_write_1h, reasoning, cost_micros, cost_picos"
    };
}

/// The casts are for PostgreSQL, whose `SUM` of BIGINT is NUMERIC.
macro_rules! sums {
    () => {
        "CAST(SUM(u.responses) AS BIGINT), CAST(SUM(u.input) AS BIGINT), CAST(SUM(u.output) AS BIGINT), \
         CAST(SUM(u.cache_read) AS BIGINT), CAST(SUM(u.cache_write_5m) AS BIGINT), \
         CAST(SUM(u.cache_write_1h) AS BIGINT), CAST(SUM(u.reasoning) AS BIGINT), \
         CAST(SUM(u.cost_micros) AS BIGINT), CAST(SUM(u.cost_picos) AS BIGINT)"
    };
}

/// Counted usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsedRow {
    /// The number of responses.
    pub responses: u64,
    /// Input tokens that were not cached.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Tokens written to the cache for one hour.
    pub cache_write_1h: u64,
    /// Output tokens that were reasoning.
    pub reasoning: u64,
    /// The cost according to the log, in picodollars.
    pub cost_picos: u128,
}

impl UsedRow {
    /// Reads the columns starting at `at`.
    fn read(row: &Row<'_>, at: usize) -> Result<Self> {
        let micros: u64 = row.get(at + 7)?;
        let picos: u64 = row.get(at + 8)?;
        Ok(Self {
            responses: row.get(at)?,
            input: row.get(at + 1)?,
            output: row.get(at + 2)?,
            cache_read: row.get(at + 3)?,
            cache_write_5m: row.get(at + 4)?,
            cache_write_1h: row.get(at + 5)?,
            reasoning: row.get(at + 6)?,
            cost_picos: u128::from(micros) * PICOS + u128::from(picos),
        })
    }

    fn values<'v>(&self) -> [Value<'v>; 9] {
        let micros = u64::try_from(self.cost_picos / PICOS).unwrap_or(u64::MAX);
        let picos = u64::try_from(self.cost_picos % PICOS).unwrap_or_default();
        [
            self.responses,
            self.input,
            self.output,
            self.cache_read,
            self.cache_write_5m,
            self.cache_write_1h,
            self.reasoning,
            micros,
            picos,
        ]
        // The maximum of a column: a larger number in a log must not stop the fold.
        .map(|number| i64::try_from(number).unwrap_or(i64::MAX).into())
    }

    fn changed_by(&self, change: &UsageChange) -> Self {
        let (added, removed) = (&change.added, &change.removed);
        let sum = |now: u64, added: u64, removed: u64| now.saturating_add(added).saturating_sub(removed);
        Self {
            responses: sum(self.responses, added.responses, removed.responses),
            input: sum(self.input, added.input, removed.input),
            output: sum(self.output, added.output, removed.output),
            cache_read: sum(self.cache_read, added.cache_read, removed.cache_read),
            cache_write_5m: sum(self.cache_write_5m, added.cache_write_5m, removed.cache_write_5m),
            cache_write_1h: sum(self.cache_write_1h, added.cache_write_1h, removed.cache_write_1h),
            reasoning: sum(self.reasoning, added.reasoning, removed.reasoning),
            cost_picos: self.cost_picos.saturating_add(added.cost_picos).saturating_sub(removed.cost_picos),
        }
    }
}

/// The usage of a session in a quarter hour, by model and charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// The session.
    pub session_id: SessionId,
    /// The start of the quarter hour in UTC; empty if the log has no timestamp.
    pub quarter: String,
    /// The model; empty if the log has none.
    pub model: String,
    /// How the usage is charged.
    pub charge: Charge,
    /// The usage.
    pub used: UsedRow,
}

/// A change of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageChange {
    /// The start of the quarter hour in UTC; empty if the log has no timestamp.
    pub quarter: String,
    /// The model; empty if the log has none.
    pub model: String,
    /// How the usage is charged.
    pub charge: Charge,
    /// The usage to add.
    pub added: UsedRow,
    /// The usage to subtract.
    pub removed: UsedRow,
}

impl UsageChange {
    /// Returns the row of a session that this is the only change of.
    pub fn alone(self, session: SessionId) -> UsageRow {
        let used = UsedRow::default().changed_by(&self);
        UsageRow { session_id: session, quarter: self.quarter, model: self.model, charge: self.charge, used }
    }
}

/// Applies changes to the rows of a session. A row that becomes zero is deleted.
pub fn change(tx: &mut Tx<'_>, session: &SessionId, changes: &[UsageChange]) -> Result<()> {
    for change in changes {
        let key = params![session, &change.quarter, &change.model, change.charge];
        let find = concat!(
            "SELECT ",
            used_columns!(),
            " FROM usage_by_quarter WHERE session_id = ?1 AND quarter = ?2 AND model = ?3 AND charge = ?4"
        );
        let before = tx.find(find, key, |row| UsedRow::read(row, 0))?;
        let after = before.unwrap_or_default().changed_by(change);
        if after == UsedRow::default() {
            let delete =
                "DELETE FROM usage_by_quarter WHERE session_id = ?1 AND quarter = ?2 AND model = ?3 AND charge = ?4";
            tx.execute(delete, key)?;
            continue;
        }
        let put = concat!(
            "INSERT INTO usage_by_quarter (session_id, quarter, model, charge, ",
            used_columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
             ON CONFLICT (session_id, quarter, model, charge) DO UPDATE SET responses = excluded.responses, \
             input = excluded.input, output = excluded.output, cache_read = excluded.cache_read, \
             cache_write_5m = excluded.cache_write_5m, cache_write_1h = excluded.cache_write_1h, \
             reasoning = excluded.reasoning, cost_micros = excluded.cost_micros, cost_picos = excluded.cost_picos"
        );
        let values: Vec<Value<'_>> = key.iter().cloned().chain(after.values()).collect();
        tx.execute(put, &values)?;
    }
    Ok(())
}

/// Deletes the usage of a session, before it is counted again.
pub fn forget(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    tx.execute("DELETE FROM usage_by_quarter WHERE session_id = ?1", params![session]).map(drop)
}

/// Returns every row, by key, to compare a rebuild with the rows before it.
pub fn dump(tx: &mut Tx<'_>) -> Result<Vec<UsageRow>> {
    let sql = concat!(
        "SELECT session_id, quarter, model, charge, ",
        used_columns!(),
        " FROM usage_by_quarter ORDER BY session_id, quarter, model, charge"
    );
    tx.all(sql, &[], |row| {
        let used = UsedRow::read(row, 4)?;
        Ok(UsageRow { session_id: row.get(0)?, quarter: row.get(1)?, model: row.get(2)?, charge: row.get(3)?, used })
    })
}

/// How a report is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// By day of a time zone, newest first. The sums are by quarter hour.
    Day,
    /// By session, in this order.
    Session(PageOrder),
    /// By model name.
    Model,
    /// By workflow name. If no run is known: the session's playbook or agent.
    Workflow,
}

impl Grouping {
    /// Returns the SQL expression of the group's key, over `u`, the usage, and `s`, its session.
    const fn key(self) -> &'static str {
        match self {
            Self::Day => "u.quarter",
            Self::Session(_) => "COALESCE(s.id, '')",
            Self::Model => "u.model",
            Self::Workflow => {
                "COALESCE(u.workflow, (SELECT r.workflow_name FROM executions x JOIN workflow_runs r \
                 ON r.id = x.workflow_run_id WHERE x.session_id = u.session_id ORDER BY x.started_at, x.id LIMIT 1), \
                 s.playbook_name, s.agent_name, '')"
            }
        }
    }
}

/// The filter of a report. `None` does not filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageFilter {
    /// Only this user's usage.
    pub user_id: Option<String>,
    /// Only usage from this timestamp on.
    pub since: Option<String>,
    /// Only usage before this timestamp.
    pub until: Option<String>,
}

/// A group of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageGroup {
    /// The day, the session's id, the model or the workflow name; may be empty.
    pub key: String,
    /// The session's name, if the group is a session.
    pub name: Option<String>,
    /// The sort key of the group.
    pub order: String,
}

/// The length of a timestamp in characters. Sessions are ordered by timestamp, then by id.
pub const INSTANT_CHARS: usize = 27;

/// A statement under construction, with its values.
struct Statement<'v> {
    sql: String,
    values: Vec<Value<'v>>,
}

impl<'v> Statement<'v> {
    fn new(sql: &str) -> Self {
        Self { sql: sql.to_owned(), values: Vec::new() }
    }

    /// Adds a clause with one value, written as `?#`.
    fn and(&mut self, clause: &str, value: impl Into<Value<'v>>) {
        self.values.push(value.into());
        self.sql.push_str(&clause.replace("?#", &format!("?{}", self.values.len())));
    }

    fn filter(&mut self, filter: &'v UsageFilter) {
        if let Some(user) = &filter.user_id {
            self.and(" AND s.user_id = ?#", user);
        }
        self.time_range(filter, "u.quarter");
    }

    fn time_range(&mut self, filter: &'v UsageFilter, column: &str) {
        if let Some(since) = &filter.since {
            self.and(&format!(" AND {column} >= ?#"), since);
        }
        if let Some(until) = &filter.until {
            // Usage without a timestamp sorts first, and it is unknown whether it is before `until`.
            self.and(&format!(" AND {column} > '' AND {column} < ?#"), until);
        }
    }
}

/// The counted usage: that of logs, and of executions whose cost is in no log. A deleted session has no log.
const JOINED: &str = " FROM (SELECT session_id, quarter, model, charge, responses, input, output, cache_read, \
    cache_write_5m, cache_write_1h, reasoning, cost_micros, cost_picos, NULL AS workflow, 0 AS is_execution \
    FROM usage_by_quarter UNION ALL SELECT e.session_id, substr(e.finished_at, 1, 14) || \
    CASE WHEN substr(e.finished_at, 15, 2) < '15' THEN '00' WHEN substr(e.finished_at, 15, 2) < '30' THEN '15' \
    WHEN substr(e.finished_at, 15, 2) < '45' THEN '30' ELSE '45' END || ':00.000000Z', '', \
    CASE WHEN e.cost_picos IS NULL THEN 'bare' ELSE 'stated' END, COALESCE(e.turns, 1), \
    COALESCE(e.input_tokens, 0), COALESCE(e.output_tokens, 0), COALESCE(e.cache_read_input_tokens, 0), \
    COALESCE(e.cache_creation_input_tokens, 0), 0, 0, COALESCE(e.cost_picos, 0) / 1000000, \
    COALESCE(e.cost_picos, 0) % 1000000, r.workflow_name, 1 \
    FROM executions e LEFT JOIN workflow_runs r ON r.id = e.workflow_run_id WHERE e.finished_at IS NOT NULL \
    AND COALESCE(e.cost_picos, 0) + COALESCE(e.input_tokens, 0) + COALESCE(e.output_tokens, 0) > 0 \
    AND NOT EXISTS (SELECT 1 FROM usage_by_quarter w JOIN sessions k ON k.id = w.session_id \
    WHERE w.session_id = e.session_id AND k.deleted_at IS NULL)) u \
    LEFT JOIN sessions s ON s.id = u.session_id AND s.deleted_at IS NULL \
    WHERE (s.id IS NOT NULL OR u.is_execution = 1)";

/// Returns the groups of a report after this one, in order. Days depend on a time zone: use [`quarters`].
pub fn groups(
    tx: &mut Tx<'_>,
    by: Grouping,
    filter: &UsageFilter,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<UsageGroup>> {
    if let Grouping::Session(order) = by {
        return sessions(tx, filter, order, after, limit);
    }
    let key = by.key();
    let mut statement = Statement::new(&format!("SELECT DISTINCT {key}{JOINED}"));
    statement.filter(filter);
    if let Some(after) = after {
        statement.and(&format!(" AND {key} > ?#"), after);
    }
    statement.and(" ORDER BY 1 ASC LIMIT ?#", limit);
    tx.all(&statement.sql, &statement.values, |row| {
        let key: String = row.get(0)?;
        Ok(UsageGroup { order: key.clone(), name: None, key })
    })
}

/// Returns the sessions with usage, by the index of their list.
fn sessions(
    tx: &mut Tx<'_>,
    filter: &UsageFilter,
    order: PageOrder,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<UsageGroup>> {
    let at = match order {
        PageOrder::Updated => "s.updated_at",
        PageOrder::Created => "s.created_at",
    };
    let mut statement =
        Statement::new(&format!("SELECT s.id, {at}, s.name FROM sessions s WHERE s.deleted_at IS NULL"));
    if let Some(user) = &filter.user_id {
        statement.and(" AND s.user_id = ?#", user);
    }
    if let Some((instant, id)) = after.and_then(|after| after.split_at_checked(INSTANT_CHARS)) {
        statement.and(&format!(" AND ({at}, s.id) < (?#"), instant);
        statement.and(", ?#)", id);
    }
    statement.sql.push_str(" AND (EXISTS (SELECT 1 FROM usage_by_quarter u WHERE u.session_id = s.id");
    statement.time_range(filter, "u.quarter");
    statement.sql.push_str(
        ") OR EXISTS (SELECT 1 FROM executions e WHERE e.session_id = s.id AND e.finished_at IS NOT NULL \
         AND COALESCE(e.cost_picos, 0) + COALESCE(e.input_tokens, 0) + COALESCE(e.output_tokens, 0) > 0 \
         AND NOT EXISTS (SELECT 1 FROM usage_by_quarter w WHERE w.session_id = s.id)",
    );
    statement.time_range(filter, "e.finished_at");
    statement.and(&format!(")) ORDER BY {at} DESC, s.id DESC LIMIT ?#"), limit);
    tx.all(&statement.sql, &statement.values, |row| {
        let (key, instant): (String, String) = (row.get(0)?, row.get(1)?);
        Ok(UsageGroup { order: instant + &key, name: row.get(2)?, key })
    })
}

/// The usage of a group, by model and charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSum {
    /// The group's key; empty for the total.
    pub key: String,
    /// The model; empty if the log has none.
    pub model: String,
    /// How the usage is charged.
    pub charge: Charge,
    /// The usage.
    pub used: UsedRow,
}

/// Returns the usage of these groups, by model and charge.
pub fn sums(tx: &mut Tx<'_>, by: Grouping, filter: &UsageFilter, groups: &[UsageGroup]) -> Result<Vec<UsageSum>> {
    let keys = || groups.iter().map(|group| group.key.as_str());
    let ranges: Vec<(&str, &str)> = match by {
        // Sessions are not a range of keys: each has its own statement.
        Grouping::Session(_) => keys().map(|key| (key, key)).collect(),
        _ => keys().min().zip(keys().max()).into_iter().collect(),
    };
    let key = by.key();
    let mut found = Vec::new();
    for (first, last) in ranges {
        let mut statement = Statement::new(&format!("SELECT {key}, u.model, u.charge, {}{JOINED}", sums!()));
        statement.filter(filter);
        match by {
            // By the column `session_id`, a session is found through its index.
            Grouping::Session(_) if !first.is_empty() => statement.and(" AND u.session_id = ?#", first),
            _ => {
                statement.and(&format!(" AND {key} BETWEEN ?#"), first);
                statement.and(" AND ?#", last);
            }
        }
        statement.sql.push_str(" GROUP BY 1, 2, 3 ORDER BY 1, 2, 3");
        found.extend(summed(tx, &statement)?);
    }
    Ok(found)
}

/// Returns the usage by quarter hour, model and charge before a timestamp, newest first.
pub fn quarters(tx: &mut Tx<'_>, filter: &UsageFilter, before: Option<&str>) -> Result<Vec<UsageSum>> {
    let mut statement = Statement::new(&format!("SELECT u.quarter, u.model, u.charge, {}{JOINED}", sums!()));
    statement.filter(filter);
    if let Some(before) = before {
        statement.and(" AND u.quarter < ?#", before);
    }
    statement.sql.push_str(" GROUP BY 1, 2, 3 ORDER BY 1 DESC, 2, 3");
    summed(tx, &statement)
}

/// Returns the total usage, by model and charge.
pub fn total(tx: &mut Tx<'_>, filter: &UsageFilter) -> Result<Vec<UsageSum>> {
    let mut statement = Statement::new(&format!("SELECT '', u.model, u.charge, {}{JOINED}", sums!()));
    statement.filter(filter);
    statement.sql.push_str(" GROUP BY u.model, u.charge ORDER BY 2, 3");
    summed(tx, &statement)
}

fn summed(tx: &mut Tx<'_>, statement: &Statement<'_>) -> Result<Vec<UsageSum>> {
    tx.all(&statement.sql, &statement.values, |row| {
        let used = UsedRow::read(row, 3)?;
        Ok(UsageSum { key: row.get(0)?, model: row.get(1)?, charge: row.get(2)?, used })
    })
}
