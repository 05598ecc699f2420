//! `duolog chats`, and the arguments that its commands share.

mod add;
mod history;
mod list;
mod reset;
mod show;

use clap::Args;
use duolog::chats::ChatKey;

use super::Context;

commands! {
/// Subcommands of `duolog chats`.
Chats {
    List(list::List),
    Show(show::Show),
    History(history::History),
    Add(add::Add),
    Reset(reset::Reset),
}}

/// The key of a chat: platform, channel, thread and user.
#[derive(Args)]
struct At {
    /// Platform, such as slack
    #[arg(long, value_name = "NAME")]
    platform: String,
    /// Channel id
    #[arg(long, value_name = "ID")]
    channel: String,
    /// Thread id in the channel [default: none]
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// User id
    #[arg(long, value_name = "ID")]
    user: String,
}

impl From<At> for ChatKey {
    fn from(at: At) -> Self {
        Self { platform: at.platform, channel: at.channel, thread: at.thread, user: at.user }
    }
}
