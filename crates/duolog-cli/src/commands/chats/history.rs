//! `duolog chats history`.

use clap::Args;
use duolog::chats::ChatMessage;
use duolog::{ChatRole, limits};
use serde::Serialize;

use super::Context;
use crate::failure::{Ended, Outcome};
use crate::out::Tone;

const AFTER: &str = "\
Examples:
  duolog chats history 01936400
  duolog chats history 01936400 --limit 50 --json | jq -r '.messages[].content'

JSON:
  {\"chat\": id, \"messages\": [{\"id\", \"role\", \"content\", \"timestamp\", \"platform_message_id\"}],
   \"before\": id|null}
  before is for --before, where there are messages before these";

/// Show the last messages of a chat, in their order
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct History {
    /// Its id, or the beginning of it
    #[arg(value_name = "CHAT")]
    chat: String,
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Only those before this message
    #[arg(long, value_name = "ID")]
    before: Option<i64>,
}

#[derive(Serialize)]
struct Answer<'a> {
    chat: &'a str,
    messages: Vec<Shape<'a>>,
    before: Option<i64>,
}

#[derive(Serialize)]
struct Shape<'a> {
    id: i64,
    role: &'static str,
    content: &'a str,
    timestamp: String,
    platform_message_id: Option<&'a str>,
}

impl History {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = context.open_to_read()?;
        let chat = store.chats().resolve(&self.chat)?;
        let history = store.chats().history(&chat.id, self.before, self.limit)?;
        let messages = history.messages.iter().map(shape).collect();
        context.out.answer(&Answer { chat: chat.id.as_str(), messages, before: history.before }, |text| {
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
            context.out.note("nothing was said");
        }
        if let Some(before) = history.before {
            context.out.note(format_args!("there are earlier ones: --before {before}"));
        }
        Ok(Ended::Done)
    }
}

fn shape(message: &ChatMessage) -> Shape<'_> {
    Shape {
        id: message.id,
        role: message.role.as_str(),
        content: &message.content,
        timestamp: message.timestamp.to_string(),
        platform_message_id: message.platform_message_id.as_deref(),
    }
}
