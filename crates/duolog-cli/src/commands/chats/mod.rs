//! `duolog chats`, and the shapes and arguments that its commands share.

mod add;
mod history;
mod list;
mod reset;
mod show;

use clap::{Args, Subcommand};
use duolog::chats::ChatKey;

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
