//! `message_embeddings`: what messages mean to a model, packed so that all of it is looked at and nothing else.
//!
//! An embedding is little-endian 32-bit floats. It goes with its message.

use duolog_types::MessageId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Gives a message its embedding, or another; one that has none is without from here on.
pub fn put(tx: &mut Tx<'_>, message: &MessageId, embedding: Option<&[u8]>) -> Result<()> {
    let Some(embedding) = embedding else {
        return tx.execute("DELETE FROM message_embeddings WHERE message_id = ?1", params![message]).map(drop);
    };
    let sql = "INSERT INTO message_embeddings (message_id, embedding) VALUES (?1, ?2) \
               ON CONFLICT (message_id) DO UPDATE SET embedding = excluded.embedding";
    tx.execute(sql, params![message, embedding]).map(drop)
}

/// Hands out embeddings in the order they stand in, by number, after this one; says which was the last where there may
/// be more.
pub fn each(tx: &mut Tx<'_>, after: i64, limit: u32, each: &mut dyn FnMut(i64, &[u8])) -> Result<Option<i64>> {
    let sql = "SELECT seq, embedding FROM message_embeddings WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let (mut last, mut seen) = (after, 0);
    tx.query_each(sql, params![after, limit], &mut |row| {
        last = row.get(0)?;
        each(last, row.bytes(1)?);
        seen += 1;
        Ok(())
    })?;
    Ok((seen == limit).then_some(last))
}

/// The message whose embedding has this number.
pub fn message_of(tx: &mut Tx<'_>, seq: i64) -> Result<Option<MessageId>> {
    tx.find("SELECT message_id FROM message_embeddings WHERE seq = ?1", params![seq], |row| row.get(0))
}
