//! `cron_ticks`: until when the times of schedules were looked at, and from when on they count.

use duolog_types::Timestamp;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// How far the times of a schedule were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickRow {
    /// Until when its times were looked at.
    pub ticked_at: Timestamp,
    /// When it was first looked at, or last changed: times up to then do not count. `None` if that was never recorded.
    pub from_at: Option<Timestamp>,
}

/// Records that the times of a schedule were looked at until an instant. It never moves back.
pub fn advance(tx: &mut Tx<'_>, name: &str, at: Timestamp) -> Result<()> {
    let sql = "INSERT INTO cron_ticks (name, ticked_at, from_at) VALUES (?1, ?2, ?2) \
               ON CONFLICT (name) DO UPDATE SET ticked_at = excluded.ticked_at \
               WHERE cron_ticks.ticked_at < excluded.ticked_at";
    tx.execute(sql, params![name, at]).map(drop)
}

/// Records that the times of a schedule count from an instant on.
pub fn restart(tx: &mut Tx<'_>, name: &str, at: Timestamp) -> Result<()> {
    let sql = "INSERT INTO cron_ticks (name, ticked_at, from_at) VALUES (?1, ?2, ?2) \
               ON CONFLICT (name) DO UPDATE SET ticked_at = excluded.ticked_at, from_at = excluded.from_at";
    tx.execute(sql, params![name, at]).map(drop)
}

/// Moves a schedule back to an instant, after a clock that was ahead is corrected. What was fired in between has its
/// row in `cron_runs`, and is not fired again.
pub fn set_back(tx: &mut Tx<'_>, name: &str, at: Timestamp) -> Result<()> {
    let sql = "UPDATE cron_ticks SET ticked_at = ?2, from_at = CASE WHEN from_at > ?2 THEN ?2 ELSE from_at END \
               WHERE name = ?1";
    tx.execute(sql, params![name, at]).map(drop)
}

/// Returns how far the times of a schedule were looked at; `None` if they never were.
pub fn find(tx: &mut Tx<'_>, name: &str) -> Result<Option<TickRow>> {
    let sql = "SELECT ticked_at, from_at FROM cron_ticks WHERE name = ?1";
    tx.find(sql, params![name], |row| Ok(TickRow { ticked_at: row.get(0)?, from_at: row.get(1)? }))
}
