//! `cron_ticks`: until when the times of schedules were looked at.

use duolog_types::Moment;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Notes until when the times of a schedule were looked at. A clock that was ahead and is set right moves it back: what
/// was fired in between has its row in `cron_runs`, and is not fired again.
pub fn put(tx: &mut Tx<'_>, name: &str, at: Moment) -> Result<()> {
    let sql = "INSERT INTO cron_ticks (name, ticked_at) VALUES (?1, ?2) \
               ON CONFLICT (name) DO UPDATE SET ticked_at = excluded.ticked_at";
    tx.execute(sql, params![name, at]).map(drop)
}

/// Until when the times of a schedule were looked at; nothing where nobody ever did.
pub fn find(tx: &mut Tx<'_>, name: &str) -> Result<Option<Moment>> {
    tx.find("SELECT ticked_at FROM cron_ticks WHERE name = ?1", params![name], |row| row.get(0))
}
