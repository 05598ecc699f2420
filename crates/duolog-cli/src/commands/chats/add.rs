//! `duolog chats add`.

use std::io::{self, Read as _, stdin};
use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use duolog::chats::{ChatKey, NewChatMessage};
use duolog::{ChatRole, limits};
use duolog_wire as wire;

use super::Context;
use crate::commands::sessions::of_agent;
use crate::failure::{CommandResult, Ended, Failure};

const AFTER: &str = "\
Examples:
  duolog chats add --platform slack --channel C1 --user U1 \"what failed last night?\"
  duolog chats add --platform slack --channel C1 --thread 17.5 --user U1 --platform-message-id 17.9 < said.txt
  duolog chats add --chat 019363f0-0000-7000-8000-000000000000 --role assistant --agent-session demo-1 \"two tests\"

JSON:
  {\"chat_id\", \"message_id\", \"existed\": true|false, \"chat_created\": true|false}
  existed is true if the platform message id was stored before in any chat of this platform,
  channel, thread and user; then nothing changes, and chat_id and message_id are those of the stored
  message. chat_created is true if the message starts a chat";

/// Add a message to a chat
///
/// With --platform, --channel, --thread and --user the message goes to the active chat there. If that chat was idle for
/// longer than chats.idle in the configuration, it ends and a new one starts. With --chat it goes to that chat.
///
/// Without TEXT the message is read from stdin.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Add {
    /// Platform, such as slack
    #[arg(long, value_name = "NAME", required_unless_present = "chat", requires_all = ["channel", "user"])]
    platform: Option<String>,
    /// Channel id
    #[arg(long, value_name = "ID", requires = "platform")]
    channel: Option<String>,
    /// Thread id in the channel [default: none]
    #[arg(long, value_name = "ID", requires = "platform")]
    thread: Option<String>,
    /// User id
    #[arg(long, value_name = "ID", requires = "platform")]
    user: Option<String>,
    /// Chat id or a unique prefix
    #[arg(long, value_name = "CHAT", conflicts_with = "platform")]
    chat: Option<String>,
    /// Role of the author
    #[arg(long, value_parser = role(), default_value = "user")]
    role: ChatRole,
    /// Message id of the platform; a message that is delivered twice is stored once
    #[arg(long, value_name = "ID")]
    platform_message_id: Option<String>,
    /// Session of the agent in this chat: an id, a thread name or a unique prefix of an id
    ///
    /// The id of a session of another program, such as Claude Code, is stored as given: the session need not exist here.
    #[arg(long, value_name = "SESSION")]
    agent_session: Option<String>,
    /// Text of the message
    #[arg(value_name = "TEXT")]
    text: Option<String>,
}

/// Returns a parser for roles; help and completions list the values.
fn role() -> impl clap::builder::TypedValueParser<Value = ChatRole> {
    PossibleValuesParser::new(ChatRole::ALL.iter().map(|role| role.as_str())).try_map(|word| word.parse::<ChatRole>())
}

impl Add {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let durability = context.config()?.durability();
        let text = if let Some(text) = self.text {
            text
        } else {
            context.out.invite("reading the message from stdin; Ctrl-D ends it");
            let text = read_stdin()?;
            context.has_read(&text);
            text
        };
        let store = context.open_to_write()?;
        let message = NewChatMessage {
            role: self.role,
            content: text,
            platform_message_id: self.platform_message_id,
            agent_session_id: self.agent_session.map(|text| of_agent(context, &store, &text)).transpose()?,
        };
        let chats = store.chats();
        let added = match (self.chat, self.platform, self.channel, self.user) {
            (Some(chat), _, _, _) => chats.add_to(&chats.resolve(&chat)?.id, &message, durability)?,
            (None, Some(platform), Some(channel), Some(user)) => {
                let key = ChatKey { platform, channel, thread: self.thread, user };
                chats.add(&key, &message, durability)?
            }
            _ => {
                return Err(Failure::Given {
                    message: "cannot add the message: no chat is given".to_owned(),
                    hint: Some("give --platform, --channel and --user, or --chat".to_owned()),
                });
            }
        };
        let shape = wire::ChatMessageAdded {
            chat_id: added.chat.to_string(),
            message_id: added.id.to_string(),
            existed: !added.added,
            chat_created: added.created,
        };
        context.out.confirm(&shape, |text| {
            let (id, chat) = (added.id, &added.chat);
            text.line(match (added.added, added.created) {
                (false, _) => format!("message {id} is already in chat {chat}"),
                (true, true) => format!("message {id} added to new chat {chat}"),
                (true, false) => format!("message {id} added to chat {chat}"),
            });
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

/// Reads all of stdin. Bytes beyond the limit of a message are counted and dropped.
fn read_stdin() -> Result<String, Failure> {
    let (mut stdin, mut input, max) = (stdin().lock(), Vec::new(), limits::CHAT_CONTENT_BYTES_MAX as u64);
    let failed = || Failure::file("read", Path::new("stdin"));
    stdin.by_ref().take(max + 1).read_to_end(&mut input).map_err(failed())?;
    let more = io::copy(&mut stdin, &mut io::sink()).map_err(failed())?;
    // The final line break is not part of the message.
    if input.last() == Some(&b'\n') && more == 0 {
        input.pop();
    }
    let bytes = input.len() as u64 + more;
    if bytes > max {
        let message = format!("cannot add the message: its content is {bytes} bytes, and the limit is {max}");
        return Err(Failure::Given { message, hint: None });
    }
    String::from_utf8(input).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("cannot add the message: its content is not UTF-8 from byte {at} on");
        Failure::Given { message, hint: None }
    })
}
