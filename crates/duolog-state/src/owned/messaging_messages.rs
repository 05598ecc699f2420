//! `messaging_messages`: what was said in chats. Their ids are their order; a clock is not.

use duolog_types::{ChatId, ChatRole, Timestamp};

use crate::engine::{Tx, row};
use crate::error::Result;
use crate::params;

/// A message that is not kept yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChatMessageRow {
    /// The chat.
    pub session_id: ChatId,
    /// Who speaks.
    pub role: ChatRole,
    /// What is said.
    pub content: String,
    /// When.
    pub timestamp: Timestamp,
    /// What the platform calls it.
    pub platform_message_id: Option<String>,
}

/// A message of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Its id: the order within a chat.
    pub id: i64,
    /// Who speaks.
    pub role: ChatRole,
    /// What is said.
    pub content: String,
    /// When.
    pub timestamp: Timestamp,
    /// What the platform calls it.
    pub platform_message_id: Option<String>,
}

row!(ChatMessage: id, role, content, timestamp, platform_message_id);

/// Adds a message, after its chat counted it, and gives its id. What the platform called so before is a
/// unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &NewChatMessageRow) -> Result<i64> {
    let sql = "INSERT INTO messaging_messages (session_id, role, content, timestamp, platform_message_id) \
               VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
    let values = params![&row.session_id, row.role, &row.content, row.timestamp, row.platform_message_id.as_ref()];
    let id = tx.find(sql, values, |row| row.get(0))?;
    id.ok_or_else(|| crate::Error::Damaged {
        what: "messaging_messages".to_owned(),
        detail: "a message was added and has no id".to_owned(),
    })
}

/// The message of a chat that the platform calls so.
pub fn find_delivered(tx: &mut Tx<'_>, chat: &ChatId, platform_message_id: &str) -> Result<Option<i64>> {
    let sql = "SELECT id FROM messaging_messages WHERE session_id = ?1 AND platform_message_id = ?2";
    tx.find(sql, params![chat, platform_message_id], |row| row.get(0))
}

/// The last messages of a chat before this one, the last first.
pub fn newest(tx: &mut Tx<'_>, chat: &ChatId, before: Option<i64>, limit: u32) -> Result<Vec<ChatMessage>> {
    let sql = "SELECT id, role, content, timestamp, platform_message_id FROM messaging_messages \
               WHERE session_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
    tx.all(sql, params![chat, before.unwrap_or(i64::MAX), limit], ChatMessage::read)
}
