//! The types that callers pass and get.

use duolog_state::owned::messaging_messages::ChatMessage;
use duolog_state::owned::messaging_sessions::{ChatPlace, ChatRow};
use duolog_state::{PageOrder, PageToken};
use duolog_types::{ChatId, ChatRole, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::sessions::{Session, SessionFigures};

/// A conversation: it has at most one active chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatKey {
    /// The platform, such as `slack`.
    pub platform: String,
    /// The channel on the platform.
    pub channel: String,
    /// The thread in the channel; `None` outside of threads.
    pub thread: Option<String>,
    /// The user.
    pub user: String,
}

/// A chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// The id.
    pub id: ChatId,
    /// The conversation.
    pub key: ChatKey,
    /// The agent session that answers, whose log belongs to the chat.
    pub agent_session_id: Option<SessionId>,
    /// The time at which it was created.
    pub created_at: Timestamp,
    /// The time of the last message or activity.
    pub last_activity_at: Timestamp,
    /// The number of messages.
    pub message_count: u64,
    /// True if it is the active chat of its conversation.
    pub active: bool,
}

/// The active chat of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The chat.
    pub chat: Chat,
    /// True if it was created by this call.
    pub created: bool,
    /// The chat that this call ended because it was silent for too long.
    pub ended: Option<ChatId>,
}

/// A new message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChatMessage {
    /// The role of the speaker.
    pub role: ChatRole,
    /// The text.
    pub content: String,
    /// The platform's id of the message. A message that is delivered again is stored once.
    pub platform_message_id: Option<String>,
    /// The agent session that answers from this message on; `None` changes nothing.
    pub agent_session_id: Option<SessionId>,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedMessage {
    /// The chat of the message.
    pub chat: ChatId,
    /// The id of the message. Ids give the order within a chat.
    pub id: i64,
    /// False if the platform delivered the message before.
    pub added: bool,
    /// True if the chat was created for this message.
    pub created: bool,
}

/// Messages of a chat, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The messages.
    pub messages: Vec<ChatMessage>,
    /// The id of the first of them, if there are earlier messages.
    pub before: Option<i64>,
}

/// The agent session that answers in a chat.
#[derive(Clone, Debug, PartialEq)]
pub struct Answering {
    /// The session.
    pub session: Session,
    /// The statistics of its log.
    pub figures: SessionFigures,
}

/// The filter of a list of chats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatFilter {
    /// Only chats on this platform.
    pub platform: Option<String>,
    /// Only active chats.
    pub active: bool,
    /// The order; `None` for that of the page token, or most recently active first.
    pub order: Option<PageOrder>,
}

/// A page of chats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatList {
    /// The chats.
    pub chats: Vec<Chat>,
    /// The token of the next page; `None` if this is the last page.
    pub next: Option<PageToken>,
}

impl From<&ChatKey> for ChatPlace {
    fn from(key: &ChatKey) -> Self {
        Self {
            platform: key.platform.clone(),
            channel_id: key.channel.clone(),
            thread_id: key.thread.clone().unwrap_or_default(),
            user_id: key.user.clone(),
        }
    }
}

impl From<ChatRow> for Chat {
    fn from(row: ChatRow) -> Self {
        let ChatPlace { platform, channel_id, thread_id, user_id } = row.place;
        let thread = Some(thread_id).filter(|thread| !thread.is_empty());
        Self {
            id: row.id,
            key: ChatKey { platform, channel: channel_id, thread, user: user_id },
            agent_session_id: row.agent_session_id,
            created_at: row.created_at,
            last_activity_at: row.last_activity_at,
            message_count: row.message_count,
            active: row.active,
        }
    }
}
