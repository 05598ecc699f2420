//! `duolog chats`, and the shapes and arguments that its commands share.

mod add;
mod history;
mod list;
mod reset;
mod show;

use clap::Args;
use duolog::chats::ChatKey;

use super::Context;

commands! {
/// What to do with chats.
Chats {
    List(list::List),
    Show(show::Show),
    History(history::History),
    Add(add::Add),
    Reset(reset::Reset),
}}

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
