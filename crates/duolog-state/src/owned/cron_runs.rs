//! `cron_runs`: the result of each due time of a schedule. The process that inserts the row may fire the schedule.

use duolog_types::{CronOutcome, CronRunId, HomeId, ProcessId, Timestamp};

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

/// One due time of a schedule and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct CronRunRow {
    /// Its id.
    pub id: CronRunId,
    /// The schedule.
    pub name: String,
    /// Its workflow.
    pub workflow: Option<String>,
    /// The due time.
    pub due_at: Timestamp,
    /// When it was fired.
    pub started_at: Timestamp,
    /// When the firing finished.
    pub finished_at: Option<Timestamp>,
    /// The outcome.
    pub outcome: Option<CronOutcome>,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Further details.
    pub detail: Option<String>,
    /// The run that it started.
    pub workflow_run_id: Option<String>,
    /// The home that fired it.
    pub home_id: HomeId,
    /// The process that fired it.
    pub process_id: ProcessId,
    /// The user who fired it.
    pub actor: Option<String>,
}

row!(CronRunRow, columns:
    id, name, workflow, due_at, started_at, finished_at, outcome, error, detail, workflow_run_id, home_id,
    process_id, actor
);

/// The end of a firing.
#[derive(Debug, Clone, PartialEq)]
pub struct CronEnd {
    /// When it finished.
    pub finished_at: Timestamp,
    /// The outcome.
    pub outcome: CronOutcome,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Further details.
    pub detail: Option<String>,
    /// The run that it started.
    pub workflow_run_id: Option<String>,
}

/// Claims a due time of a schedule. Returns false if it is claimed already.
pub fn claim(tx: &mut Tx<'_>, row: &CronRunRow) -> Result<bool> {
    let sql = concat!(
        "INSERT INTO cron_runs (",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT (name, due_at) DO NOTHING"
    );
    Ok(tx.execute(sql, &row.values())? == 1)
}

/// Records the end of a firing. Returns false if it has ended already.
pub fn finish(tx: &mut Tx<'_>, id: CronRunId, end: &CronEnd) -> Result<bool> {
    let sql = "UPDATE cron_runs SET finished_at = ?2, outcome = ?3, error = ?4, detail = COALESCE(?5, detail), \
               workflow_run_id = ?6 WHERE id = ?1 AND finished_at IS NULL";
    let values = params![
        id,
        end.finished_at,
        end.outcome,
        end.error.as_ref(),
        end.detail.as_ref(),
        end.workflow_run_id.as_ref()
    ];
    Ok(tx.execute(sql, values)? == 1)
}

/// Returns the firing with this id.
pub fn find(tx: &mut Tx<'_>, id: CronRunId) -> Result<Option<CronRunRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM cron_runs WHERE id = ?1"), params![id], CronRunRow::read)
}

/// Returns the firings of a schedule before this due time, latest first.
pub fn newest_of(tx: &mut Tx<'_>, name: &str, before: Option<Timestamp>, limit: u32) -> Result<Vec<CronRunRow>> {
    let sql =
        concat!("SELECT ", columns!(), " FROM cron_runs WHERE name = ?1 AND due_at < ?2 ORDER BY due_at DESC LIMIT ?3");
    tx.all(sql, params![name, before.map_or_else(end_of_time, |at| at.to_string()), limit], CronRunRow::read)
}

/// Returns the firings of all schedules before this due time and name, latest first.
pub fn newest(tx: &mut Tx<'_>, before: Option<(Timestamp, &str)>, limit: u32) -> Result<Vec<CronRunRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM cron_runs WHERE (due_at, name) < (?1, ?2) ORDER BY due_at DESC, name DESC LIMIT ?3"
    );
    let (at, name) = before.map_or_else(|| (end_of_time(), ""), |(at, name)| (at.to_string(), name));
    tx.all(sql, params![at, name, limit], CronRunRow::read)
}

/// Returns the start and the outcome of the last firings of a schedule, latest due time first.
pub fn last_outcomes(tx: &mut Tx<'_>, name: &str, limit: u32) -> Result<Vec<(Timestamp, Option<CronOutcome>)>> {
    let sql = "SELECT started_at, outcome FROM cron_runs WHERE name = ?1 ORDER BY due_at DESC LIMIT ?2";
    tx.all(sql, params![name, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns a text that sorts after every timestamp.
fn end_of_time() -> String {
    "~".to_owned()
}
