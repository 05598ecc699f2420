//! `seals`: hashes of stretches of a log that were synced. Below the last one nothing may change (R7).

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

/// One sealed stretch. Within an epoch each begins where the one before it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct SealRow {
    /// The session.
    pub session_id: SessionId,
    /// The log's epoch.
    pub epoch: Epoch,
    /// Its place among the seals of the epoch.
    pub ord: u64,
    /// The home whose log it is.
    pub home_id: HomeId,
    /// Where it begins.
    pub from_position: Position,
    /// Where it ends.
    pub to_position: Position,
    /// The link of the chain: over the link before it and the bytes in between.
    pub hash: [u8; 32],
    /// When it was made or last extended.
    pub sealed_at: Timestamp,
    /// Short hashes of the blocks in between, one behind the other; none where the seal was made without.
    pub blocks: Option<Vec<u8>>,
}

row!(SealRow: session_id, epoch, ord, home_id, from_position, to_position, hash, sealed_at, blocks);

/// What a seal becomes as it grows.
#[derive(Debug, Clone, PartialEq)]
pub struct Extended {
    /// Where it ends then.
    pub to_position: Position,
    /// Its link of the chain then.
    pub hash: [u8; 32],
    /// The hashes of its blocks then.
    pub blocks: Vec<u8>,
    /// When.
    pub sealed_at: Timestamp,
}

/// The last seal of an epoch.
pub fn last(tx: &mut Tx<'_>, session: &SessionId, epoch: Epoch) -> Result<Option<SealRow>> {
    tx.find(select!("ORDER BY ord DESC LIMIT 1"), params![session, epoch], SealRow::read)
}

/// The seals of an epoch in order, from this one on.
pub fn page(tx: &mut Tx<'_>, session: &SessionId, epoch: Epoch, from_ord: u64, limit: u32) -> Result<Vec<SealRow>> {
    tx.all(select!("AND ord >= ?3 ORDER BY ord LIMIT ?4"), params![session, epoch, from_ord, limit], SealRow::read)
}

/// Adds a seal. One that is there already, by another process, is a unique-constraint error.
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

/// Moves the end of a seal on; false when it is not the seal that the caller saw.
pub fn extend(tx: &mut Tx<'_>, old: &SealRow, new: &Extended) -> Result<bool> {
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
