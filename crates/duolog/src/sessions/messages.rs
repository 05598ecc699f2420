//! Messages: stored and read by id, and added to branches by id.

use duolog_state::Tx;
use duolog_state::owned::message_types;
use duolog_state::owned::messages::{self as table, MessageRow, Put};
use duolog_types::limits::{EMBEDDING_BYTES_MAX, METADATA_BYTES_MAX, NAME_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::{Durability, MessageId, Timestamp};

use super::contents::Contents;
use super::rules::bounded;
use crate::error::{Conflict, Damaged, Error, Invalid, NotFound, Result};
use crate::store::Store;

/// The handle for messages.
#[derive(Clone)]
pub struct Messages {
    pub(crate) store: Store,
}

/// A new message.
#[derive(Clone, Debug, Default)]
pub struct NewMessage {
    /// The id [default: a new one].
    pub id: Option<MessageId>,
    /// The role of the speaker. It must not be blank.
    pub role: String,
    /// The content, as JSON.
    pub content: String,
    /// The class of the message in the program that created it.
    pub lion_class: Option<String>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
    /// The embedding.
    pub embedding: Option<Vec<f32>>,
    /// The sender.
    pub sender: Option<String>,
    /// The recipient.
    pub recipient: Option<String>,
    /// The channel.
    pub channel: Option<String>,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The id.
    pub id: MessageId,
    /// The time at which it was created.
    pub created_at: Timestamp,
    /// The role of the speaker.
    pub role: String,
    /// The content, as JSON.
    pub content: String,
    /// The class of the message in the program that created it.
    pub lion_class: Option<String>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
    /// The embedding.
    pub embedding: Option<Vec<f32>>,
    /// The sender.
    pub sender: Option<String>,
    /// The recipient.
    pub recipient: Option<String>,
    /// The channel.
    pub channel: Option<String>,
}

impl Messages {
    /// Stores a message. Does nothing if the same message exists under its id.
    ///
    /// # Errors
    ///
    /// Returns an error if another message has this id: a stored message is never changed.
    pub fn put(&self, new: &NewMessage, durability: Durability) -> Result<MessageId> {
        let join = &self.store.join;
        let contents = Contents::of(join);
        let mut row = row_of(new, &contents, join.clock().now())?;
        let (id, class) = (row.id.clone(), new.lion_class.clone());
        self.store.transact(durability, move |tx| {
            row.lion_class = message_types::resolve(tx, class.as_deref())?;
            put(tx, &row)?;
            Ok(((), Vec::new()))
        })?;
        Ok(id)
    }

    /// Returns the message with this id.
    pub fn get(&self, id: &MessageId) -> Result<Message> {
        let join = &self.store.join;
        let contents = Contents::of(join);
        join.state().read(|tx| message_in(tx, id, &contents))
    }
}

/// Returns the message with this id.
pub(super) fn message_in(tx: &mut Tx<'_>, id: &MessageId, contents: &Contents) -> Result<Message> {
    let row = table::find(tx, id)?.ok_or_else(|| Error::NotFound(NotFound::Message(id.clone())))?;
    let class = message_types::class_of(tx, row.lion_class)?;
    let content = contents.text(Ok(row.content));
    Ok(Message {
        content: content.map_err(|detail| Error::Damaged(Damaged::Item { message: id.clone(), detail }))?,
        lion_class: class.filter(|_| row.lion_class != message_types::UNKNOWN),
        id: row.id,
        created_at: row.created_at,
        role: row.role,
        node_metadata: row.node_metadata,
        embedding: row.embedding.map(|bytes| unpacked(&bytes)),
        sender: row.sender,
        recipient: row.recipient,
        channel: row.channel,
    })
}

/// Inserts a message. Returns false if the same message exists.
///
/// # Errors
///
/// Returns an error if another message has its id.
pub(super) fn put(tx: &mut Tx<'_>, row: &MessageRow) -> Result<bool> {
    match table::put(tx, row)? {
        Put::Added => Ok(true),
        Put::Same => Ok(false),
        Put::Taken => Err(Error::Conflict(Conflict::MessageTaken(row.id.clone()))),
    }
}

/// Checks a new message and returns its row, without its class.
pub(super) fn row_of(new: &NewMessage, contents: &Contents, now: Timestamp) -> Result<MessageRow> {
    if new.role.trim().is_empty() {
        return Err(Error::Invalid(Invalid::Value { what: "role", why: "must not be blank".to_owned() }));
    }
    bounded::<WORD_BYTES_MAX>("role", &new.role)?;
    for (what, text) in [("sender", &new.sender), ("recipient", &new.recipient), ("channel", &new.channel)] {
        if let Some(text) = text {
            bounded::<NAME_BYTES_MAX>(what, text)?;
            if text.is_empty() {
                return Err(Error::Invalid(Invalid::Value { what, why: "must not be empty; leave it out".to_owned() }));
            }
        }
    }
    if let Some(metadata) = &new.node_metadata {
        bounded::<METADATA_BYTES_MAX>("node_metadata", metadata)?;
    }
    if let Some(class) = &new.lion_class {
        bounded::<NAME_BYTES_MAX>("lion_class", class)?;
    }
    let embedding = new.embedding.as_deref().map(packed).transpose()?;
    let (content, compactable) = contents.keep_item(&new.content)?;
    Ok(MessageRow {
        node_metadata: new.node_metadata.clone(),
        embedding,
        sender: new.sender.clone(),
        recipient: new.recipient.clone(),
        channel: new.channel.clone(),
        compactable: compactable && new.role != "user",
        ..MessageRow::new(new.id.clone().unwrap_or_else(MessageId::new), &new.role, content, now)
    })
}

/// Packs an embedding as little-endian 32-bit floats.
pub(super) fn packed(numbers: &[f32]) -> Result<Vec<u8>> {
    let bad = |why: String| Error::Invalid(Invalid::Value { what: "embedding", why });
    if numbers.is_empty() || numbers.len() * 4 > EMBEDDING_BYTES_MAX {
        return Err(bad(format!("has {} numbers; expected 1 to {}", numbers.len(), EMBEDDING_BYTES_MAX / 4)));
    }
    if let Some(at) = numbers.iter().position(|number| !number.is_finite()) {
        return Err(bad(format!("is {} at {at}; every number must be finite", numbers[at])));
    }
    Ok(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
}

pub(super) fn unpacked(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}
