//! Chats and their messages.

use duolog_state::owned::messaging_messages::NewChatMessageRow;
use duolog_state::owned::messaging_sessions::{ChatPlace, ChatRow};
use duolog_types::ChatId;
use duolog_types::limits::{CHAT_CONTENT_BYTES_MAX, NAME_BYTES_MAX, WORD_BYTES_MAX};

use super::model::NoteList;
use super::source::{ChatSource, MessageSource, Raw};
use super::taking::Taking;

/// Converts a chat. Its messages are counted as they are stored, because the stored count is often wrong.
pub fn chat(source: &ChatSource, overtaken: bool, notes: &mut NoteList) -> Result<ChatRow, String> {
    let mut taking = Taking::of("chat", &source.id, notes);
    let id = Taking::id("id", &source.id, ChatId::parse)?;
    let place = ChatPlace {
        platform: Taking::name("platform", &source.platform, WORD_BYTES_MAX)?,
        channel_id: Taking::name("channel_id", &source.channel_id, NAME_BYTES_MAX)?,
        thread_id: match &source.thread_id {
            Raw::Null => String::new(),
            other if other.text() == Some("") => String::new(),
            other => Taking::name("thread_id", other, NAME_BYTES_MAX)?,
        },
        user_id: Taking::name("user_id", &source.user_id, NAME_BYTES_MAX)?,
    };
    let created_at = Taking::beginning("created_at", &source.created_at)?;
    let goes_on = taking.yes("active", &source.active).unwrap_or_default();
    if goes_on && overtaken {
        taking.note("is active, and so is a later chat of its conversation: imported as ended");
    }
    let last = taking.moment("last_activity_at", &source.last_activity_at);
    Ok(ChatRow {
        id,
        place,
        agent_session_id: taking.session("agent_session_id", &source.agent_session_id),
        created_at,
        last_activity_at: last.unwrap_or(created_at),
        message_count: 0,
        active: goes_on && !overtaken,
    })
}

/// Converts a message of a chat.
pub fn message(source: &MessageSource, chat: &ChatRow, notes: &mut NoteList) -> Result<NewChatMessageRow, String> {
    let number = if let Raw::Int(number) = &source.id { number.to_string() } else { "without a number".to_owned() };
    let mut taking = Taking { unit: format!("message {number} of chat {}", chat.id), notes };
    let role = Taking::word("role", &source.role)?;
    let Raw::Text(_) = &source.content else { return Err(format!("its content is {}", source.content.kind())) };
    let timestamp = taking.moment("timestamp", &source.timestamp).unwrap_or(chat.created_at);
    let platform_message_id = match &source.platform_message_id {
        Raw::Null => None,
        other => Taking::name("platform_message_id", other, NAME_BYTES_MAX).map_err(|why| taking.note(why)).ok(),
    };
    Ok(NewChatMessageRow {
        session_id: chat.id.clone(),
        role,
        content: taking.text("content", &source.content, CHAT_CONTENT_BYTES_MAX).unwrap_or_default(),
        timestamp,
        platform_message_id,
    })
}
