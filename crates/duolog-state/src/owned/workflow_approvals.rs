//! `workflow_approvals`: gates that runs wait at, and what was answered there.

use duolog_types::{ApprovalId, ApprovalKind, ApprovalStatus, ExecutionId, RunId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

/// A gate, and what was answered there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The run that waits at it, or did.
    pub workflow_run_id: RunId,
    /// What the workflow calls it.
    pub gate: String,
    /// What is asked, for people.
    pub summary: String,
    /// How it stands.
    pub status: ApprovalStatus,
    /// What resolves it.
    pub kind: ApprovalKind,
    /// Who asks.
    pub requested_by: Option<String>,
    /// Who answered.
    pub responded_by: Option<String>,
    /// What was answered.
    pub response: Option<String>,
    /// When it was answered, or expired.
    pub responded_at: Option<Timestamp>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// The hash of what is asked about.
    pub content_hash: Option<String>,
    /// Until when it may be answered.
    pub expires_at: Option<Timestamp>,
    /// When the resumed run took note of the answer.
    pub consumed_at: Option<Timestamp>,
    /// The key of the run's scratch that keeps the loop that asks.
    pub loop_key: Option<String>,
    /// Which turn of the loop.
    pub iteration: Option<u64>,
    /// The execution whose last text is the question.
    pub output_execution_id: Option<ExecutionId>,
}

row!(Approval, columns:
    id, workflow_run_id, gate, summary, status, kind, requested_by, responded_by, response, responded_at,
    created_at, content_hash, expires_at, consumed_at, loop_key, iteration, output_execution_id
);

/// Adds a gate. A second one that waits for an answer in the same run is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &Approval) -> Result<()> {
    let sql = concat!(
        "INSERT INTO workflow_approvals (",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"
    );
    tx.execute(sql, &row.values()).map(drop)
}

/// The gate with this id.
pub fn find(tx: &mut Tx<'_>, id: &ApprovalId) -> Result<Option<Approval>> {
    tx.find(concat!("SELECT ", columns!(), " FROM workflow_approvals WHERE id = ?1"), params![id], Approval::read)
}

/// The ids that begin with a text, in order.
pub fn starting_with(tx: &mut Tx<'_>, prefix: &str, limit: u32) -> Result<Vec<ApprovalId>> {
    let end = format!("{prefix}\u{7f}");
    let sql = "SELECT id FROM workflow_approvals WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![prefix, &end, limit], |row| row.get(0))
}

/// The gate that a run waits at.
pub fn pending_of(tx: &mut Tx<'_>, run: &RunId) -> Result<Option<Approval>> {
    let sql =
        concat!("SELECT ", columns!(), " FROM workflow_approvals WHERE workflow_run_id = ?1 AND status = 'pending'");
    tx.find(sql, params![run], Approval::read)
}

/// The last gate of a name that a run came to.
pub fn last_of(tx: &mut Tx<'_>, run: &RunId, gate: &str) -> Result<Option<Approval>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_approvals WHERE workflow_run_id = ?1 AND gate = ?2 ORDER BY created_at DESC, id DESC LIMIT 1"
    );
    tx.find(sql, params![run, gate], Approval::read)
}

/// Resolves a gate that waits; false where it does not.
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

/// Notes that the resumed run has the answer; false where it is noted, or there is none.
pub fn consume(tx: &mut Tx<'_>, id: &ApprovalId, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE workflow_approvals SET consumed_at = ?2 \
               WHERE id = ?1 AND consumed_at IS NULL AND status IN ('approved', 'answered')";
    Ok(tx.execute(sql, params![id, at])? == 1)
}

/// The answers that a run has not taken note of, in order.
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

/// Gates that stand so, or all, newest first, from behind one on.
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

/// The gates whose time is over, those first that were to be answered first.
pub fn overdue(tx: &mut Tx<'_>, now: Timestamp, limit: u32) -> Result<Vec<Approval>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_approvals WHERE responded_at IS NULL AND expires_at IS NOT NULL AND expires_at <= ?1 \
         ORDER BY expires_at, id LIMIT ?2"
    );
    tx.all(sql, params![now, limit], Approval::read)
}
