//! `inboxes`: what was sent to whom on which channel, each a progression in the order of the commits.

use duolog_types::ProgressionId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// The progression of an inbox, where anything was ever sent there. No channel is `""`.
pub fn find(tx: &mut Tx<'_>, recipient: &str, channel: &str) -> Result<Option<ProgressionId>> {
    let sql = "SELECT progression_id FROM inboxes WHERE recipient = ?1 AND channel = ?2";
    tx.find(sql, params![recipient, channel], |row| row.get(0))
}

/// The same, to be added to: on a server, one who was overtaken by another that adds there is run again.
pub fn enter(tx: &mut Tx<'_>, recipient: &str, channel: &str) -> Result<Option<ProgressionId>> {
    let sql = "UPDATE inboxes SET progression_id = progression_id WHERE recipient = ?1 AND channel = ?2 \
               RETURNING progression_id";
    tx.find(sql, params![recipient, channel], |row| row.get(0))
}

/// Adds an inbox. One that is there already is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, recipient: &str, channel: &str, progression: &ProgressionId) -> Result<()> {
    let sql = "INSERT INTO inboxes (recipient, channel, progression_id) VALUES (?1, ?2, ?3)";
    tx.execute(sql, params![recipient, channel, progression]).map(drop)
}

/// The channels on which anything was ever sent to a recipient, in order, after this one.
pub fn channels(tx: &mut Tx<'_>, recipient: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>> {
    let first = "SELECT channel FROM inboxes WHERE recipient = ?1 ORDER BY channel LIMIT ?2";
    let next = "SELECT channel FROM inboxes WHERE recipient = ?1 AND channel > ?3 ORDER BY channel LIMIT ?2";
    match after {
        Some(after) => tx.all(next, params![recipient, limit, after], |row| row.get(0)),
        None => tx.all(first, params![recipient, limit], |row| row.get(0)),
    }
}
