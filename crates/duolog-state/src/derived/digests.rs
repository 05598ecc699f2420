//! `digests`: what the fold remembers of each log, to go on from. Only folds read it.

use duolog_types::{Epoch, Position, SessionId};

use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

/// What the fold remembers of one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestRow {
    /// The session.
    pub session_id: SessionId,
    /// The epoch that was folded.
    pub epoch: Epoch,
    /// Up to where.
    pub position: Position,
    /// What is remembered.
    pub digest: Vec<u8>,
}

impl DigestRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self { session_id: row.get(0)?, epoch: row.get(1)?, position: row.get(2)?, digest: row.get(3)? })
    }
}

/// What is remembered of a session's log, if anything.
pub fn get(tx: &mut Tx<'_>, session: &SessionId) -> Result<Option<DigestRow>> {
    let sql = "SELECT session_id, epoch, position, digest FROM digests WHERE session_id = ?1";
    tx.find(sql, params![session], DigestRow::read)
}

/// Remembers this from now on.
pub fn put(tx: &mut Tx<'_>, row: &DigestRow) -> Result<()> {
    let sql = "INSERT INTO digests (session_id, epoch, position, digest) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (session_id) DO UPDATE SET epoch = excluded.epoch, position = excluded.position, \
               digest = excluded.digest";
    let values = params![&row.session_id, row.epoch, row.position, row.digest.as_slice()];
    tx.execute(sql, values).map(drop)
}

/// Every row, by session: for comparing a rebuild with what was there.
pub fn dump(tx: &mut Tx<'_>) -> Result<Vec<DigestRow>> {
    tx.all("SELECT session_id, epoch, position, digest FROM digests ORDER BY session_id", &[], DigestRow::read)
}
