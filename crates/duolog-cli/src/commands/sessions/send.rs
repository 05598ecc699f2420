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

Exit code: 1 if no session is called RECIPIENT, or another message has this id. Nothing is changed then.

JSON:
  {\"message_id\", \"ord\": 0}";

/// Send a message to an inbox
///
/// The recipient is resolved once, to an id: a session that is renamed keeps its mail. With --from or --session-name the
/// message is added to the conversation of that session too: both, or neither. The same message under the same --id is
/// sent once; another message under a taken id is refused.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Send {
    /// Recipient: a session (id, thread name or a unique prefix of an id) or a branch (id or a unique prefix)
    #[arg(long, value_name = "RECIPIENT", required_unless_present = "topic", conflicts_with = "topic")]
    to: Option<String>,
    /// Name of a topic: a named place that belongs to no session
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// What it says
    #[arg(long, value_name = "JSON")]
    content: String,
    /// On which channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Session that sends it: an id, a thread name or a unique prefix of an id
    #[arg(long, value_name = "SESSION", conflicts_with = "session_name")]
    from: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
    #[command(flatten)]
    branch: OnBranch,
    /// Who sends it; the session where it is not given
    #[arg(long, value_name = "NAME")]
    sender: Option<String>,
    /// Who speaks
    #[arg(long, value_name = "ROLE", default_value = "user")]
    role: String,
    /// The message's id, instead of a new one
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
