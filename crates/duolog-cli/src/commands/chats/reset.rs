//! `duolog chats reset`.

use clap::Args;
use duolog_wire as wire;

use super::{At, Context};
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog chats reset --platform slack --channel C1 --user U1
  duolog chats reset --platform slack --channel C1 --thread 17.5 --user U1 --json

Exit code: 0 ended · 1 there is no active chat

JSON:
  {\"ended_chat_id\": id|null}";

/// End the active chat of a user in a channel
///
/// The next message there starts a new chat.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Reset {
    #[command(flatten)]
    at: At,
}

impl Reset {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let ended = store.chats().reset(&self.at.into(), durability)?;
        let answer = wire::ChatEnded { ended_chat_id: ended.as_ref().map(|chat| chat.id.to_string()) };
        context.out.confirm(&answer, |text| {
            text.line(match &ended {
                Some(chat) => format!("chat {} has ended", chat.id),
                None => "there is no active chat".to_owned(),
            });
        })?;
        context.close(store);
        Ok(if ended.is_some() { Ended::Done } else { Ended::No })
    }
}
