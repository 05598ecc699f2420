//! What callers give and get.

use duolog_state::owned::messaging_messages::ChatMessage;
use duolog_state::owned::messaging_sessions::{ChatPlace, ChatRow};
use duolog_state::{PageOrder, PageToken};
use duolog_types::{ChatId, ChatRole, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::sessions::{Session, SessionFigures};

/// Where a chat takes place, and with whom: of these one is active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatKey {
    /// The platform, such as `slack`.
    pub platform: String,
    /// The channel there.
    pub channel: String,
    /// The thread in it, where there is one.
    pub thread: Option<String>,
    /// The person.
    pub user: String,
}

/// A chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// Its id.
    pub id: ChatId,
    /// Where it takes place.
    pub key: ChatKey,
    /// The session of the agent that answers, and so its log.
    pub agent_session_id: Option<SessionId>,
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last said or done.
    pub last_activity_at: Timestamp,
    /// How many messages it has.
    pub message_count: u64,
    /// Whether it is the one that goes on at its place.
    pub active: bool,
}

/// The chat at a place, and whether it was begun for that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The chat.
    pub chat: Chat,
    /// Whether it is new.
    pub created: bool,
    /// The one that was silent for too long, and ended for it.
    pub ended: Option<ChatId>,
}

/// A message to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChatMessage {
    /// Who speaks.
    pub role: ChatRole,
    /// What is said.
    pub content: String,
    /// What the platform calls it. What it delivers again is kept once.
    pub platform_message_id: Option<String>,
    /// The session of the agent that answers in the chat from this message on; `None` changes nothing.
    pub agent_session_id: Option<SessionId>,
}

/// A message that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedMessage {
    /// The chat that has it.
    pub chat: ChatId,
    /// Its id: the order within a chat.
    pub id: i64,
    /// False where the platform delivered it before.
    pub added: bool,
    /// Whether the chat was begun with it.
    pub created: bool,
}

/// The last messages of a chat, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The messages.
    pub messages: Vec<ChatMessage>,
    /// The id of the first of them, where there are more before it.
    pub before: Option<i64>,
}

/// The session of the agent that answers in a chat, as far as it is known here.
#[derive(Clone, Debug, PartialEq)]
pub struct Answering {
    /// The session.
    pub session: Session,
    /// What is known of its log.
    pub figures: SessionFigures,
}

/// Which chats are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatFilter {
    /// Only those on this platform.
    pub platform: Option<String>,
    /// Only those that go on.
    pub active: bool,
    /// The order; `None` for that of the page token, or the last active first.
    pub order: Option<PageOrder>,
}

/// A page of chats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatList {
    /// The chats.
    pub chats: Vec<Chat>,
    /// The token of the next page, where there is one.
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
