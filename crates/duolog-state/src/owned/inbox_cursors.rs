//! `inbox_cursors` and `mailbox_cursors`: how far readers have taken note of inboxes.

use duolog_types::Moment;

use super::inboxes::Address;
use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// The first place of an inbox that a reader has not taken note of.
pub fn get(tx: &mut Tx<'_>, to: &Address, channel: &str, reader: &str) -> Result<u64> {
    let sql = format!("SELECT ord FROM {} WHERE recipient = ?1 AND channel = ?2 AND reader = ?3", to.cursors());
    Ok(tx.find(&sql, params![to.as_str(), channel, reader], |row| row.get(0))?.unwrap_or_default())
}

/// Moves a reader forward; false where it is there or further already. It never goes back.
pub fn advance(tx: &mut Tx<'_>, to: &Address, channel: &str, reader: &str, ord: u64, at: Moment) -> Result<bool> {
    let table = to.cursors();
    let sql = format!(
        "INSERT INTO {table} (recipient, channel, reader, ord, updated_at) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (recipient, channel, reader) DO UPDATE SET ord = excluded.ord, \
         updated_at = excluded.updated_at WHERE {table}.ord < excluded.ord"
    );
    Ok(tx.execute(&sql, params![to.as_str(), channel, reader, ord, at])? == 1)
}
