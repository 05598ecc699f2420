//! `repairs`: damage and losses found in logs, and what was done about them. Rows outlive their session.

use std::fmt;
use std::str::FromStr;

use duolog_types::limits::REASON_BYTES_MAX;
use duolog_types::{Epoch, HomeId, Position, SessionId, Timestamp};

use super::clipped;
use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

/// A finding or an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RepairAction {
    /// A complete last line got its newline.
    Completed,
    /// A torn tail was cut off and saved.
    Quarantined,
    /// A torn tail that could not be cut off got a newline.
    Terminated,
    /// The log is shorter than recorded.
    Shorter,
    /// Another file is at the log's path.
    Replaced,
    /// The log file does not exist.
    Missing,
    /// The disk failed during a write, and the readable part of the log was copied into a new file.
    Rewritten,
    /// Sealed bytes have changed.
    Unsealed,
    /// The session was deleted with its log.
    Deleted,
}

impl RepairAction {
    /// Returns true if bytes that a reader may have seen are lost, and no user deleted them.
    pub const fn is_loss(self) -> bool {
        matches!(self, Self::Shorter | Self::Replaced | Self::Missing | Self::Unsealed)
    }

    /// Returns true if it was a torn tail, which no reader had seen.
    pub const fn is_torn_tail(self) -> bool {
        matches!(self, Self::Completed | Self::Quarantined | Self::Terminated)
    }

    /// Every action, in order.
    pub const ALL: &'static [Self] = &[
        Self::Completed,
        Self::Quarantined,
        Self::Terminated,
        Self::Shorter,
        Self::Replaced,
        Self::Missing,
        Self::Rewritten,
        Self::Unsealed,
        Self::Deleted,
    ];

    /// Returns the word in rows and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Quarantined => "quarantined",
            Self::Terminated => "terminated",
            Self::Shorter => "shorter",
            Self::Replaced => "replaced",
            Self::Missing => "missing",
            Self::Rewritten => "rewritten",
            Self::Unsealed => "unsealed",
            Self::Deleted => "deleted",
        }
    }
}

impl fmt::Display for RepairAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is not a repair action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a repair action")]
pub struct UnknownAction(String);

impl FromStr for RepairAction {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, UnknownAction> {
        let known = Self::ALL.iter().copied().find(|action| action.as_str() == text);
        known.ok_or_else(|| UnknownAction(text.chars().take(64).collect()))
    }
}

/// A repair to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRepair {
    /// The session of the log.
    pub session_id: SessionId,
    /// The home of the log.
    pub home_id: HomeId,
    /// The log's epoch.
    pub epoch: Epoch,
    /// The finding or action.
    pub action: RepairAction,
    /// The position of the affected bytes.
    pub position: Position,
    /// The number of affected bytes.
    pub bytes: u64,
    /// The hash of those bytes, if they were read.
    pub hash: Option<[u8; 32]>,
    /// Further details.
    pub detail: Option<String>,
    /// When it was recorded.
    pub repaired_at: Timestamp,
}

/// A recorded repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairRow {
    /// Its number, in the order of recording.
    pub id: i64,
    /// The repair.
    pub repair: NewRepair,
}

impl RepairRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            repair: NewRepair {
                session_id: row.get(1)?,
                home_id: row.get(2)?,
                epoch: row.get(3)?,
                action: row.get(4)?,
                position: row.get(5)?,
                bytes: row.get(6)?,
                hash: row.get(7)?,
                detail: row.get(8)?,
                repaired_at: row.get(9)?,
            },
        })
    }
}

/// Records a repair. Returns false if it is recorded already, for example before a crash.
pub fn note(tx: &mut Tx<'_>, repair: &NewRepair) -> Result<bool> {
    let sql = "INSERT INTO repairs (session_id, home_id, epoch, action, position, bytes, hash, detail, repaired_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
               ON CONFLICT (session_id, epoch, action, position, bytes) DO NOTHING";
    let values = params![
        &repair.session_id,
        repair.home_id,
        repair.epoch,
        repair.action,
        repair.position,
        repair.bytes,
        repair.hash.as_ref(),
        repair.detail.as_deref().map(|detail| clipped(detail, REASON_BYTES_MAX)),
        repair.repaired_at,
    ];
    Ok(tx.execute(sql, values)? == 1)
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, session_id, home_id, epoch, action, position, bytes, hash, detail, repaired_at FROM repairs r ",
            $rest
        )
    };
}

/// The one rule of when a loss is over: once the log or the session is deleted.
macro_rules! standing {
    () => {
        "NOT EXISTS (SELECT 1 FROM repairs d WHERE d.session_id = r.session_id AND d.action = 'deleted' AND d.id > r.id)"
    };
}

/// Returns the newest repairs, of one session or of all.
pub fn list(tx: &mut Tx<'_>, session: Option<&SessionId>, limit: u32) -> Result<Vec<RepairRow>> {
    match session {
        Some(session) => {
            tx.all(select!("WHERE session_id = ?1 ORDER BY id DESC LIMIT ?2"), params![session, limit], RepairRow::read)
        }
        None => tx.all(select!("ORDER BY id DESC LIMIT ?1"), params![limit], RepairRow::read),
    }
}

/// The losses ([`RepairAction::is_loss`]) that are not over.
macro_rules! losses {
    ($of:literal) => {
        concat!(
            select!("WHERE r.action IN ('shorter', 'replaced', 'missing', 'unsealed') AND "),
            standing!(),
            " AND ",
            $of,
            " ORDER BY id DESC LIMIT ?2"
        )
    };
}

/// Lists the losses of a session's log, newest first.
pub fn losses(tx: &mut Tx<'_>, session: &SessionId, limit: u32) -> Result<Vec<RepairRow>> {
    tx.all(losses!("r.session_id = ?1"), params![session, limit], RepairRow::read)
}

/// Lists the losses of a home's logs, newest first.
pub fn losses_of_home(tx: &mut Tx<'_>, home: &HomeId, limit: u32) -> Result<Vec<RepairRow>> {
    tx.all(losses!("r.home_id = ?1"), params![home, limit], RepairRow::read)
}

/// The recorded losses of logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostRow {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// What counts as lost: the losses of sessions that are there.
macro_rules! lost {
    ($columns:literal, $of:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM repairs r JOIN sessions s ON s.id = r.session_id AND s.deleted_at IS NULL \
             WHERE r.action IN ('shorter', 'replaced', 'missing') AND ",
            standing!(),
            " AND ",
            $of
        )
    };
}

/// Returns the total of the recorded losses of a home's sessions.
pub fn lost(tx: &mut Tx<'_>, home: &HomeId) -> Result<LostRow> {
    let sql = lost!("COUNT(DISTINCT r.session_id), CAST(COALESCE(SUM(r.bytes), 0) AS BIGINT)", "r.home_id = ?1");
    let read = |row: &Row<'_>| Ok(LostRow { sessions: row.get(0)?, bytes: row.get(1)? });
    Ok(tx.find(sql, params![home], read)?.unwrap_or_default())
}

/// Returns the lost bytes of a session. `None` if it has no recorded loss.
pub fn lost_of(tx: &mut Tx<'_>, session: &SessionId) -> Result<Option<u64>> {
    let sql = lost!("CAST(SUM(r.bytes) AS BIGINT)", "r.session_id = ?1");
    Ok(tx.find(sql, params![session], |row| row.get(0))?.flatten())
}

/// Returns the lost bytes of each session of a home with a recorded loss, by id.
pub fn lost_by_session(tx: &mut Tx<'_>, home: &HomeId) -> Result<Vec<(SessionId, u64)>> {
    let sql = lost!(
        "r.session_id, CAST(SUM(r.bytes) AS BIGINT)",
        "r.home_id = ?1 GROUP BY r.session_id ORDER BY r.session_id"
    );
    tx.all(sql, params![home], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns the number of recorded repairs.
pub fn count(tx: &mut Tx<'_>) -> Result<u64> {
    Ok(tx.find("SELECT COUNT(*) FROM repairs", &[], |row| row.get(0))?.unwrap_or_default())
}
