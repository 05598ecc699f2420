//! `duolog sessions inbox`.

use clap::Args;
use duolog::limits;
use duolog::sessions::{self, Received};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Context, as_json, one_line};
use crate::args::OfUser;
use crate::failure::{Ended, Outcome};

const AFTER: &str = "\
Examples:
  duolog sessions inbox reviewer
  duolog sessions inbox reviewer --channel news --reader laptop --ack
  duolog sessions inbox --user-email ada@example.com --session-name plan
  duolog sessions inbox reviewer --json | jq '.messages[].content'

JSON:
  {\"messages\": [{\"ord\", \"id\", \"sender\", \"role\", \"content\": … as given …|null}]}";

/// Show what a reader has not taken note of in an inbox, in order
///
/// Reading takes note of nothing; --ack does, of what is shown. Every reader has a place of its own.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Inbox {
    /// Whose inbox: a session, a branch, or any name
    #[arg(value_name = "RECIPIENT", required_unless_present = "session_name", conflicts_with = "session_name")]
    recipient: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
    /// On which channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Who reads; the recipient where it is not given
    #[arg(long, value_name = "NAME")]
    reader: Option<String>,
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Take note of what is shown
    #[arg(long)]
    ack: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    messages: Vec<Shape<'a>>,
}

#[derive(Serialize)]
struct Shape<'a> {
    ord: u64,
    id: &'a str,
    sender: Option<&'a str>,
    role: Option<&'a str>,
    content: Option<Box<RawValue>>,
}

impl Inbox {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let durability = context.config()?.durability();
        let store = if self.ack { context.open_to_write()? } else { context.open_to_read()? };
        let recipient = match self.of_user.reference(context.config()?) {
            Some(reference) => store.sessions().resolve(&reference)?.id.to_string(),
            None => self.recipient.unwrap_or_default(),
        };
        let reader = self.reader.unwrap_or_else(|| recipient.clone());
        let inbox = sessions::Inbox { recipient, channel: self.channel };
        let exchange = store.sessions().exchange();
        let received = exchange.inbox(&inbox, &reader, self.limit)?;
        context.out.answer(&Answer { messages: received.iter().map(shape).collect() }, |text| {
            for one in &received {
                let said = one.content.as_ref().map_or_else(|detail| format!("({detail})"), |text| one_line(text));
                text.line(format_args!("{}  {}  {said}", one.ord, one.sender.as_deref().unwrap_or("-")));
            }
        })?;
        if received.is_empty() {
            context.out.note("nothing new");
        }
        if let Some(last) = received.last().filter(|_| self.ack) {
            exchange.ack(&inbox, &reader, last.ord, durability)?;
        }
        context.close(store);
        Ok(Ended::Done)
    }
}

fn shape(one: &Received) -> Shape<'_> {
    Shape {
        ord: one.ord,
        id: one.id.as_str(),
        sender: one.sender.as_deref(),
        role: one.role.as_deref(),
        content: one.content.as_ref().ok().map(|text| as_json(&one_line(text))),
    }
}
