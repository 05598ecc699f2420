//! `workflow_overrides`: workflows that were disabled or enabled. A workflow without a row is enabled.

use duolog_types::Timestamp;

use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

/// The override of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct OverrideRow {
    /// The workflow.
    pub name: String,
    /// True if its runs may be started.
    pub enabled: bool,
    /// When it was set.
    pub updated_at: Timestamp,
    /// The user who set it.
    pub updated_by: Option<String>,
}

impl OverrideRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self { name: row.get(0)?, enabled: row.get(1)?, updated_at: row.get(2)?, updated_by: row.get(3)? })
    }
}

/// Sets the override of a workflow, instead of any other.
pub fn put(tx: &mut Tx<'_>, row: &OverrideRow) -> Result<()> {
    let sql = "INSERT INTO workflow_overrides (name, enabled, updated_at, updated_by) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled, updated_at = excluded.updated_at, \
               updated_by = excluded.updated_by";
    tx.execute(sql, params![&row.name, row.enabled, row.updated_at, row.updated_by.as_ref()]).map(drop)
}

/// Returns the override of a workflow.
pub fn find(tx: &mut Tx<'_>, name: &str) -> Result<Option<OverrideRow>> {
    let sql = "SELECT name, enabled, updated_at, updated_by FROM workflow_overrides WHERE name = ?1";
    tx.find(sql, params![name], OverrideRow::read)
}

/// Returns the overrides after this name, by name.
pub fn list(tx: &mut Tx<'_>, after: &str, limit: u32) -> Result<Vec<OverrideRow>> {
    let sql = "SELECT name, enabled, updated_at, updated_by FROM workflow_overrides WHERE name > ?1 \
               ORDER BY name LIMIT ?2";
    tx.all(sql, params![after, limit], OverrideRow::read)
}

/// Removes the override of a workflow. Returns false if there is none.
pub fn remove(tx: &mut Tx<'_>, name: &str) -> Result<bool> {
    Ok(tx.execute("DELETE FROM workflow_overrides WHERE name = ?1", params![name])? == 1)
}
