//! `log_epochs`: the epoch that the next new log begins with. It is above those of all logs that were deleted, so an old
//! cursor never means a place in a log that came after.

use duolog_types::Epoch;

use crate::engine::{Sql, Tx};
use crate::error::Result;
use crate::params;

/// The epoch that a new log begins with.
///
/// On a server the row is locked for reading: a deletion that commits meanwhile makes this transaction run again.
pub fn next(tx: &mut Tx<'_>) -> Result<Epoch> {
    let sql = Sql::each(
        "SELECT next_epoch FROM log_epochs WHERE id = 1",
        "SELECT next_epoch FROM log_epochs WHERE id = 1 FOR SHARE",
    );
    Ok(tx.find(sql, &[], |row| row.get(0))?.unwrap_or(Epoch(0)))
}

/// Notes that a log of this epoch is deleted.
pub fn retire(tx: &mut Tx<'_>, epoch: Epoch) -> Result<()> {
    let sql = "UPDATE log_epochs SET next_epoch = ?1 WHERE id = 1 AND next_epoch < ?1";
    tx.execute(sql, params![epoch.next()]).map(drop)
}
