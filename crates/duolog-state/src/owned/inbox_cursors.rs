//! `inbox_cursors`: how far readers have taken note of inboxes.

use duolog_types::Moment;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// The first place of an inbox that a reader has not taken note of.
pub fn get(tx: &mut Tx<'_>, recipient: &str, channel: &str, reader: &str) -> Result<u64> {
    let sql = "SELECT ord FROM inbox_cursors WHERE recipient = ?1 AND channel = ?2 AND reader = ?3";
    Ok(tx.find(sql, params![recipient, channel, reader], |row| row.get(0))?.unwrap_or_default())
}

/// Moves a reader forward; false where it is there or further already. It never goes back.
pub fn advance(tx: &mut Tx<'_>, recipient: &str, channel: &str, reader: &str, ord: u64, at: Moment) -> Result<bool> {
    let sql = "INSERT INTO inbox_cursors (recipient, channel, reader, ord, updated_at) VALUES (?1, ?2, ?3, ?4, ?5) \
               ON CONFLICT (recipient, channel, reader) DO UPDATE SET ord = excluded.ord, \
               updated_at = excluded.updated_at WHERE inbox_cursors.ord < excluded.ord";
    Ok(tx.execute(sql, params![recipient, channel, reader, ord, at])? == 1)
}
