//! Chats on messaging platforms.

use duolog::{ChatRole, SessionId, SessionStatus, chats};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Completeness;
use crate::page::Listed;
use crate::schema::{words, words_or_null};

/// A chat.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Chat {
    /// Chat id.
    pub id: String,
    /// The platform.
    pub platform: String,
    /// The channel on the platform.
    pub channel_id: String,
    /// The thread in the channel.
    pub thread_id: Option<String>,
    /// The user on the platform.
    pub user_id: String,
    /// The agent's session.
    pub agent_session_id: Option<String>,
    /// Start time.
    pub created_at: String,
    /// Time of the last message.
    pub last_activity_at: String,
    /// Messages.
    pub message_count: u64,
    /// False if the chat has ended.
    pub active: bool,
}

impl Listed for Chat {
    const PLURAL: &'static str = "chats";
}

impl From<&chats::Chat> for Chat {
    fn from(chat: &chats::Chat) -> Self {
        Self {
            id: chat.id.to_string(),
            platform: chat.key.platform.clone(),
            channel_id: chat.key.channel.clone(),
            thread_id: chat.key.thread.clone(),
            user_id: chat.key.user.clone(),
            agent_session_id: chat.agent_session_id.as_ref().map(SessionId::to_string),
            created_at: chat.created_at.to_string(),
            last_activity_at: chat.last_activity_at.to_string(),
            message_count: chat.message_count,
            active: chat.active,
        }
    }
}

/// A chat and the session of its agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatDetail {
    /// The chat.
    pub chat: Chat,
    /// The session; null if the chat has none or it is not in this store.
    pub session: Option<ChatSession>,
}

/// The agent's session of a chat.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatSession {
    /// Session id.
    pub id: String,
    /// Name.
    pub name: Option<String>,
    /// Status; null if none was set.
    #[schemars(extend("enum" = words_or_null(SessionStatus::ALL, SessionStatus::as_str)))]
    pub status: Option<&'static str>,
    /// Path of the log, relative to the state directory.
    pub log_path: String,
    /// The home that owns the log.
    pub home_id: String,
    /// Events in its log; null if it was never folded.
    pub events: Option<u64>,
    /// Size of its log; null if it was never folded.
    pub bytes: Option<u64>,
    /// Last timestamp in the log.
    pub last_event_at: Option<String>,
    /// Title from the log.
    pub title: Option<String>,
    /// Completeness of the counts.
    #[serde(flatten)]
    pub completeness: Completeness,
}

impl From<&chats::Answering> for ChatSession {
    fn from(answering: &chats::Answering) -> Self {
        let chats::Answering { session, figures } = answering;
        Self {
            id: session.id.to_string(),
            name: session.name.clone(),
            status: session.status.map(SessionStatus::as_str),
            log_path: session.log_path.clone(),
            home_id: session.home_id.to_string(),
            events: figures.events,
            bytes: figures.bytes,
            last_event_at: figures.last_at.map(|at| at.to_string()),
            title: figures.title.clone(),
            completeness: (&figures.behind).into(),
        }
    }
}

/// A message added to a chat.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatMessageAdded {
    /// The chat.
    pub chat_id: String,
    /// The message.
    pub message_id: String,
    /// True if a message with this platform id existed; nothing changed.
    pub existed: bool,
    /// True if the message started the chat.
    pub chat_created: bool,
}

/// The last messages of a chat, oldest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatHistory {
    /// The chat.
    pub chat_id: String,
    /// The messages.
    pub messages: Vec<ChatMessage>,
    /// Token of the page with older messages.
    pub next: Option<String>,
}

/// A message of a chat.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatMessage {
    /// Message id.
    pub id: String,
    /// Role.
    #[schemars(extend("enum" = words(ChatRole::ALL, ChatRole::as_str)))]
    pub role: &'static str,
    /// The text.
    pub content: String,
    /// Time of the addition.
    pub created_at: String,
    /// Id on the platform.
    pub platform_message_id: Option<String>,
}

impl From<&chats::ChatMessage> for ChatMessage {
    fn from(message: &chats::ChatMessage) -> Self {
        Self {
            id: message.id.to_string(),
            role: message.role.as_str(),
            content: message.content.clone(),
            created_at: message.timestamp.to_string(),
            platform_message_id: message.platform_message_id.clone(),
        }
    }
}

/// The ended chat.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatEnded {
    /// The chat; null if none was active.
    pub ended_chat_id: Option<String>,
}
