//! `duolog sessions send`.

use clap::Args;
use duolog::MessageId;
use duolog::sessions::{NewMessage, Outgoing, Recipient, SessionRef};
use duolog_wire::MessageSent;

use super::{Context, OnBranch};
use crate::args::OfUser;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog sessions send --to reviewer --content '\"please look at this\"'
  duolog sessions send --to reviewer --channel news --from demo --content '{\"text\":\"done\"}'
  duolog sessions send --to reviewer --id turn-7-note --content '\"once, however often it is sent\"'
  duolog sessions send --topic on-call --content '\"the build failed\"'

Exit code: 1 if the recipient does not exist or another message has the given id; nothing is
  changed

JSON:
  {\"message_id\", \"ord\": 0}";

/// Send a message to an inbox
///
/// The recipient is resolved to an id when the message is sent: a session that is renamed keeps its inbox.
///
/// With --from or --session-name the message is also added to the conversation of the sending session, in the same
/// transaction. The same message with the same --id is sent once; another message with a taken id is refused.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Send {
    /// Recipient: session id, unique prefix or thread name; or a branch id or unique prefix
    #[arg(long, value_name = "RECIPIENT", required_unless_present = "topic", conflicts_with = "topic")]
    to: Option<String>,
    /// Name of a topic: an inbox that belongs to no session
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// Content of the message
    #[arg(long, value_name = "JSON")]
    content: String,
    /// Channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Sending session: session id, unique prefix or thread name
    #[arg(long, value_name = "SESSION", conflicts_with = "session_name")]
    from: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
    #[command(flatten)]
    branch: OnBranch,
    /// Name of the sender [default: id of the sending session]
    #[arg(long, value_name = "NAME")]
    sender: Option<String>,
    /// Role of the message
    #[arg(long, value_name = "ROLE", default_value = "user")]
    role: String,
    /// Message id [default: a new id]
    #[arg(long, value_name = "ID")]
    id: Option<MessageId>,
}

impl Send {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let from = self.from.map(SessionRef::Text).or(self.of_user.reference(context.config()?));
        let from = match from {
            Some(from) => Some(store.sessions().resolve(&from)?.id),
            None => None,
        };
        let to = match (self.topic, self.to) {
            (Some(name), _) => Recipient::Topic(name),
            (None, to) => Recipient::Of(SessionRef::Text(to.unwrap_or_default())),
        };
        let message = NewMessage {
            id: self.id,
            role: self.role,
            content: self.content,
            sender: self.sender.or_else(|| from.as_ref().map(ToString::to_string)),
            channel: self.channel,
            ..NewMessage::default()
        };
        let outgoing = Outgoing { message, to, from: from.map(|session| (session, self.branch.reference())) };
        let sent = store.sessions().exchange().send(&outgoing, durability)?;
        context
            .out
            .answer(&MessageSent { message_id: sent.id.to_string(), ord: sent.ord }, |text| text.line(&sent.id))?;
        context.close(store);
        Ok(Ended::Done)
    }
}
