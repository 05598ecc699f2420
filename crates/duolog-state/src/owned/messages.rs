//! `messages`: what was said, by itself. Progressions say in which order, branches and inboxes to whom it belongs.

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

/// How many those are.
const COLUMNS: usize = 12;

/// What a message says, as JSON text.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// In the row, byte for byte as it was given.
    Text(String),
    /// Too large for a row.
    Blob {
        /// The blob's name: 64 hexadecimal digits.
        blob: String,
        /// The home that keeps it.
        home: HomeId,
    },
}

/// The same, where the driver has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ContentRef<'r> {
    /// In the row: bytes that were JSON when they were put there.
    Text(&'r [u8]),
    /// Too large for a row.
    Blob {
        /// The blob's name.
        blob: &'r str,
        /// The home that keeps it.
        home: HomeId,
    },
}

impl<'r> ContentRef<'r> {
    pub(super) fn read(row: &'r Row<'_>, first: usize) -> Result<Self> {
        // By its constraints a row has one of the two; most have text, and are not asked for more.
        if let Some(text) = row.text_bytes(first)? {
            return Ok(Self::Text(text));
        }
        if let (Some(blob), Some(home)) = (row.text(first + 1)?, row.get(first + 2)?) {
            return Ok(Self::Blob { blob, home });
        }
        let detail = "it has neither text nor a blob of a home".to_owned();
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

    /// The same, lent.
    pub fn lent(&self) -> ContentRef<'_> {
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

/// A message, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRow {
    /// Its id.
    pub id: MessageId,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whatever its maker keeps with it, as JSON.
    pub node_metadata: Option<String>,
    /// What it says.
    pub content: Content,
    /// What it means to a model: packed little-endian 32-bit floats.
    pub embedding: Option<Vec<u8>>,
    /// Who sent it.
    pub sender: Option<String>,
    /// Whom it is for.
    pub recipient: Option<String>,
    /// On which channel.
    pub channel: Option<String>,
    /// Who speaks.
    pub role: String,
    /// What it was in the program that made it.
    pub lion_class: i64,
    /// Whether a summary may stand for it.
    pub compactable: bool,
}

impl MessageRow {
    /// A message that says this, and of which nothing else is known.
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

    /// Returns true if this is a repetition of a stored message.
    pub fn repeats(&self, stored: &Self) -> bool {
        let content = match (&self.content, &stored.content) {
            // A blob is named by what it holds, whichever home keeps it.
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
    /// The id was free, and the message was added.
    Added,
    /// The same message is there already; nothing was changed.
    Same,
    /// Another message has this id; nothing was changed.
    Taken,
}

/// Adds a message unless its id is taken. A row that is there is never changed.
///
/// Two messages are the same if they say the same about the same: all columns but `created_at`, which the stored row
/// keeps. A message without an embedding is the same as the stored one with it.
pub fn put(tx: &mut Tx<'_>, row: &MessageRow) -> Result<Put> {
    if tx.execute(&*PUT, &values_of(row))? == 1 {
        if let Some(embedding) = &row.embedding {
            message_embeddings::add(tx, &[(&row.id, embedding)])?;
        }
        return Ok(Put::Added);
    }
    let there = find(tx, &row.id)?;
    Ok(if there.is_some_and(|there| row.repeats(&there)) { Put::Same } else { Put::Taken })
}

/// The rows of one statement that adds many: fewer statements, and on a server fewer answers to wait for.
const ROWS: usize = 16;

static ADD_ONE: LazyLock<String> = LazyLock::new(|| add_sql(columns!(), COLUMNS, 1));
static ADD_MANY: LazyLock<String> = LazyLock::new(|| add_sql(columns!(), COLUMNS, ROWS));
static PUT: LazyLock<String> = LazyLock::new(|| format!("{} ON CONFLICT (id) DO NOTHING", *ADD_ONE));
/// For messages of which nothing is known but what they say, as most are: a third of the values.
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

/// Adds messages. An id that is taken is a unique-constraint error.
pub fn add(tx: &mut Tx<'_>, rows: &[MessageRow]) -> Result<()> {
    let (many, rest) = rows.as_chunks::<ROWS>();
    for some in many {
        let plain: Option<Vec<_>> = some.iter().map(plain_values_of).collect();
        if let Some(plain) = plain {
            tx.execute(&*ADD_PLAIN, plain.as_flattened())?;
        } else {
            let values: Vec<Value<'_>> = some.iter().flat_map(values_of).collect();
            tx.execute(&*ADD_MANY, &values)?;
        }
    }
    rest.iter().try_for_each(|row| tx.execute(&*ADD_ONE, &values_of(row)).map(drop))?;
    let embedded: Vec<(&MessageId, &[u8])> =
        rows.iter().filter_map(|row| Some((&row.id, row.embedding.as_deref()?))).collect();
    message_embeddings::add(tx, &embedded)
}

/// The values of one of which nothing is known but what it says; nothing for any other.
fn plain_values_of(row: &MessageRow) -> Option<[Value<'_>; PLAIN_COLUMNS]> {
    let Content::Text(text) = &row.content else { return None };
    let about = [&row.node_metadata, &row.sender, &row.recipient, &row.channel];
    let is_plain = about.iter().all(|about| about.is_none()) && row.lion_class == super::message_types::UNKNOWN;
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

/// The message with this id.
pub fn find(tx: &mut Tx<'_>, id: &MessageId) -> Result<Option<MessageRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        ", (SELECT e.embedding FROM message_embeddings e WHERE e.message_id = messages.id) FROM messages WHERE id = ?1"
    );
    tx.find(sql, params![id], MessageRow::read)
}

/// The messages of one statement: as many as are asked for together, so that a server is not asked for each by itself.
const TOGETHER: usize = 64;

/// Removes those of these messages that nothing names any more; says how many.
///
/// A session's own progression, `pool`, keeps no message by itself: where it alone names one, that leaves it too.
pub fn remove_unnamed(tx: &mut Tx<'_>, ids: &[MessageId], pool: Option<&ProgressionId>) -> Result<usize> {
    let places: Vec<String> = (2..TOGETHER + 2).map(|place| format!("?{place}")).collect();
    let places = places.join(", ");
    let elsewhere = "NOT EXISTS (SELECT 1 FROM branches b WHERE b.system_msg_id = {id}) \
                     AND NOT EXISTS (SELECT 1 FROM compactions c WHERE c.summary_msg_id = {id}) \
                     AND NOT EXISTS (SELECT 1 FROM progression_items o WHERE o.message_id = {id} \
                     AND o.progression_id <> ?1)";
    let from_pool = format!(
        "DELETE FROM progression_items WHERE progression_id = ?1 AND message_id IN ({places}) AND {}",
        elsewhere.replace("{id}", "progression_items.message_id")
    );
    // What is still in the pool is named elsewhere too, or there is none.
    let messages =
        format!("DELETE FROM messages WHERE id IN ({places}) AND {}", elsewhere.replace("{id}", "messages.id"));
    let mut removed = 0;
    for some in ids.chunks(TOGETHER) {
        let Some(last) = some.last() else { break };
        // No progression's id is empty. One statement for any number: what is missing to it is said twice.
        let pool = pool.map_or("", ProgressionId::as_str);
        let named = (0..TOGETHER).map(|at| Value::from(some.get(at).unwrap_or(last)));
        let values: Vec<Value<'_>> = std::iter::once(pool.into()).chain(named).collect();
        tx.execute(&from_pool, &values)?;
        removed += tx.execute(&messages, &values)?;
    }
    Ok(removed)
}

/// Those of these messages that are there.
pub fn existing(tx: &mut Tx<'_>, ids: &[MessageId]) -> Result<BTreeSet<MessageId>> {
    let places: Vec<String> = (1..=TOGETHER).map(|place| format!("?{place}")).collect();
    let sql = format!("SELECT id FROM messages WHERE id IN ({})", places.join(", "));
    let mut found = BTreeSet::new();
    for some in ids.chunks(TOGETHER) {
        let Some(last) = some.last() else { break };
        let named: Vec<Value<'_>> = (0..TOGETHER).map(|at| Value::from(some.get(at).unwrap_or(last))).collect();
        found.extend(tx.all(&sql, &named, |row| row.get(0))?);
    }
    Ok(found)
}

/// The blobs that hold the content of messages of this home, in their order, after this one.
pub fn blobs(tx: &mut Tx<'_>, home: &HomeId, after: &str, limit: u32) -> Result<Vec<String>> {
    let sql = "SELECT DISTINCT content_blob FROM messages WHERE content_blob > ?1 AND home_id = ?2 \
               ORDER BY content_blob LIMIT ?3";
    tx.all(sql, params![after, home, limit], |row| row.get(0))
}

/// How many messages of this home have their content in this blob.
pub fn naming_blob(tx: &mut Tx<'_>, home: &HomeId, blob: &str) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM messages WHERE content_blob = ?1 AND home_id = ?2";
    Ok(tx.find(sql, params![blob, home], |row| row.get(0))?.unwrap_or(0))
}
