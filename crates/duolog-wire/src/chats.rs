//! Chats with people on platforms.

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
    /// The session of the agent that answers.
    pub agent_session_id: Option<String>,
    /// When it began.
    pub created_at: String,
    /// When the last message came.
    pub last_activity_at: String,
    /// Its messages.
    pub message_count: u64,
    /// False if it ended.
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

/// A chat, and the session of the agent that answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatDetail {
    /// The chat.
    pub chat: Chat,
    /// The session; null if the chat names none, or it is not here.
    pub session: Option<ChatSession>,
}

/// The session of the agent that answers in a chat.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatSession {
    /// Session id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Status; null if none was set.
    #[schemars(extend("enum" = words_or_null(SessionStatus::ALL, SessionStatus::as_str)))]
    pub status: Option<&'static str>,
    /// Its log, relative to the state directory.
    pub log_path: String,
    /// The home that owns its log.
    pub home_id: String,
    /// Events in its log; null if it was never folded.
    pub events: Option<u64>,
    /// Size of its log; null if it was never folded.
    pub bytes: Option<u64>,
    /// The last instant that its log names.
    pub last_event_at: Option<String>,
    /// Its title, as its log tells it.
    pub title: Option<String>,
    /// How far the counts tell of the log.
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

/// A message that was added to a chat.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatMessageAdded {
    /// The chat.
    pub chat_id: String,
    /// The message.
    pub message_id: String,
    /// True if the platform's message id was there already, and nothing changed.
    pub existed: bool,
    /// True if the message began the chat.
    pub chat_created: bool,
}

/// The last messages of a chat, oldest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatHistory {
    /// The chat.
    pub chat_id: String,
    /// The messages.
    pub messages: Vec<ChatMessage>,
    /// The token of the page before these.
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
    /// When it was added.
    pub created_at: String,
    /// Its id on the platform.
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

/// The chat that was ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatEnded {
    /// The chat; null if none was active.
    pub ended_chat_id: Option<String>,
}
