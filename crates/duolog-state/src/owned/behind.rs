//! `behind`: sessions whose derived rows may be behind their logs, marked by the processes that append (R6).
//!
//! Only the owner deletes its mark; a dead owner's goes to whoever folds.

use duolog_types::{HomeId, ProcessId, SessionId, Timestamp};

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT session_id, process_id, home_id, generation, pid, marked_at FROM behind ", $rest)
    };
}

/// One process's mark on one session.
#[derive(Debug, Clone, PartialEq)]
pub struct BehindRow {
    /// The session.
    pub session_id: SessionId,
    /// The opening that appends.
    pub process_id: ProcessId,
    /// The home whose log it is.
    pub home_id: HomeId,
    /// Which burst of the process: a mark of an earlier one is not cleared in place of a later one's.
    pub generation: u64,
    /// The operating system's number of the process, for people.
    pub pid: u32,
    /// When it was set.
    pub marked_at: Timestamp,
}

row!(BehindRow: session_id, process_id, home_id, generation, pid, marked_at);

/// Sets a mark, or raises the generation of the one that is there; it never goes back.
pub fn mark(tx: &mut Tx<'_>, row: &BehindRow) -> Result<()> {
    let sql = "INSERT INTO behind (session_id, process_id, home_id, generation, pid, marked_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session_id, process_id) DO UPDATE SET \
               generation = excluded.generation, pid = excluded.pid, marked_at = excluded.marked_at \
               WHERE behind.generation < excluded.generation";
    tx.execute(sql, &row.values()).map(drop)
}

/// Deletes a mark if it is still of this generation; false when it is not, or is gone.
///
/// For its owner, or for whoever folds where the owner is dead or nobody.
pub fn clear(tx: &mut Tx<'_>, session: &SessionId, process: &ProcessId, generation: u64) -> Result<bool> {
    let sql = "DELETE FROM behind WHERE session_id = ?1 AND process_id = ?2 AND generation = ?3";
    Ok(tx.execute(sql, params![session, process, generation])? == 1)
}

/// Leaves the marks of a process, up to a generation, to nobody: the process ends in good order, or has too many.
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

/// Sets a mark that whoever folds next may delete.
///
/// Each time the generation rises, so that a fold which began before does not delete what it did not see.
pub fn mark_for_nobody(tx: &mut Tx<'_>, session: &SessionId, home: &HomeId, at: Timestamp) -> Result<()> {
    let sql = "INSERT INTO behind (session_id, process_id, home_id, generation, pid, marked_at) \
               VALUES (?1, ?2, ?3, 1, 0, ?4) ON CONFLICT (session_id, process_id) DO UPDATE SET \
               generation = behind.generation + 1, pid = excluded.pid, marked_at = excluded.marked_at";
    tx.execute(sql, params![session, ProcessId::NOBODY, home, at]).map(drop)
}

/// Sets a mark for nobody on every log of a home: after a boot of the machine, marks may be missing.
pub fn mark_all_for_nobody(tx: &mut Tx<'_>, home: &HomeId, at: Timestamp) -> Result<()> {
    let sql = "INSERT INTO behind (session_id, process_id, home_id, generation, pid, marked_at) \
               SELECT id, ?2, home_id, 1, 0, ?3 FROM sessions WHERE home_id = ?1 AND deleted_at IS NULL \
               ON CONFLICT (session_id, process_id) DO UPDATE SET \
               generation = behind.generation + 1, pid = excluded.pid, marked_at = excluded.marked_at";
    tx.execute(sql, params![home, ProcessId::NOBODY, at]).map(drop)
}

/// The marks of a home by session and process, after this one.
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

/// Counts the marked sessions of a home, those after a session if one is given.
pub fn sessions(tx: &mut Tx<'_>, home: &HomeId, after: Option<&SessionId>) -> Result<u64> {
    let sql = "SELECT COUNT(DISTINCT session_id) FROM behind WHERE home_id = ?1 AND session_id > ?2";
    Ok(tx.find(sql, params![home, after.map_or("", SessionId::as_str)], |row| row.get(0))?.unwrap_or(0))
}

/// How many sessions of other homes are marked: only their own homes can tell how far those are behind.
pub fn sessions_elsewhere(tx: &mut Tx<'_>, home: &HomeId) -> Result<u64> {
    let sql = "SELECT COUNT(DISTINCT session_id) FROM behind WHERE home_id <> ?1";
    Ok(tx.find(sql, params![home], |row| row.get(0))?.unwrap_or(0))
}

/// The marks on a session.
pub fn of_session(tx: &mut Tx<'_>, session: &SessionId) -> Result<Vec<BehindRow>> {
    tx.all(select!("WHERE session_id = ?1 ORDER BY process_id"), params![session], BehindRow::read)
}
