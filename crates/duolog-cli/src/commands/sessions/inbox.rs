//! `duolog sessions inbox`.

use clap::Args;
use duolog::limits;
use duolog::sessions::{Recipient, SessionRef};
use duolog_wire as wire;

use super::{Context, one_line};
use crate::args::OfUser;
use crate::failure::{CommandResult, Ended};
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog sessions inbox reviewer
  duolog sessions inbox reviewer --channel news --reader laptop --ack
  duolog sessions inbox reviewer --ack --operation-id job-17-mail
  duolog sessions inbox --user-email ada@example.com --session-name plan
  duolog sessions inbox --topic on-call
  duolog sessions inbox reviewer --json | jq '.messages[].content'

JSON:
  {\"messages\": [{\"ord\", \"id\", \"sender\", \"role\", \"content\": … as given …|null}],
   \"next\": token|null}
  Pass next to --after; it is null if there are no more messages";

/// Show the unacknowledged messages of an inbox
///
/// Messages are shown oldest first. Reading does not acknowledge messages; use --ack. Every reader has its own
/// position.
///
/// With the same operation id, a retry of --ack shows the same messages and acknowledges no others. If the inbox was
/// empty, the retry reads it again.
///
/// Delivery is at least once: processes that share a reader name may get the same message.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Inbox {
    /// Recipient: session id, unique prefix or thread name; or a branch id
    #[arg(value_name = "RECIPIENT", required_unless_present_any = ["session_name", "topic"])]
    #[arg(conflicts_with_all = ["session_name", "topic"])]
    recipient: Option<String>,
    /// Name of a topic: an inbox that belongs to no session
    #[arg(long, value_name = "NAME", conflicts_with = "session_name")]
    topic: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
    /// Channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Name of the reader [default: the recipient]
    #[arg(long, value_name = "NAME")]
    reader: Option<String>,
    /// Maximum number of results [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Page token printed by the previous page
    #[arg(long, value_name = "TOKEN", conflicts_with = "ack")]
    #[arg(value_parser = clap::value_parser!(u64).range(..1 << 62))]
    after: Option<u64>,
    /// Acknowledge the messages that are shown
    #[arg(long)]
    ack: bool,
}

impl Inbox {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let durability = context.config()?.durability();
        let store = if self.ack { context.open_to_write()? } else { context.open_to_read()? };
        let recipient = match (self.of_user.reference(context.config()?), self.topic) {
            (Some(reference), _) => Recipient::Of(reference),
            (None, Some(name)) => Recipient::Topic(name),
            (None, None) => Recipient::Of(SessionRef::Text(self.recipient.unwrap_or_default())),
        };
        let exchange = store.sessions().exchange();
        let inbox = exchange.inbox_of(&recipient, self.channel.as_deref())?;
        let reader = self.reader.unwrap_or_else(|| inbox.recipient.as_str().to_owned());
        let before = if self.ack { exchange.acknowledged()? } else { None };
        let mail = match before {
            Some(acknowledged) => exchange.covered(&inbox, acknowledged)?,
            None => exchange.inbox(&inbox, &reader, self.after, self.limit)?,
        };
        let (received, next) = (mail.messages, mail.next);
        let page: wire::Page<wire::InboxMessage> = wire::Page::of(&received, next);
        context.out.answer(&page, |text| {
            let columns = [(Column::Figure, "ORD"), (Column::Word, "SENDER"), (Column::Text, "CONTENT")];
            let mut table = Table::new(&columns).dropping(&["SENDER"]);
            for one in &received {
                let shown = one.content.as_ref().map_or_else(|detail| format!("({detail})"), |text| one_line(text));
                table.row(vec![one.ord.to_string(), one.sender.clone().unwrap_or_else(|| "-".to_owned()), shown]);
            }
            if !received.is_empty() {
                text.table(&table);
            }
        })?;
        if received.is_empty() {
            context.out.note("no unacknowledged messages");
        }
        if let Some(next) = next {
            let how = if self.ack { "run the command again".to_owned() } else { format!("--after {next}") };
            context.out.note(format_args!("there are more: {how}"));
        }
        for (one, detail) in received.iter().filter_map(|one| Some((one, one.content.as_ref().err()?))) {
            context.out.alert(format_args!("message {} cannot be read: {detail}", one.id));
        }
        // Acknowledge up to the first message that cannot be read.
        let readable = received.iter().take_while(|one| one.content.is_ok());
        if let Some(last) = readable.last().filter(|_| self.ack && before.is_none()) {
            exchange.ack(&inbox, &reader, last.ord, durability)?;
        }
        context.close(store);
        Ok(if received.iter().all(|one| one.content.is_ok()) { Ended::Done } else { Ended::Damaged })
    }
}
