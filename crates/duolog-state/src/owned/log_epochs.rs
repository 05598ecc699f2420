//! `log_epochs`: the first epoch of the next new log. It is above the epochs of all deleted logs, so an old cursor
//! never matches a position in a newer log.

use duolog_types::Epoch;

use crate::engine::{Sql, Tx};
use crate::error::Result;
use crate::params;

/// Returns the first epoch of a new log.
///
/// On a server the row is locked in share mode: a deletion that commits meanwhile makes this transaction retry.
pub fn next(tx: &mut Tx<'_>) -> Result<Epoch> {
    let sql = Sql::each(
        "SELECT next_epoch FROM log_epochs WHERE id = 1",
        "SELECT next_epoch FROM log_epochs WHERE id = 1 FOR SHARE",
    );
    Ok(tx.find(sql, &[], |row| row.get(0))?.unwrap_or(Epoch(0)))
}

/// Records that a log of this epoch is deleted.
pub fn retire(tx: &mut Tx<'_>, epoch: Epoch) -> Result<()> {
    let sql = "UPDATE log_epochs SET next_epoch = ?1 WHERE id = 1 AND next_epoch < ?1";
    tx.execute(sql, params![epoch.next()]).map(drop)
}
