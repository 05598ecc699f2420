//! `inbox_cursors`: how far readers have acknowledged inboxes.

use duolog_types::Timestamp;

use super::inboxes::Address;
use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Returns the first position of an inbox that a reader has not acknowledged.
pub fn get(tx: &mut Tx<'_>, to: &Address, channel: &str, reader: &str) -> Result<u64> {
    let sql = "SELECT ord FROM inbox_cursors WHERE kind = ?1 AND recipient = ?2 AND channel = ?3 AND reader = ?4";
    Ok(tx.find(sql, params![to.kind(), to.as_str(), channel, reader], |row| row.get(0))?.unwrap_or_default())
}

/// Moves a reader forward. Returns false if it is at that position or further. It never moves back.
pub fn advance(tx: &mut Tx<'_>, to: &Address, channel: &str, reader: &str, ord: u64, at: Timestamp) -> Result<bool> {
    let sql = "INSERT INTO inbox_cursors (kind, recipient, channel, reader, ord, updated_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (kind, recipient, channel, reader) DO UPDATE \
               SET ord = excluded.ord, updated_at = excluded.updated_at WHERE inbox_cursors.ord < excluded.ord";
    Ok(tx.execute(sql, params![to.kind(), to.as_str(), channel, reader, ord, at])? == 1)
}
