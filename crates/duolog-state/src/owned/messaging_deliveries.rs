//! `messaging_deliveries`: the message of each platform message id, one per conversation.

use duolog_types::ChatId;

use super::messaging_sessions::ChatPlace;
use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Records the message of a platform message id in a conversation. Returns false if the id has a message already, in
/// any chat of the conversation.
pub fn claim(tx: &mut Tx<'_>, place: &ChatPlace, platform_message_id: &str, message_id: i64) -> Result<bool> {
    let sql = "INSERT INTO messaging_deliveries \
               (platform, channel_id, thread_id, user_id, platform_message_id, message_id) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
               ON CONFLICT (platform, channel_id, thread_id, user_id, platform_message_id) DO NOTHING";
    let ChatPlace { platform, channel_id, thread_id, user_id } = place;
    let values = params![platform, channel_id, thread_id, user_id, platform_message_id, message_id];
    Ok(tx.execute(sql, values)? == 1)
}

/// Returns the chat and the id of the message with this platform message id. `None` if there is none.
pub fn find(tx: &mut Tx<'_>, place: &ChatPlace, platform_message_id: &str) -> Result<Option<(ChatId, i64)>> {
    let sql = "SELECT m.session_id, m.id FROM messaging_deliveries d JOIN messaging_messages m ON m.id = d.message_id \
               WHERE d.platform = ?1 AND d.channel_id = ?2 AND d.thread_id = ?3 AND d.user_id = ?4 \
               AND d.platform_message_id = ?5";
    let ChatPlace { platform, channel_id, thread_id, user_id } = place;
    let values = params![platform, channel_id, thread_id, user_id, platform_message_id];
    tx.find(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))
}
