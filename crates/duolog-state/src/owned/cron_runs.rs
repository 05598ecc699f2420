//! `cron_runs`: what came of each time of a schedule. Adding the row of a time is what gives the right to fire it.

use duolog_types::{CronOutcome, CronRunId, HomeId, ProcessId, Timestamp};

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

/// One time of a schedule, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct CronRunRow {
    /// Its id.
    pub id: CronRunId,
    /// The schedule.
    pub name: String,
    /// The workflow that it was for.
    pub workflow: Option<String>,
    /// The time.
    pub due_at: Timestamp,
    /// When it was fired.
    pub started_at: Timestamp,
    /// When that was done.
    pub finished_at: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<CronOutcome>,
    /// What went wrong.
    pub error: Option<String>,
    /// What there is to say besides.
    pub detail: Option<String>,
    /// The run that it started.
    pub workflow_run_id: Option<String>,
    /// The home that fired it.
    pub home_id: HomeId,
    /// The process that fired it.
    pub process_id: ProcessId,
    /// Who had it fired.
    pub actor: Option<String>,
}

row!(CronRunRow, columns:
    id, name, workflow, due_at, started_at, finished_at, outcome, error, detail, workflow_run_id, home_id,
    process_id, actor
);

/// How a firing ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CronEnd {
    /// When.
    pub finished_at: Timestamp,
    /// How.
    pub outcome: CronOutcome,
    /// What went wrong.
    pub error: Option<String>,
    /// What there is to say besides.
    pub detail: Option<String>,
    /// The run that it started.
    pub workflow_run_id: Option<String>,
}

/// Takes a time of a schedule; false where another has it.
pub fn claim(tx: &mut Tx<'_>, row: &CronRunRow) -> Result<bool> {
    let sql = concat!(
        "INSERT INTO cron_runs (",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT (name, due_at) DO NOTHING"
    );
    Ok(tx.execute(sql, &row.values())? == 1)
}

/// Says how a firing ended; false where that was said.
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

/// The firing with this id.
pub fn find(tx: &mut Tx<'_>, id: CronRunId) -> Result<Option<CronRunRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM cron_runs WHERE id = ?1"), params![id], CronRunRow::read)
}

/// The firings of a schedule, the latest time first, before this time.
pub fn newest_of(tx: &mut Tx<'_>, name: &str, before: Option<Timestamp>, limit: u32) -> Result<Vec<CronRunRow>> {
    let sql =
        concat!("SELECT ", columns!(), " FROM cron_runs WHERE name = ?1 AND due_at < ?2 ORDER BY due_at DESC LIMIT ?3");
    tx.all(sql, params![name, before.map_or_else(end_of_time, |at| at.to_string()), limit], CronRunRow::read)
}

/// The firings of all schedules, the latest time first, before this time and name.
pub fn newest(tx: &mut Tx<'_>, before: Option<(Timestamp, &str)>, limit: u32) -> Result<Vec<CronRunRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM cron_runs WHERE (due_at, name) < (?1, ?2) ORDER BY due_at DESC, name DESC LIMIT ?3"
    );
    let (at, name) = before.map_or_else(|| (end_of_time(), ""), |(at, name)| (at.to_string(), name));
    tx.all(sql, params![at, name, limit], CronRunRow::read)
}

/// When the last firings of a schedule began, and how they ended, the latest time first.
pub fn standings(tx: &mut Tx<'_>, name: &str, limit: u32) -> Result<Vec<(Timestamp, Option<CronOutcome>)>> {
    let sql = "SELECT started_at, outcome FROM cron_runs WHERE name = ?1 ORDER BY due_at DESC LIMIT ?2";
    tx.all(sql, params![name, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Text after every instant.
fn end_of_time() -> String {
    "~".to_owned()
}
