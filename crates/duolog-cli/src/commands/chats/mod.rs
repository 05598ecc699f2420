//! `duolog chats`, and the shapes and arguments that its commands share.

mod add;
mod history;
mod list;
mod reset;
mod show;

use clap::{Args, Subcommand};
use duolog::chats::{Chat, ChatKey};
use serde::Serialize;

use super::Context;
use crate::failure::Outcome;

/// What to do with chats.
#[derive(Subcommand)]
pub enum Chats {
    List(list::List),
    Show(show::Show),
    History(history::History),
    Add(add::Add),
    Reset(reset::Reset),
}

impl Chats {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        match self {
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::History(command) => command.run(context),
            Self::Add(command) => command.run(context),
            Self::Reset(command) => command.run(context),
        }
    }
}

/// Where a chat takes place, and with whom.
#[derive(Args)]
struct At {
    /// The platform, such as slack
    #[arg(long, value_name = "NAME")]
    platform: String,
    /// The channel there
    #[arg(long, value_name = "ID")]
    channel: String,
    /// The thread in it, where there is one
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// The person
    #[arg(long, value_name = "ID")]
    user: String,
}

impl From<At> for ChatKey {
    fn from(at: At) -> Self {
        Self { platform: at.platform, channel: at.channel, thread: at.thread, user: at.user }
    }
}

/// A chat, as programs get it.
#[derive(Serialize)]
struct Shape<'a> {
    id: &'a str,
    platform: &'a str,
    channel_id: &'a str,
    thread_id: Option<&'a str>,
    user_id: &'a str,
    agent_session_id: Option<&'a str>,
    created_at: String,
    last_activity_at: String,
    message_count: u64,
    active: bool,
}

impl<'a> From<&'a Chat> for Shape<'a> {
    fn from(chat: &'a Chat) -> Self {
        Self {
            id: chat.id.as_str(),
            platform: &chat.key.platform,
            channel_id: &chat.key.channel,
            thread_id: chat.key.thread.as_deref(),
            user_id: &chat.key.user,
            agent_session_id: chat.agent_session_id.as_ref().map(duolog::SessionId::as_str),
            created_at: chat.created_at.to_string(),
            last_activity_at: chat.last_activity_at.to_string(),
            message_count: chat.message_count,
            active: chat.active,
        }
    }
}
