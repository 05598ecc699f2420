//! `embedding_packs`: how far each home has packed the embeddings into a file, and what that file must come out at.
//!
//! The row is written in the state that the embeddings were read from, after them: whatever takes rows back, a copy that
//! is restored or a power cut, takes this one back too. The file is not here.

use duolog_types::{HomeId, Moment, PackId};

use super::message_embeddings::Horizon;
use crate::engine::{Row, Tx};
use crate::error::{Error, Result};
use crate::params;

/// How far a home has packed the embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackRow {
    /// The home.
    pub home_id: HomeId,
    /// The file, once there is one.
    pub pack: Option<Published>,
    /// Up to where embeddings can be packed once the transactions that ran then have ended.
    pub horizon: Option<Horizon>,
    /// When that was noted.
    pub packed_at: Moment,
}

/// What of a file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Which file.
    pub pack_id: PackId,
    /// What its contents come out at.
    pub chain: [u8; 32],
    /// Where it ends.
    pub bytes: u64,
    /// How many embeddings it holds.
    pub records: u64,
    /// The number of the last one: all up to it are there, but for those that were removed before.
    pub last_seq: i64,
}

impl PackRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let pack = match (row.get(1)?, row.get(2)?) {
            (Some(pack_id), Some(chain)) => {
                Some(Published { pack_id, chain, bytes: row.get(3)?, records: row.get(4)?, last_seq: row.get(5)? })
            }
            (None, None) => None,
            _ => {
                let detail = "it names a file and not its contents, or the reverse".to_owned();
                return Err(Error::Damaged { what: "a row of embedding_packs".to_owned(), detail });
            }
        };
        let horizon = row.get::<Option<i64>>(6)?.zip(row.get(7)?).map(|(seq, xid)| Horizon { seq, xid });
        Ok(Self { home_id: row.get(0)?, pack, horizon, packed_at: row.get(8)? })
    }
}

/// How far a home has packed them, where it has.
pub fn find(tx: &mut Tx<'_>, home: &HomeId) -> Result<Option<PackRow>> {
    let sql = "SELECT home_id, pack_id, chain, bytes, records, last_seq, horizon_seq, horizon_xid, packed_at \
               FROM embedding_packs WHERE home_id = ?1";
    tx.find(sql, params![home], PackRow::read)
}

/// Notes how far a home has packed them now; false where the row is not the one that it went on from.
pub fn replace(tx: &mut Tx<'_>, expected: Option<&PackRow>, row: &PackRow) -> Result<bool> {
    if find(tx, &row.home_id)?.as_ref() != expected {
        return Ok(false);
    }
    let sql = "INSERT INTO embedding_packs (home_id, pack_id, chain, bytes, records, last_seq, horizon_seq, \
               horizon_xid, packed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
               ON CONFLICT (home_id) DO UPDATE SET pack_id = excluded.pack_id, chain = excluded.chain, \
               bytes = excluded.bytes, records = excluded.records, last_seq = excluded.last_seq, \
               horizon_seq = excluded.horizon_seq, horizon_xid = excluded.horizon_xid, packed_at = excluded.packed_at";
    let pack = row.pack.as_ref();
    let values = params![
        &row.home_id,
        pack.map(|pack| pack.pack_id),
        pack.map(|pack| &pack.chain),
        pack.map_or(0, |pack| pack.bytes),
        pack.map_or(0, |pack| pack.records),
        pack.map_or(0, |pack| pack.last_seq),
        row.horizon.map(|horizon| horizon.seq),
        row.horizon.map(|horizon| horizon.xid),
        row.packed_at,
    ];
    tx.execute(sql, values)?;
    Ok(true)
}
