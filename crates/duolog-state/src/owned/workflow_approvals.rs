//! `workflow_approvals`: the gates of runs and their responses.

use duolog_types::{ApprovalId, ApprovalKind, ApprovalStatus, ExecutionId, RunId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

/// A gate and its response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// Its run.
    pub workflow_run_id: RunId,
    /// Its name in the workflow.
    pub gate: String,
    /// The question, as text.
    pub summary: String,
    /// Its status.
    pub status: ApprovalStatus,
    /// The kind of response that resolves it.
    pub kind: ApprovalKind,
    /// The requester.
    pub requested_by: Option<String>,
    /// The user who responded.
    pub responded_by: Option<String>,
    /// The response.
    pub response: Option<String>,
    /// When it was resolved or expired.
    pub responded_at: Option<Timestamp>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// The hash of the content to approve.
    pub content_hash: Option<String>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When the resumed run acknowledged the response.
    pub consumed_at: Option<Timestamp>,
    /// The key of the run's scratch with the state of the loop that opened it.
    pub loop_key: Option<String>,
    /// The iteration of the loop.
    pub iteration: Option<u64>,
    /// The execution whose output is the question.
    pub output_execution_id: Option<ExecutionId>,
}

row!(Approval, columns:
    id, workflow_run_id, gate, summary, status, kind, requested_by, responded_by, response, responded_at,
    created_at, content_hash, expires_at, consumed_at, loop_key, iteration, output_execution_id
);

/// Inserts a gate. A second pending gate of a run is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &Approval) -> Result<()> {
    let sql = concat!(
        "INSERT INTO workflow_approvals (",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"
    );
    tx.execute(sql, &row.values()).map(drop)
}

/// Returns the gate with this id.
pub fn find(tx: &mut Tx<'_>, id: &ApprovalId) -> Result<Option<Approval>> {
    tx.find(concat!("SELECT ", columns!(), " FROM workflow_approvals WHERE id = ?1"), params![id], Approval::read)
}

/// Returns the ids with this prefix, in order.
pub fn starting_with(tx: &mut Tx<'_>, prefix: &str, limit: u32) -> Result<Vec<ApprovalId>> {
    let end = format!("{prefix}\u{7f}");
    let sql = "SELECT id FROM workflow_approvals WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![prefix, &end, limit], |row| row.get(0))
}

/// Returns the pending gate of a run.
pub fn pending_of(tx: &mut Tx<'_>, run: &RunId) -> Result<Option<Approval>> {
    let sql =
        concat!("SELECT ", columns!(), " FROM workflow_approvals WHERE workflow_run_id = ?1 AND status = 'pending'");
    tx.find(sql, params![run], Approval::read)
}

/// Returns the last gate of a run with this name.
pub fn last_of(tx: &mut Tx<'_>, run: &RunId, gate: &str) -> Result<Option<Approval>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_approvals WHERE workflow_run_id = ?1 AND gate = ?2 ORDER BY created_at DESC, id DESC LIMIT 1"
    );
    tx.find(sql, params![run, gate], Approval::read)
}

/// Resolves a pending gate. Returns false if it is not pending.
pub fn resolve(
    tx: &mut Tx<'_>,
    id: &ApprovalId,
    status: ApprovalStatus,
    by: Option<&str>,
    response: Option<&str>,
    at: Timestamp,
) -> Result<bool> {
    let sql = "UPDATE workflow_approvals SET status = ?2, responded_by = ?3, response = ?4, responded_at = ?5 \
               WHERE id = ?1 AND status = 'pending'";
    Ok(tx.execute(sql, params![id, status, by, response, at])? == 1)
}

/// Records that the resumed run acknowledged the response. Returns false if it is recorded already, or there is no
/// response.
pub fn consume(tx: &mut Tx<'_>, id: &ApprovalId, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE workflow_approvals SET consumed_at = ?2 \
               WHERE id = ?1 AND consumed_at IS NULL AND status IN ('approved', 'answered')";
    Ok(tx.execute(sql, params![id, at])? == 1)
}

/// Returns the responses that a run has not acknowledged, in order.
pub fn unconsumed_of(tx: &mut Tx<'_>, run: &RunId, limit: u32) -> Result<Vec<ApprovalId>> {
    let sql = "SELECT id FROM workflow_approvals WHERE workflow_run_id = ?1 AND consumed_at IS NULL \
               AND status IN ('approved', 'answered') ORDER BY created_at, id LIMIT ?2";
    tx.all(sql, params![run, limit], |row| row.get(0))
}

/// The gates of a run with this status, or all, newest first, from behind one on.
pub fn of_run(
    tx: &mut Tx<'_>,
    run: &RunId,
    status: Option<ApprovalStatus>,
    after: Option<(Timestamp, &ApprovalId)>,
    limit: u32,
) -> Result<Vec<Approval>> {
    const FIRST: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_approvals WHERE workflow_run_id = ?1 AND status = COALESCE(?2, status) \
         ORDER BY created_at DESC, id DESC LIMIT ?3"
    );
    const NEXT: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_approvals WHERE workflow_run_id = ?1 AND status = COALESCE(?2, status) \
         AND (created_at, id) < (?4, ?5) ORDER BY created_at DESC, id DESC LIMIT ?3"
    );
    match after {
        None => tx.all(FIRST, params![run, status, limit], Approval::read),
        Some((at, id)) => tx.all(NEXT, params![run, status, limit, at, id], Approval::read),
    }
}

/// Returns the gates after this one, with this status or any, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    status: Option<ApprovalStatus>,
    after: Option<(Timestamp, &ApprovalId)>,
    limit: u32,
) -> Result<Vec<Approval>> {
    let mut sql = concat!("SELECT ", columns!(), " FROM workflow_approvals WHERE 1 = 1").to_owned();
    let mut values = vec![limit.into()];
    if let Some(status) = status {
        values.push(status.into());
        sql.push_str(" AND status = ?2");
    }
    if let Some((at, id)) = after {
        let is_filtered = status.is_some();
        sql.push_str(if is_filtered { " AND (created_at, id) < (?3, ?4)" } else { " AND (created_at, id) < (?2, ?3)" });
        values.extend([at.into(), id.into()]);
    }
    sql.push_str(" ORDER BY created_at DESC, id DESC LIMIT ?1");
    tx.all(&sql, &values, Approval::read)
}

/// Returns the expired gates that have no response, by expiry.
pub fn overdue(tx: &mut Tx<'_>, now: Timestamp, limit: u32) -> Result<Vec<Approval>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_approvals WHERE responded_at IS NULL AND expires_at IS NOT NULL AND expires_at <= ?1 \
         ORDER BY expires_at, id LIMIT ?2"
    );
    tx.all(sql, params![now, limit], Approval::read)
}
