//! `seals`: hashes of synced segments of a log. Bytes before the end of the last seal must not change (R7).

use duolog_types::{Epoch, HomeId, Position, SessionId, Timestamp};

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT session_id, epoch, ord, home_id, from_position, to_position, hash, sealed_at, blocks FROM seals \
             WHERE session_id = ?1 AND epoch = ?2 ",
            $rest
        )
    };
}

/// A sealed segment. Within an epoch each begins at the end of the previous one.
#[derive(Debug, Clone, PartialEq)]
pub struct SealRow {
    /// The session.
    pub session_id: SessionId,
    /// The log's epoch.
    pub epoch: Epoch,
    /// Its number among the seals of the epoch.
    pub ord: u64,
    /// The home that has the log.
    pub home_id: HomeId,
    /// The first position.
    pub from_position: Position,
    /// The position after its last byte.
    pub to_position: Position,
    /// The hash chain: over the previous hash and the bytes of this segment.
    pub hash: [u8; 32],
    /// When it was created or last extended.
    pub sealed_at: Timestamp,
    /// Concatenated short hashes of its blocks. `None` if the seal was created without them.
    pub blocks: Option<Vec<u8>>,
}

row!(SealRow: session_id, epoch, ord, home_id, from_position, to_position, hash, sealed_at, blocks);

/// The new values of a seal that is extended.
#[derive(Debug, Clone, PartialEq)]
pub struct SealExtension {
    /// The new end.
    pub to_position: Position,
    /// The new hash.
    pub hash: [u8; 32],
    /// The new block hashes.
    pub blocks: Vec<u8>,
    /// When it is extended.
    pub sealed_at: Timestamp,
}

/// Returns the last seal of an epoch.
pub fn last(tx: &mut Tx<'_>, session: &SessionId, epoch: Epoch) -> Result<Option<SealRow>> {
    tx.find(select!("ORDER BY ord DESC LIMIT 1"), params![session, epoch], SealRow::read)
}

/// Returns the seals of an epoch in order, from `from_ord` on.
pub fn page(tx: &mut Tx<'_>, session: &SessionId, epoch: Epoch, from_ord: u64, limit: u32) -> Result<Vec<SealRow>> {
    tx.all(select!("AND ord >= ?3 ORDER BY ord LIMIT ?4"), params![session, epoch, from_ord, limit], SealRow::read)
}

/// Inserts a seal. If another process has inserted it, that is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, seal: &SealRow) -> Result<()> {
    let sql = "INSERT INTO seals (session_id, epoch, ord, home_id, from_position, to_position, hash, sealed_at, blocks) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let values = params![
        &seal.session_id,
        seal.epoch,
        seal.ord,
        seal.home_id,
        seal.from_position,
        seal.to_position,
        &seal.hash,
        seal.sealed_at,
        seal.blocks.as_deref(),
    ];
    tx.execute(sql, values).map(drop)
}

/// Extends a seal. Returns false if the seal is not the one that the caller read.
pub fn extend(tx: &mut Tx<'_>, old: &SealRow, new: &SealExtension) -> Result<bool> {
    let sql = "UPDATE seals SET to_position = ?4, hash = ?5, sealed_at = ?6, blocks = ?9 \
               WHERE session_id = ?1 AND epoch = ?2 AND ord = ?3 AND to_position = ?7 AND hash = ?8";
    let values = params![
        &old.session_id,
        old.epoch,
        old.ord,
        new.to_position,
        &new.hash,
        new.sealed_at,
        old.to_position,
        &old.hash,
        new.blocks.as_slice(),
    ];
    Ok(tx.execute(sql, values)? == 1)
}
