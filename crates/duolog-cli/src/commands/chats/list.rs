//! `duolog chats list`.

use clap::Args;
use duolog::chats::{Chat, ChatFilter, ChatList};
use duolog::{Clock as _, PageOrder, SystemClock, Timestamp};
use duolog_wire as wire;

use super::Context;
use crate::args;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table, Tone};

const AFTER: &str = "\
Examples:
  duolog chats list --active
  duolog chats list --platform slack --limit 50
  duolog chats list --order created --limit 200
  duolog chats list --json | jq -r '.chats[].id'

JSON:
  {\"chats\": [{\"id\", \"platform\", \"channel_id\", \"thread_id\", \"user_id\", \"agent_session_id\", \"created_at\",
              \"last_activity_at\", \"message_count\", \"active\": true|false}], \"next\": token|null}";

/// List chats
///
/// The order is last active first. In this order a chat that becomes active between two pages may be missed or listed
/// twice. With --order created the pages list every chat exactly once.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct List {
    #[command(flatten)]
    page: args::Paging,
    /// Sort order: last active first, or last created first [default: activity]
    #[arg(long, value_parser = args::page_order("activity"))]
    order: Option<PageOrder>,
    /// Filter by platform
    #[arg(long, value_name = "NAME")]
    platform: Option<String>,
    /// List only active chats
    #[arg(long)]
    active: bool,
}

impl List {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let is_filtered = self.platform.is_some() || self.active || self.page.after.is_some();
        let filter = ChatFilter { platform: self.platform, active: self.active, order: self.order };
        let list = match context.open_if_there()? {
            Some(store) => store.chats().list(&filter, self.page.after.as_ref(), self.page.limit)?,
            None => ChatList { chats: Vec::new(), next: None },
        };
        let page: wire::Page<wire::Chat> = wire::Page::of(&list.chats, list.next);
        let nothing = if is_filtered { "no chat matches" } else { "there are no chats yet" };
        context.out.page(&page, nothing, || table(&list.chats, SystemClock.now()))?;
        Ok(Ended::Done)
    }
}

fn table(chats: &[Chat], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        (Column::Id, "ID"),
        (Column::Word, "PLATFORM"),
        (Column::Word, "CHANNEL_ID"),
        (Column::Word, "THREAD_ID"),
        (Column::Text, "USER_ID"),
        (Column::Word, "ACTIVE"),
        (Column::Figure, "MESSAGE_COUNT"),
        (Column::Word, "LAST_ACTIVITY_AT"),
    ])
    .dropping(&["MESSAGE_COUNT", "ACTIVE", "LAST_ACTIVITY_AT", "USER_ID"]);
    for chat in chats {
        table.row(vec![
            chat.id.to_string(),
            chat.key.platform.clone(),
            chat.key.channel.clone(),
            chat.key.thread.clone().unwrap_or_default(),
            chat.key.user.clone(),
            if chat.active { "yes" } else { "no" }.to_owned(),
            figures::count(chat.message_count),
            figures::age(chat.last_activity_at, now),
        ]);
        table.tone(5, if chat.active { Tone::Good } else { Tone::Faint });
    }
    table.without_empty("THREAD_ID")
}
