//! `duolog chats show`.

use clap::Args;
use duolog::chats::{Answering, Chat};
use duolog::{Clock as _, Store, SystemClock, Timestamp};
use duolog_wire as wire;

use super::super::completeness;
use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Text, Tone};

const AFTER: &str = "\
Examples:
  duolog chats show 01936400
  duolog chats show 01936400 --json | jq -r .session.log_path

JSON:
  {\"chat\": {… as chats list …}, \"session\": {\"id\", \"name\", \"status\", \"log_path\", \"home_id\",
   \"events\", \"bytes\", \"last_event_at\", \"title\", \"complete\",
   \"missing\": {… as sessions list …}}|null}
  session is the session of the agent; null if the chat has none, or the session is not in this store;
  log_path is relative to the state directory of home_id;
  complete is false if events, bytes, last_event_at and title do not cover the whole log";

/// Show a chat and the session of its agent
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Show {
    /// Chat id or a unique prefix
    #[arg(value_name = "CHAT")]
    chat: String,
}

impl Show {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let chat = store.chats().resolve(&self.chat)?;
        let answering = store.chats().answering(&chat)?;
        let session = answering.as_ref().map(wire::ChatSession::from);
        context.out.answer(&wire::ChatDetail { chat: (&chat).into(), session }, |text| {
            let now = SystemClock.now();
            draw(text, &chat, now);
            match &answering {
                Some(answering) => tell(text, &store, answering, now),
                None => {
                    if let Some(session) = &chat.agent_session_id {
                        text.field("session", format_args!("{session}  (not in this store)"));
                    }
                }
            }
        })?;
        if let Some(answering) = &answering {
            completeness::alert(context.out, &answering.figures.behind);
        }
        Ok(Ended::Done)
    }
}

/// Returns the path of a session's log.
fn log_of(store: &Store, answering: &Answering) -> String {
    let session = &answering.session;
    if session.home_id == store.home_id() {
        store.home().state.join(&session.log_path).display().to_string()
    } else {
        format!("{} in home {}", session.log_path, session.home_id)
    }
}

fn draw(text: &mut Text, chat: &Chat, now: Timestamp) {
    let status = if chat.active { (Tone::Good, "active") } else { (Tone::Faint, "ended") };
    text.field("id", text.tone(Tone::Strong, chat.id.as_str()));
    text.field("platform", &chat.key.platform);
    text.field("channel", &chat.key.channel);
    if let Some(thread) = &chat.key.thread {
        text.field("thread", thread);
    }
    text.field("user", &chat.key.user);
    text.field("status", text.tone(status.0, status.1));
    text.field("messages", figures::count(chat.message_count));
    for (label, at) in [("created", chat.created_at), ("last active", chat.last_activity_at)] {
        text.field(label, format_args!("{at}  ({})", figures::age(at, now)));
    }
}

fn tell(text: &mut Text, store: &Store, answering: &Answering, now: Timestamp) {
    let Answering { session, figures } = answering;
    let name = session.name.as_ref().map(|name| format!("  {name}")).unwrap_or_default();
    text.field("session", format_args!("{}{name}", session.id));
    text.field("log", log_of(store, answering));
    if let Some(events) = figures.events {
        text.field("events", figures::count(events));
    }
    if let Some(at) = figures.last_at {
        text.field("last event", format_args!("{at}  ({})", figures::age(at, now)));
    }
}
