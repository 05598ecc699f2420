//! `messaging_messages`: the messages of chats, ordered by their ids and not by a clock.

use duolog_types::{ChatId, ChatRole, Timestamp};

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

/// A message to insert.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChatMessageRow {
    /// The chat.
    pub session_id: ChatId,
    /// The role of the sender.
    pub role: ChatRole,
    /// The text.
    pub content: String,
    /// When it was sent.
    pub timestamp: Timestamp,
    /// The platform's message id.
    pub platform_message_id: Option<String>,
}

/// A message of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Its id, which is also the order within a chat.
    pub id: i64,
    /// The role of the sender.
    pub role: ChatRole,
    /// The text.
    pub content: String,
    /// When it was sent.
    pub timestamp: Timestamp,
    /// The platform's message id.
    pub platform_message_id: Option<String>,
}

row!(ChatMessage: id, role, content, timestamp, platform_message_id);

/// Inserts a message, after its chat counted it, and returns its id. A platform message id that the chat has already is
/// a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &NewChatMessageRow) -> Result<i64> {
    let sql = "INSERT INTO messaging_messages (session_id, role, content, timestamp, platform_message_id) \
               VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
    let values = params![&row.session_id, row.role, &row.content, row.timestamp, row.platform_message_id.as_ref()];
    let id = tx.find(sql, values, |row| row.get(0))?;
    id.ok_or_else(|| crate::Error::Damaged {
        what: "messaging_messages".to_owned(),
        detail: "an inserted message has no id".to_owned(),
    })
}

/// Returns the message of a chat with this platform message id.
pub fn find_delivered(tx: &mut Tx<'_>, chat: &ChatId, platform_message_id: &str) -> Result<Option<i64>> {
    let sql = "SELECT id FROM messaging_messages WHERE session_id = ?1 AND platform_message_id = ?2";
    tx.find(sql, params![chat, platform_message_id], |row| row.get(0))
}

/// Returns the messages of a chat before this one, newest first.
pub fn newest(tx: &mut Tx<'_>, chat: &ChatId, before: Option<i64>, limit: u32) -> Result<Vec<ChatMessage>> {
    let sql = "SELECT id, role, content, timestamp, platform_message_id FROM messaging_messages \
               WHERE session_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
    tx.all(sql, params![chat, before.unwrap_or(i64::MAX), limit], ChatMessage::read)
}
