//! `status_transitions`: the history of sessions' statuses. Rows are inserted and never changed.

use duolog_types::{SessionId, SessionStatus, Timestamp};

use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

/// A status transition.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusTransitionRow {
    /// The session.
    pub session_id: SessionId,
    /// The previous status. `None` if there was none.
    pub previous_status: Option<SessionStatus>,
    /// The new status.
    pub status: SessionStatus,
    /// A code for the reason.
    pub reason_code: Option<String>,
    /// The reason, as text.
    pub reason: Option<String>,
    /// The user or program that changed it.
    pub actor: Option<String>,
    /// Evidence, as JSON.
    pub evidence: Option<String>,
    /// When it changed.
    pub created_at: Timestamp,
}

impl StatusTransitionRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            session_id: row.get(1)?,
            previous_status: row.get(2)?,
            status: row.get(3)?,
            reason_code: row.get(4)?,
            reason: row.get(5)?,
            actor: row.get(6)?,
            evidence: row.get(7)?,
            created_at: row.get(8)?,
        })
    }
}

/// Inserts a transition, in the transaction of the change.
pub fn insert(tx: &mut Tx<'_>, row: &StatusTransitionRow) -> Result<()> {
    let sql = "INSERT INTO status_transitions \
               (session_id, previous_status, status, reason_code, reason, actor, evidence, created_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = params![
        &row.session_id,
        row.previous_status,
        row.status,
        row.reason_code.as_ref(),
        row.reason.as_ref(),
        row.actor.as_ref(),
        row.evidence.as_ref(),
        row.created_at,
    ];
    tx.execute(sql, values).map(drop)
}

/// Returns the transitions of a session after this one with their numbers, oldest first.
pub fn oldest(tx: &mut Tx<'_>, session: &SessionId, after: i64, limit: u32) -> Result<Vec<(i64, StatusTransitionRow)>> {
    let sql = "SELECT id, session_id, previous_status, status, reason_code, reason, actor, evidence, created_at \
               FROM status_transitions WHERE session_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![session, after, limit], |row| Ok((row.get(0)?, StatusTransitionRow::read(row)?)))
}

/// Returns the transitions of a session, newest first.
pub fn newest(tx: &mut Tx<'_>, session: &SessionId, limit: u32) -> Result<Vec<StatusTransitionRow>> {
    let sql = "SELECT id, session_id, previous_status, status, reason_code, reason, actor, evidence, created_at \
               FROM status_transitions WHERE session_id = ?1 ORDER BY id DESC LIMIT ?2";
    tx.all(sql, params![session, limit], StatusTransitionRow::read)
}
