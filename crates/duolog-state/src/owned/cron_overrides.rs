//! `cron_overrides`: what is said over the schedules of the configuration. Without a row a schedule is as it is there.

use duolog_types::Timestamp;

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

/// What is said over one schedule. What is nothing is as the configuration has it.
#[derive(Debug, Clone, PartialEq)]
pub struct CronOverrideRow {
    /// The schedule.
    pub name: String,
    /// Whether it fires.
    pub enabled: Option<bool>,
    /// When it fires, as a cron expression.
    pub schedule: Option<String>,
    /// The time zone in which that is meant.
    pub zone: Option<String>,
    /// Since when.
    pub updated_at: Timestamp,
    /// Who said so.
    pub updated_by: Option<String>,
}

row!(CronOverrideRow, columns: name, enabled, schedule, zone, updated_at, updated_by);

/// Says it, whatever was said before.
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

/// What is said over a schedule, where anything is.
pub fn find(tx: &mut Tx<'_>, name: &str) -> Result<Option<CronOverrideRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM cron_overrides WHERE name = ?1");
    tx.find(sql, params![name], CronOverrideRow::read)
}

/// All that is said over schedules, by their names, after this one.
pub fn list(tx: &mut Tx<'_>, after: &str, limit: u32) -> Result<Vec<CronOverrideRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM cron_overrides WHERE name > ?1 ORDER BY name LIMIT ?2");
    tx.all(sql, params![after, limit], CronOverrideRow::read)
}

/// The schedule is as the configuration has it again; false where it was.
pub fn remove(tx: &mut Tx<'_>, name: &str) -> Result<bool> {
    Ok(tx.execute("DELETE FROM cron_overrides WHERE name = ?1", params![name])? == 1)
}
