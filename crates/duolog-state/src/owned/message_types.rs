//! `message_types`: the classes of messages in the program that created them, as small numbers.

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// The type of a message without a class.
pub const UNKNOWN: i64 = 0;

/// Returns the number of a class; a new class gets the next number. A message without a class is [`UNKNOWN`].
pub fn resolve(tx: &mut Tx<'_>, class: Option<&str>) -> Result<i64> {
    let Some(class) = class.filter(|class| !class.trim().is_empty()) else { return Ok(UNKNOWN) };
    if let Some(known) = find(tx, class)? {
        return Ok(known);
    }
    // If another transaction inserts it first, the server retries this one, which then finds it above.
    let sql = "INSERT INTO message_types (lion_class) VALUES (?1) RETURNING type_id";
    Ok(tx.find(sql, params![class], |row| row.get(0))?.unwrap_or(UNKNOWN))
}

/// Returns the number of a class, if it has one.
pub fn find(tx: &mut Tx<'_>, class: &str) -> Result<Option<i64>> {
    tx.find("SELECT type_id FROM message_types WHERE lion_class = ?1", params![class], |row| row.get(0))
}

/// Returns the class with this number.
pub fn class_of(tx: &mut Tx<'_>, type_id: i64) -> Result<Option<String>> {
    tx.find("SELECT lion_class FROM message_types WHERE type_id = ?1", params![type_id], |row| row.get(0))
}
