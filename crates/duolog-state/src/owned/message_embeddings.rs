//! `message_embeddings`: the embeddings of messages, apart from them, so that a scan reads nothing else.
//!
//! An embedding is little-endian 32-bit floats. It is added and removed with its message and never changed in between, and
//! a number is never used again.

use std::fmt::Write as _;
use std::sync::LazyLock;

use duolog_types::{MessageId, SessionId, Timestamp};

use super::progressions::Segment;
use crate::engine::{Tx, Value};
use crate::error::Result;
use crate::params;

/// The rows of one statement that adds many: fewer statements, and on a server fewer answers to wait for.
const ROWS: usize = 16;

static ADD_MANY: LazyLock<String> = LazyLock::new(|| {
    let rows: Vec<String> = (0..ROWS).map(|row| format!("(?{}, ?{})", 2 * row + 1, 2 * row + 2)).collect();
    format!("INSERT INTO message_embeddings (message_id, embedding) VALUES {}", rows.join(", "))
});

/// Adds the embeddings of messages that were just added.
pub fn add(tx: &mut Tx<'_>, embeddings: &[(&MessageId, &[u8])]) -> Result<()> {
    let (many, rest) = embeddings.as_chunks::<ROWS>();
    for some in many {
        let values: Vec<Value<'_>> = some.iter().flat_map(|(id, bytes)| [(*id).into(), (*bytes).into()]).collect();
        tx.execute(&*ADD_MANY, &values)?;
    }
    let sql = "INSERT INTO message_embeddings (message_id, embedding) VALUES (?1, ?2)";
    rest.iter().try_for_each(|(id, bytes)| tx.execute(sql, params![*id, *bytes]).map(drop))
}

/// Hands out embeddings in the order of their numbers, after one. Returns the last number if there may be more.
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

/// Which messages are meant: those of which all holds that is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Among {
    /// They are this session's.
    pub session: Option<SessionId>,
    /// Who speaks.
    pub role: Option<String>,
    /// Who sent them.
    pub sender: Option<String>,
    /// Whom they are for.
    pub recipient: Option<String>,
    /// On which channel.
    pub channel: Option<String>,
    /// What they were in the program that made them, by its number.
    pub lion_class: Option<i64>,
    /// Made then or later.
    pub since: Option<Timestamp>,
    /// Made before then.
    pub until: Option<Timestamp>,
}

impl Among {
    /// The conditions on an embedding `e`, whose parameters come behind so many, and what they are.
    fn conditions(&self, behind: usize) -> (String, Vec<Value<'_>>) {
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
            let _ = write!(sql, " AND {condition} ?{}", behind + values.len());
        }
        if !values.is_empty() {
            sql.push(')');
        }
        if let Some(session) = &self.session {
            values.push(session.into());
            let held = "SELECT 1 FROM progression_items i JOIN progressions p ON p.id = i.progression_id \
                        WHERE i.message_id = e.message_id AND p.session_id =";
            let _ = write!(sql, " AND EXISTS ({held} ?{})", behind + values.len());
        }
        (sql, values)
    }
}

/// The numbers of one statement, so that a server is not asked for each by itself.
const TOGETHER: usize = 64;

/// Those of these numbers that still stand and are among the messages that are meant, with whose they are.
pub fn standing(tx: &mut Tx<'_>, seqs: &[i64], among: &Among) -> Result<Vec<(i64, MessageId)>> {
    let places: Vec<String> = (1..=TOGETHER).map(|place| format!("?{place}")).collect();
    let (conditions, meant) = among.conditions(TOGETHER);
    let sql = format!(
        "SELECT e.seq, e.message_id FROM message_embeddings e WHERE e.seq IN ({}){conditions}",
        places.join(", ")
    );
    let mut found = Vec::with_capacity(seqs.len());
    for some in seqs.chunks(TOGETHER) {
        let Some(last) = some.last() else { break };
        // One statement for any number: what is missing to it is said twice.
        let named = (0..TOGETHER).map(|at| Value::from(*some.get(at).unwrap_or(last)));
        let values: Vec<Value<'_>> = named.chain(meant.iter().cloned()).collect();
        tx.query_each(&sql, &values, &mut |row| {
            found.push((row.get(0)?, row.get(1)?));
            Ok(())
        })?;
    }
    Ok(found)
}

/// Hands out the embeddings of a stretch of a history that are among those meant, from a place on: number, whose it is,
/// and itself. Says where to go on where there may be more.
pub fn each_of(
    tx: &mut Tx<'_>,
    segment: &Segment,
    among: &Among,
    limit: u32,
    each: &mut dyn FnMut(i64, MessageId, &[u8]),
) -> Result<Option<u64>> {
    let (conditions, meant) = among.conditions(4);
    let sql = format!(
        "SELECT o.ord, e.seq, e.message_id, e.embedding FROM progression_items o \
         JOIN message_embeddings e ON e.message_id = o.message_id \
         WHERE o.progression_id = ?1 AND o.ord >= ?2 AND o.ord < ?3{conditions} ORDER BY o.ord LIMIT ?4"
    );
    let mut values: Vec<Value<'_>> =
        vec![(&segment.progression).into(), segment.from.into(), segment.to.into(), limit.into()];
    values.extend(meant);
    let (mut next, mut seen) = (segment.from, 0);
    tx.query_each(&sql, &values, &mut |row| {
        next = row.get::<u64>(0)? + 1;
        each(row.get(1)?, row.get(2)?, row.bytes(3)?);
        seen += 1;
        Ok(())
    })?;
    Ok((seen == limit).then_some(next))
}

/// The highest number; 0 if there is none.
pub fn last(tx: &mut Tx<'_>) -> Result<i64> {
    let sql = "SELECT COALESCE(MAX(seq), 0) FROM message_embeddings";
    Ok(tx.find(sql, params![], |row| row.get(0))?.unwrap_or_default())
}
