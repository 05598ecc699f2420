//! `behind`: marks on sessions whose derived rows may lag behind their logs, set by the processes that append (R6).
//!
//! Only the owner deletes its mark. The marks of a dead owner are deleted by the next fold.

use duolog_types::{HomeId, ProcessId, SessionId, Timestamp};

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT session_id, process_id, home_id, generation, pid, marked_at FROM behind ", $rest)
    };
}

/// The mark of one process on one session.
#[derive(Debug, Clone, PartialEq)]
pub struct BehindRow {
    /// The session.
    pub session_id: SessionId,
    /// The process that appends.
    pub process_id: ProcessId,
    /// The home that has the log.
    pub home_id: HomeId,
    /// The number of the process's burst of appends. Clearing a mark of an earlier burst does not clear a later one.
    pub generation: u64,
    /// The PID, for display.
    pub pid: u32,
    /// When the mark was set.
    pub marked_at: Timestamp,
}

row!(BehindRow: session_id, process_id, home_id, generation, pid, marked_at);

/// Sets a mark, or raises the generation of the existing mark. The generation never decreases.
pub fn mark(tx: &mut Tx<'_>, row: &BehindRow) -> Result<()> {
    let sql = "INSERT INTO behind (session_id, process_id, home_id, generation, pid, marked_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session_id, process_id) DO UPDATE SET \
               generation = excluded.generation, pid = excluded.pid, marked_at = excluded.marked_at \
               WHERE behind.generation < excluded.generation";
    tx.execute(sql, &row.values()).map(drop)
}

/// Deletes a mark of this generation. Returns false if the mark has another generation or does not exist.
///
/// The caller must be the owner, or a fold if the owner is dead or [`ProcessId::NOBODY`].
pub fn clear(tx: &mut Tx<'_>, session: &SessionId, process: &ProcessId, generation: u64) -> Result<bool> {
    let sql = "DELETE FROM behind WHERE session_id = ?1 AND process_id = ?2 AND generation = ?3";
    Ok(tx.execute(sql, params![session, process, generation])? == 1)
}

/// Gives the marks of a process, up to a generation, to [`ProcessId::NOBODY`]: the process exits, or has too many
/// marks.
pub fn hand_over(tx: &mut Tx<'_>, process: &ProcessId, generation: u64) -> Result<()> {
    let sql = "INSERT INTO behind (session_id, process_id, home_id, generation, pid, marked_at) \
               SELECT session_id, ?3, home_id, 1, 0, marked_at FROM behind WHERE process_id = ?1 AND generation <= ?2 \
               ON CONFLICT (session_id, process_id) DO UPDATE SET \
               generation = behind.generation + 1, pid = excluded.pid, marked_at = excluded.marked_at";
    tx.execute(sql, params![process, generation, ProcessId::NOBODY])?;
    let sql = "DELETE FROM behind WHERE process_id = ?1 AND generation <= ?2";
    tx.execute(sql, params![process, generation]).map(drop)
}

/// Returns true if a process has a mark on a session.
pub fn is_marked(tx: &mut Tx<'_>, session: &SessionId, process: &ProcessId) -> Result<bool> {
    let sql = "SELECT 1 FROM behind WHERE session_id = ?1 AND process_id = ?2";
    Ok(tx.find(sql, params![session, process], |_| Ok(()))?.is_some())
}

/// Sets a mark without an owner, which the next fold may delete.
///
/// Each call raises the generation, so that a fold that began before does not delete it.
pub fn mark_for_nobody(tx: &mut Tx<'_>, session: &SessionId, home: &HomeId, at: Timestamp) -> Result<()> {
    let sql = "INSERT INTO behind (session_id, process_id, home_id, generation, pid, marked_at) \
               VALUES (?1, ?2, ?3, 1, 0, ?4) ON CONFLICT (session_id, process_id) DO UPDATE SET \
               generation = behind.generation + 1, pid = excluded.pid, marked_at = excluded.marked_at";
    tx.execute(sql, params![session, ProcessId::NOBODY, home, at]).map(drop)
}

/// Sets a mark without an owner on every log of a home: after a boot of the machine, marks may be missing.
pub fn mark_all_for_nobody(tx: &mut Tx<'_>, home: &HomeId, at: Timestamp) -> Result<()> {
    let sql = "INSERT INTO behind (session_id, process_id, home_id, generation, pid, marked_at) \
               SELECT id, ?2, home_id, 1, 0, ?3 FROM sessions WHERE home_id = ?1 AND deleted_at IS NULL \
               ON CONFLICT (session_id, process_id) DO UPDATE SET \
               generation = behind.generation + 1, pid = excluded.pid, marked_at = excluded.marked_at";
    tx.execute(sql, params![home, ProcessId::NOBODY, at]).map(drop)
}

/// Returns the marks of a home after this one, by session and process.
pub fn of_home(
    tx: &mut Tx<'_>,
    home: &HomeId,
    after: Option<(&SessionId, &ProcessId)>,
    limit: u32,
) -> Result<Vec<BehindRow>> {
    let sql =
        select!("WHERE home_id = ?1 AND (session_id, process_id) > (?2, ?3) ORDER BY session_id, process_id LIMIT ?4");
    let (session, process) =
        after.map_or((String::new(), String::new()), |(session, process)| (session.to_string(), process.to_string()));
    tx.all(sql, params![home, session, process, limit], BehindRow::read)
}

/// Returns the number of marked sessions of a home, after a session if one is given.
pub fn sessions(tx: &mut Tx<'_>, home: &HomeId, after: Option<&SessionId>) -> Result<u64> {
    let sql = "SELECT COUNT(DISTINCT session_id) FROM behind WHERE home_id = ?1 AND session_id > ?2";
    Ok(tx.find(sql, params![home, after.map_or("", SessionId::as_str)], |row| row.get(0))?.unwrap_or(0))
}

/// Returns the number of marked sessions of other homes. Only those homes know how far they lag.
pub fn sessions_elsewhere(tx: &mut Tx<'_>, home: &HomeId) -> Result<u64> {
    let sql = "SELECT COUNT(DISTINCT session_id) FROM behind WHERE home_id <> ?1";
    Ok(tx.find(sql, params![home], |row| row.get(0))?.unwrap_or(0))
}

/// Returns the marks on a session.
pub fn of_session(tx: &mut Tx<'_>, session: &SessionId) -> Result<Vec<BehindRow>> {
    tx.all(select!("WHERE session_id = ?1 ORDER BY process_id"), params![session], BehindRow::read)
}
