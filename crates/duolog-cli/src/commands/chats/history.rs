//! `duolog chats history`.

use clap::Args;
use duolog::{ChatRole, limits};
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::out::Tone;

const AFTER: &str = "\
Examples:
  duolog chats history 01936400
  duolog chats history 01936400 --limit 50 --json | jq -r '.messages[].content'

JSON:
  {\"chat_id\", \"messages\": [{\"id\", \"role\", \"content\", \"created_at\", \"platform_message_id\"}],
   \"next\": token|null}
  next is the value for --before; null if there are no earlier messages";

/// Show the last messages of a chat
///
/// The order is oldest first.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct History {
    /// Chat id or a unique prefix
    #[arg(value_name = "CHAT")]
    chat: String,
    /// Maximum number of results [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Message id; only earlier messages are shown
    #[arg(long, value_name = "ID")]
    before: Option<i64>,
}

impl History {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let chat = store.chats().resolve(&self.chat)?;
        let history = store.chats().history(&chat.id, self.before, self.limit)?;
        let answer = wire::ChatHistory {
            chat_id: chat.id.to_string(),
            messages: history.messages.iter().map(wire::ChatMessage::from).collect(),
            next: history.before.map(|before| before.to_string()),
        };
        context.out.answer(&answer, |text| {
            for message in &history.messages {
                let tone = if message.role == ChatRole::User { Tone::Strong } else { Tone::Good };
                let role = text.tone(tone, message.role.as_str());
                text.line(format_args!("{role}  {}", message.timestamp));
                for line in message.content.lines() {
                    text.line(format_args!("  {line}"));
                }
            }
        })?;
        if history.messages.is_empty() {
            context.out.note("no messages found");
        }
        if let Some(before) = history.before {
            context.out.note(format_args!("there are earlier messages: add --before {before}"));
        }
        Ok(Ended::Done)
    }
}
