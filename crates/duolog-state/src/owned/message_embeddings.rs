//! `message_embeddings`: the embeddings of messages, in their own table so that a scan reads nothing else.
//!
//! An embedding is little-endian 32-bit floats. It is inserted and deleted with its message and never changed. Its
//! number `seq` is never reused.

use std::fmt::Write as _;
use std::sync::LazyLock;

use duolog_types::{MessageId, SessionId, Timestamp};

use super::progressions::Segment;
use crate::engine::{Tx, Value};
use crate::error::Result;
use crate::params;

/// The rows per INSERT: fewer statements, and fewer round trips on a server.
const ROWS: usize = 16;

static ADD_MANY: LazyLock<String> = LazyLock::new(|| {
    let rows: Vec<String> = (0..ROWS).map(|row| format!("(?{}, ?{})", 2 * row + 1, 2 * row + 2)).collect();
    format!("INSERT INTO message_embeddings (message_id, embedding) VALUES {}", rows.join(", "))
});

/// Inserts the embeddings of messages that were just inserted.
pub fn add(tx: &mut Tx<'_>, embeddings: &[(&MessageId, &[u8])]) -> Result<()> {
    let (many, rest) = embeddings.as_chunks::<ROWS>();
    for chunk in many {
        let values: Vec<Value<'_>> = chunk.iter().flat_map(|(id, bytes)| [(*id).into(), (*bytes).into()]).collect();
        tx.execute(&*ADD_MANY, &values)?;
    }
    let sql = "INSERT INTO message_embeddings (message_id, embedding) VALUES (?1, ?2)";
    rest.iter().try_for_each(|(id, bytes)| tx.execute(sql, params![*id, *bytes]).map(drop))
}

/// Calls `each` for the embeddings after a number, in order. Returns the last number if there may be more.
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

/// A filter of messages. All fields that are set must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageFilter {
    /// The session.
    pub session: Option<SessionId>,
    /// The role.
    pub role: Option<String>,
    /// The sender.
    pub sender: Option<String>,
    /// The recipient.
    pub recipient: Option<String>,
    /// The channel.
    pub channel: Option<String>,
    /// The number of the class, see `message_types`.
    pub lion_class: Option<i64>,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created before this time.
    pub until: Option<Timestamp>,
}

impl MessageFilter {
    /// Returns the conditions on an embedding `e` and their values. The parameters are numbered after `params_before`.
    fn conditions(&self, params_before: usize) -> (String, Vec<Value<'_>>) {
        let (mut sql, mut values) = (String::new(), Vec::new());
        let of_message: [(&str, Option<Value<'_>>); 7] = [
            ("m.role =", self.role.as_ref().map(Value::from)),
            ("m.sender =", self.sender.as_ref().map(Value::from)),
            ("m.recipient =", self.recipient.as_ref().map(Value::from)),
            ("m.channel =", self.channel.as_ref().map(Value::from)),
            ("m.lion_class =", self.lion_class.map(Value::from)),
            ("m.created_at >=", self.since.map(Value::from)),
            ("m.created_at <", self.until.map(Value::from)),
        ];
        for (condition, value) in of_message {
            let Some(value) = value else { continue };
            if values.is_empty() {
                sql.push_str(" AND EXISTS (SELECT 1 FROM messages m WHERE m.id = e.message_id");
            }
            values.push(value);
            let _ = write!(sql, " AND {condition} ?{}", params_before + values.len());
        }
        if !values.is_empty() {
            sql.push(')');
        }
        if let Some(session) = &self.session {
            values.push(session.into());
            let in_session = "SELECT 1 FROM progression_items i JOIN progressions p ON p.id = i.progression_id \
                        WHERE i.message_id = e.message_id AND p.session_id =";
            let _ = write!(sql, " AND EXISTS ({in_session} ?{})", params_before + values.len());
        }
        (sql, values)
    }
}

/// The numbers per statement, so that a server gets one query for many.
const SEQS: usize = 64;

/// Returns those of these numbers that exist and match the filter, with their messages.
pub fn existing(tx: &mut Tx<'_>, seqs: &[i64], filter: &MessageFilter) -> Result<Vec<(i64, MessageId)>> {
    let places: Vec<String> = (1..=SEQS).map(|place| format!("?{place}")).collect();
    let (conditions, filter_values) = filter.conditions(SEQS);
    let sql = format!(
        "SELECT e.seq, e.message_id FROM message_embeddings e WHERE e.seq IN ({}){conditions}",
        places.join(", ")
    );
    let mut found = Vec::with_capacity(seqs.len());
    for chunk in seqs.chunks(SEQS) {
        let Some(last) = chunk.last() else { break };
        // One statement for any number: the last one fills the rest.
        let padded = (0..SEQS).map(|at| Value::from(*chunk.get(at).unwrap_or(last)));
        let values: Vec<Value<'_>> = padded.chain(filter_values.iter().cloned()).collect();
        tx.query_each(&sql, &values, &mut |row| {
            found.push((row.get(0)?, row.get(1)?));
            Ok(())
        })?;
    }
    Ok(found)
}

/// Calls `each` for the embeddings of a segment of a history that match the filter, with their numbers and messages.
/// Returns the position to continue from if there may be more.
pub fn each_of(
    tx: &mut Tx<'_>,
    segment: &Segment,
    filter: &MessageFilter,
    limit: u32,
    each: &mut dyn FnMut(i64, MessageId, &[u8]),
) -> Result<Option<u64>> {
    let (conditions, filter_values) = filter.conditions(4);
    let sql = format!(
        "SELECT o.ord, e.seq, e.message_id, e.embedding FROM progression_items o \
         JOIN message_embeddings e ON e.message_id = o.message_id \
         WHERE o.progression_id = ?1 AND o.ord >= ?2 AND o.ord < ?3{conditions} ORDER BY o.ord LIMIT ?4"
    );
    let mut values: Vec<Value<'_>> =
        vec![(&segment.progression).into(), segment.from.into(), segment.to.into(), limit.into()];
    values.extend(filter_values);
    let (mut next, mut seen) = (segment.from, 0);
    tx.query_each(&sql, &values, &mut |row| {
        next = row.get::<u64>(0)? + 1;
        each(row.get(1)?, row.get(2)?, row.bytes(3)?);
        seen += 1;
        Ok(())
    })?;
    Ok((seen == limit).then_some(next))
}

/// Returns the highest number; 0 if there is none.
pub fn last(tx: &mut Tx<'_>) -> Result<i64> {
    let sql = "SELECT COALESCE(MAX(seq), 0) FROM message_embeddings";
    Ok(tx.find(sql, params![], |row| row.get(0))?.unwrap_or_default())
}
