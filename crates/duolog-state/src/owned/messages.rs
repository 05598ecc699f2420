//! `messages`: the messages. Progressions hold their order; branches and inboxes hold what they belong to.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use duolog_types::{HomeId, MessageId, ProgressionId, Timestamp};

use super::message_embeddings;
use crate::engine::{Row, Tx, Value};
use crate::error::{Error, Result};
use crate::params;

macro_rules! columns {
    () => {
        "id, created_at, node_metadata, content, content_blob, home_id, sender, recipient, channel, role, lion_class, \
         compactable"
    };
}

/// The number of these columns.
const COLUMNS: usize = 12;

/// The content of a message, as JSON text.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// In the row, byte for byte as given.
    Text(String),
    /// Too large for a row.
    Blob {
        /// The blob's name: 64 hexadecimal digits.
        blob: String,
        /// The home that has it.
        home: HomeId,
    },
}

/// The content of a message, borrowed from the driver or from a [`Content`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ContentRef<'r> {
    /// In the row: bytes that were valid JSON when they were inserted.
    Text(&'r [u8]),
    /// Too large for a row.
    Blob {
        /// The blob's name.
        blob: &'r str,
        /// The home that has it.
        home: HomeId,
    },
}

impl<'r> ContentRef<'r> {
    pub(super) fn read(row: &'r Row<'_>, first: usize) -> Result<Self> {
        // The constraints allow exactly one of the two. Most rows have text, so the other columns are read last.
        if let Some(text) = row.text_bytes(first)? {
            return Ok(Self::Text(text));
        }
        if let (Some(blob), Some(home)) = (row.text(first + 1)?, row.get(first + 2)?) {
            return Ok(Self::Blob { blob, home });
        }
        let detail = "it has neither text nor a blob".to_owned();
        Err(Error::Damaged { what: "a message's content".to_owned(), detail })
    }
}

impl Content {
    pub(super) fn read(row: &Row<'_>, first: usize) -> Result<Self> {
        Ok(match ContentRef::read(row, first)? {
            ContentRef::Text(_) => Self::Text(row.get(first)?),
            ContentRef::Blob { blob, home } => Self::Blob { blob: blob.to_owned(), home },
        })
    }

    /// Returns the content, borrowed.
    pub fn borrowed(&self) -> ContentRef<'_> {
        match self {
            Self::Text(text) => ContentRef::Text(text.as_bytes()),
            Self::Blob { blob, home } => ContentRef::Blob { blob, home: *home },
        }
    }

    fn columns(&self) -> (Option<&str>, Option<&str>, Option<HomeId>) {
        match self {
            Self::Text(text) => (Some(text), None, None),
            Self::Blob { blob, home } => (None, Some(blob), Some(*home)),
        }
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRow {
    /// Its id.
    pub id: MessageId,
    /// When it was created.
    pub created_at: Timestamp,
    /// JSON that its creator stores with it.
    pub node_metadata: Option<String>,
    /// Its content.
    pub content: Content,
    /// Its embedding: packed little-endian 32-bit floats.
    pub embedding: Option<Vec<u8>>,
    /// The sender.
    pub sender: Option<String>,
    /// The recipient.
    pub recipient: Option<String>,
    /// The channel.
    pub channel: Option<String>,
    /// The role.
    pub role: String,
    /// The number of its class, see `message_types`.
    pub lion_class: i64,
    /// True if a summary may replace it.
    pub compactable: bool,
}

impl MessageRow {
    /// Returns a message with this content and no other details.
    pub fn new(id: MessageId, role: &str, content: Content, at: Timestamp) -> Self {
        Self {
            id,
            created_at: at,
            node_metadata: None,
            content,
            embedding: None,
            sender: None,
            recipient: None,
            channel: None,
            role: role.to_owned(),
            lion_class: super::message_types::UNKNOWN,
            compactable: true,
        }
    }

    /// Returns true if this repeats a stored message.
    pub fn repeats(&self, stored: &Self) -> bool {
        let content = match (&self.content, &stored.content) {
            // A blob is named by its hash, so the home does not matter.
            (Content::Blob { blob: one, .. }, Content::Blob { blob: other, .. }) => one == other,
            (one, other) => one == other,
        };
        content
            && (self.embedding.is_none() || self.embedding == stored.embedding)
            && self.node_metadata == stored.node_metadata
            && self.sender == stored.sender
            && self.recipient == stored.recipient
            && self.channel == stored.channel
            && self.role == stored.role
            && self.lion_class == stored.lion_class
            && self.compactable == stored.compactable
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            created_at: row.get(1)?,
            node_metadata: row.get(2)?,
            content: Content::read(row, 3)?,
            sender: row.get(6)?,
            recipient: row.get(7)?,
            channel: row.get(8)?,
            role: row.get(9)?,
            lion_class: row.get(10)?,
            compactable: row.get(11)?,
            embedding: row.get(COLUMNS)?,
        })
    }
}

/// The result of [`put`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The id was free; the message was inserted.
    Added,
    /// The same message exists; nothing was changed.
    Same,
    /// Another message has this id; nothing was changed.
    Taken,
}

/// Inserts a message unless its id exists. An existing row is never changed.
///
/// Two messages are the same if all columns but `created_at` are equal. A message without an embedding is the same as a
/// stored one with an embedding.
pub fn put(tx: &mut Tx<'_>, row: &MessageRow) -> Result<Put> {
    if tx.execute(&*PUT, &values_of(row))? == 1 {
        if let Some(embedding) = &row.embedding {
            message_embeddings::add(tx, &[(&row.id, embedding)])?;
        }
        return Ok(Put::Added);
    }
    let stored = find(tx, &row.id)?;
    Ok(if stored.is_some_and(|stored| row.repeats(&stored)) { Put::Same } else { Put::Taken })
}

/// The rows per INSERT: fewer statements, and fewer round trips on a server.
const ROWS: usize = 16;

static ADD_ONE: LazyLock<String> = LazyLock::new(|| add_sql(columns!(), COLUMNS, 1));
static ADD_MANY: LazyLock<String> = LazyLock::new(|| add_sql(columns!(), COLUMNS, ROWS));
static PUT: LazyLock<String> = LazyLock::new(|| format!("{} ON CONFLICT (id) DO NOTHING", *ADD_ONE));
/// For messages with content only, as most are: fewer than half of the values.
static ADD_PLAIN: LazyLock<String> = LazyLock::new(|| add_sql(PLAIN, PLAIN_COLUMNS, ROWS));
const PLAIN: &str = "id, created_at, content, role, compactable";
const PLAIN_COLUMNS: usize = 5;

fn add_sql(columns: &str, width: usize, rows: usize) -> String {
    let row = |at: usize| {
        let places: Vec<String> = (1..=width).map(|place| format!("?{}", at * width + place)).collect();
        format!("({})", places.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!("INSERT INTO messages ({columns}) VALUES {}", rows.join(", "))
}

/// Inserts messages. An id that exists is a unique-constraint error.
pub fn add(tx: &mut Tx<'_>, rows: &[MessageRow]) -> Result<()> {
    let (many, rest) = rows.as_chunks::<ROWS>();
    for chunk in many {
        let plain: Option<Vec<_>> = chunk.iter().map(plain_values_of).collect();
        if let Some(plain) = plain {
            tx.execute(&*ADD_PLAIN, plain.as_flattened())?;
        } else {
            let values: Vec<Value<'_>> = chunk.iter().flat_map(values_of).collect();
            tx.execute(&*ADD_MANY, &values)?;
        }
    }
    rest.iter().try_for_each(|row| tx.execute(&*ADD_ONE, &values_of(row)).map(drop))?;
    let embedded: Vec<(&MessageId, &[u8])> =
        rows.iter().filter_map(|row| Some((&row.id, row.embedding.as_deref()?))).collect();
    message_embeddings::add(tx, &embedded)
}

/// Returns the values of a message with content only. `None` for any other message.
fn plain_values_of(row: &MessageRow) -> Option<[Value<'_>; PLAIN_COLUMNS]> {
    let Content::Text(text) = &row.content else { return None };
    let details = [&row.node_metadata, &row.sender, &row.recipient, &row.channel];
    let is_plain = details.iter().all(|detail| detail.is_none()) && row.lion_class == super::message_types::UNKNOWN;
    let values = || [(&row.id).into(), row.created_at.into(), text.into(), (&row.role).into(), row.compactable.into()];
    is_plain.then(values)
}

fn values_of(row: &MessageRow) -> [Value<'_>; COLUMNS] {
    let (text, blob, home) = row.content.columns();
    [
        (&row.id).into(),
        row.created_at.into(),
        row.node_metadata.as_ref().into(),
        text.into(),
        blob.into(),
        home.into(),
        row.sender.as_ref().into(),
        row.recipient.as_ref().into(),
        row.channel.as_ref().into(),
        (&row.role).into(),
        row.lion_class.into(),
        row.compactable.into(),
    ]
}

/// Returns the message with this id.
pub fn find(tx: &mut Tx<'_>, id: &MessageId) -> Result<Option<MessageRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        ", (SELECT e.embedding FROM message_embeddings e WHERE e.message_id = messages.id) FROM messages WHERE id = ?1"
    );
    tx.find(sql, params![id], MessageRow::read)
}

/// The messages per statement, so that a server gets one query for many.
const IDS: usize = 64;

/// Deletes those of these messages that nothing references. Returns how many.
///
/// A session's own progression, `pool`, does not keep a message: if only the pool has it, it is removed from there too.
pub fn remove_unreferenced(tx: &mut Tx<'_>, ids: &[MessageId], pool: Option<&ProgressionId>) -> Result<usize> {
    let places: Vec<String> = (2..IDS + 2).map(|place| format!("?{place}")).collect();
    let places = places.join(", ");
    let elsewhere = "NOT EXISTS (SELECT 1 FROM branches b WHERE b.system_msg_id = {id}) \
                     AND NOT EXISTS (SELECT 1 FROM compactions c WHERE c.summary_msg_id = {id}) \
                     AND NOT EXISTS (SELECT 1 FROM progression_items o WHERE o.message_id = {id} \
                     AND o.progression_id <> ?1)";
    let from_pool = format!(
        "DELETE FROM progression_items WHERE progression_id = ?1 AND message_id IN ({places}) AND {}",
        elsewhere.replace("{id}", "progression_items.message_id")
    );
    // A message that is still in the pool is referenced elsewhere too, or there is no pool.
    let messages =
        format!("DELETE FROM messages WHERE id IN ({places}) AND {}", elsewhere.replace("{id}", "messages.id"));
    let mut removed = 0;
    for chunk in ids.chunks(IDS) {
        let Some(last) = chunk.last() else { break };
        // No progression has an empty id. One statement for any number of ids: the last one fills the rest.
        let pool = pool.map_or("", ProgressionId::as_str);
        let padded = (0..IDS).map(|at| Value::from(chunk.get(at).unwrap_or(last)));
        let values: Vec<Value<'_>> = std::iter::once(pool.into()).chain(padded).collect();
        tx.execute(&from_pool, &values)?;
        removed += tx.execute(&messages, &values)?;
    }
    Ok(removed)
}

/// Returns those of these messages that exist.
pub fn existing(tx: &mut Tx<'_>, ids: &[MessageId]) -> Result<BTreeSet<MessageId>> {
    let places: Vec<String> = (1..=IDS).map(|place| format!("?{place}")).collect();
    let sql = format!("SELECT id FROM messages WHERE id IN ({})", places.join(", "));
    let mut found = BTreeSet::new();
    for chunk in ids.chunks(IDS) {
        let Some(last) = chunk.last() else { break };
        let padded: Vec<Value<'_>> = (0..IDS).map(|at| Value::from(chunk.get(at).unwrap_or(last))).collect();
        found.extend(tx.all(&sql, &padded, |row| row.get(0))?);
    }
    Ok(found)
}

/// Returns the blobs of this home with contents of messages, after this one, in order.
pub fn blobs(tx: &mut Tx<'_>, home: &HomeId, after: &str, limit: u32) -> Result<Vec<String>> {
    let sql = "SELECT DISTINCT content_blob FROM messages WHERE content_blob > ?1 AND home_id = ?2 \
               ORDER BY content_blob LIMIT ?3";
    tx.all(sql, params![after, home, limit], |row| row.get(0))
}

/// Returns the number of messages of this home with their content in this blob.
pub fn naming_blob(tx: &mut Tx<'_>, home: &HomeId, blob: &str) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM messages WHERE content_blob = ?1 AND home_id = ?2";
    Ok(tx.find(sql, params![blob, home], |row| row.get(0))?.unwrap_or(0))
}
