//! `digests`: the fold's saved state for each log. Only folds read it.

use duolog_types::{Epoch, Position, SessionId};

use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

/// The fold's saved state for one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestRow {
    /// The session.
    pub session_id: SessionId,
    /// The epoch that was folded.
    pub epoch: Epoch,
    /// The end of the folded bytes.
    pub position: Position,
    /// The saved state.
    pub digest: Vec<u8>,
}

impl DigestRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self { session_id: row.get(0)?, epoch: row.get(1)?, position: row.get(2)?, digest: row.get(3)? })
    }
}

/// Returns the saved state of a session's log, if any.
pub fn get(tx: &mut Tx<'_>, session: &SessionId) -> Result<Option<DigestRow>> {
    let sql = "SELECT session_id, epoch, position, digest FROM digests WHERE session_id = ?1";
    tx.find(sql, params![session], DigestRow::read)
}

/// Saves the state of a log.
pub fn put(tx: &mut Tx<'_>, row: &DigestRow) -> Result<()> {
    let sql = "INSERT INTO digests (session_id, epoch, position, digest) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (session_id) DO UPDATE SET epoch = excluded.epoch, position = excluded.position, \
               digest = excluded.digest";
    let values = params![&row.session_id, row.epoch, row.position, row.digest.as_slice()];
    tx.execute(sql, values).map(drop)
}

/// Returns every row, by session, to compare a rebuild with the rows before it.
pub fn dump(tx: &mut Tx<'_>) -> Result<Vec<DigestRow>> {
    tx.all("SELECT session_id, epoch, position, digest FROM digests ORDER BY session_id", &[], DigestRow::read)
}
