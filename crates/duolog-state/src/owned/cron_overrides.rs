//! `cron_overrides`: overrides of the schedules in the configuration.

use duolog_types::Timestamp;

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

/// The override of a schedule. A `None` field keeps the configured value.
#[derive(Debug, Clone, PartialEq)]
pub struct CronOverrideRow {
    /// The schedule.
    pub name: String,
    /// True if it is enabled.
    pub enabled: Option<bool>,
    /// The cron expression.
    pub schedule: Option<String>,
    /// The time zone of the cron expression.
    pub zone: Option<String>,
    /// When the override was last changed.
    pub updated_at: Timestamp,
    /// The user who changed it.
    pub updated_by: Option<String>,
}

row!(CronOverrideRow, columns: name, enabled, schedule, zone, updated_at, updated_by);

/// Sets the override of a schedule, instead of any other.
pub fn put(tx: &mut Tx<'_>, row: &CronOverrideRow) -> Result<()> {
    let sql = concat!(
        "INSERT INTO cron_overrides (",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled, \
         schedule = excluded.schedule, zone = excluded.zone, updated_at = excluded.updated_at, \
         updated_by = excluded.updated_by"
    );
    tx.execute(sql, &row.values()).map(drop)
}

/// Returns the override of a schedule, if any.
pub fn find(tx: &mut Tx<'_>, name: &str) -> Result<Option<CronOverrideRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM cron_overrides WHERE name = ?1");
    tx.find(sql, params![name], CronOverrideRow::read)
}

/// Returns the overrides after this name, by name.
pub fn list(tx: &mut Tx<'_>, after: &str, limit: u32) -> Result<Vec<CronOverrideRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM cron_overrides WHERE name > ?1 ORDER BY name LIMIT ?2");
    tx.all(sql, params![after, limit], CronOverrideRow::read)
}

/// Removes the override of a schedule. Returns false if there is none.
pub fn remove(tx: &mut Tx<'_>, name: &str) -> Result<bool> {
    Ok(tx.execute("DELETE FROM cron_overrides WHERE name = ?1", params![name])? == 1)
}
