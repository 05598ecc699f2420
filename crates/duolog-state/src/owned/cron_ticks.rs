//! `cron_ticks`: the time until which the due times of each schedule were checked, and the time from which they count.

use duolog_types::Timestamp;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// The progress of checking a schedule's due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickRow {
    /// The time until which its due times were checked.
    pub ticked_at: Timestamp,
    /// When it was first checked or last changed: earlier due times do not count. `None` if that was never recorded.
    pub from_at: Option<Timestamp>,
}

/// Records that the due times of a schedule were checked until `at`. It never moves back.
pub fn advance(tx: &mut Tx<'_>, name: &str, at: Timestamp) -> Result<()> {
    let sql = "INSERT INTO cron_ticks (name, ticked_at, from_at) VALUES (?1, ?2, ?2) \
               ON CONFLICT (name) DO UPDATE SET ticked_at = excluded.ticked_at \
               WHERE cron_ticks.ticked_at < excluded.ticked_at";
    tx.execute(sql, params![name, at]).map(drop)
}

/// Records that the due times of a schedule count from `at` on.
pub fn restart(tx: &mut Tx<'_>, name: &str, at: Timestamp) -> Result<()> {
    let sql = "INSERT INTO cron_ticks (name, ticked_at, from_at) VALUES (?1, ?2, ?2) \
               ON CONFLICT (name) DO UPDATE SET ticked_at = excluded.ticked_at, from_at = excluded.from_at";
    tx.execute(sql, params![name, at]).map(drop)
}

/// Moves a schedule back to `at`, after a clock that was ahead is corrected. Times that were fired have a row in
/// `cron_runs` and are not fired again.
pub fn set_back(tx: &mut Tx<'_>, name: &str, at: Timestamp) -> Result<()> {
    let sql = "UPDATE cron_ticks SET ticked_at = ?2, from_at = CASE WHEN from_at > ?2 THEN ?2 ELSE from_at END \
               WHERE name = ?1";
    tx.execute(sql, params![name, at]).map(drop)
}

/// Returns the progress of a schedule. `None` if its due times were never checked.
pub fn find(tx: &mut Tx<'_>, name: &str) -> Result<Option<TickRow>> {
    let sql = "SELECT ticked_at, from_at FROM cron_ticks WHERE name = ?1";
    tx.find(sql, params![name], |row| Ok(TickRow { ticked_at: row.get(0)?, from_at: row.get(1)? }))
}
