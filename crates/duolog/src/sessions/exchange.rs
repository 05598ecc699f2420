//! Exchange: messages between sessions. Delivery is at least once; the message id identifies a repetition.

use duolog_state::Tx;
pub use duolog_state::owned::inboxes::Address;
use duolog_state::owned::progressions::{self, Fresh, ProgressionRow};
use duolog_state::owned::{branches, inbox_cursors, inboxes, message_types, messages, progression_items, sessions};
use duolog_types::limits::{NAME_BYTES_MAX, PAGE_MAX};
use duolog_types::{BranchId, Durability, MessageId, ProgressionId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use super::conversation::{self, BranchRef};
use super::messages::{NewMessage, put, row_of};
use super::model::SessionRef;
use super::rules::{self, bounded};
use super::target;
use crate::error::{Error, Invalid, NotFound, Result};
use crate::resolve::resolve;
use crate::store::Store;

/// The handle for messages between sessions.
#[derive(Clone)]
pub struct Exchange {
    pub(crate) store: Store,
}

/// The recipient of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A session, by its full id, its thread name, or user and name; or a branch, by its id.
    ///
    /// It is resolved once to an id, so a session keeps its inbox when it is renamed.
    Of(SessionRef),
    /// A topic that belongs to no session, by its name.
    Topic(String),
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The message. Its recipient is set to the id or topic of `to`.
    pub message: NewMessage,
    /// The recipient.
    pub to: Recipient,
    /// The session and branch of the sender, whose history gets the message too.
    pub from: Option<(SessionId, BranchRef)>,
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The id.
    pub id: MessageId,
    /// The ordinal in the inbox.
    pub ord: u64,
}

/// An inbox: a recipient and an optional channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// The id of a session or a branch, or the name of a topic.
    pub recipient: Address,
    /// The channel.
    pub channel: Option<String>,
}

/// A message in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The ordinal in the inbox.
    pub ord: u64,
    /// The id.
    pub id: MessageId,
    /// The content as JSON, or the reason why it cannot be read.
    pub content: Result<String, String>,
    /// The sender.
    pub sender: Option<String>,
    /// The role of the speaker.
    pub role: Option<String>,
}

/// A page of the messages in an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mail {
    /// The messages, in order.
    pub messages: Vec<Received>,
    /// The ordinal to continue after; `None` if this is the last page.
    pub next: Option<u64>,
}

/// The range of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// The ordinal of the first message.
    pub from: u64,
    /// The ordinal after the last message.
    pub to: u64,
}

/// Returns the progression of an inbox; creates it if there is none.
fn entered(tx: &mut Tx<'_>, inbox: &Inbox, now: Timestamp) -> Result<ProgressionId> {
    if let Some(progression) = inboxes::enter(tx, &inbox.recipient, inbox.channel())? {
        return Ok(progression);
    }
    let progression = ProgressionRow::new(None, now);
    progressions::insert(tx, &progression)?;
    inboxes::insert(tx, &inbox.recipient, inbox.channel(), &progression.id)?;
    Ok(progression.id)
}

impl Inbox {
    fn channel(&self) -> &str {
        self.channel.as_deref().unwrap_or_default()
    }
}

impl Recipient {
    /// Returns the id or the topic of the recipient, resolved in this transaction.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such session or branch, or if several ids start with the text.
    fn resolve(&self, tx: &mut Tx<'_>) -> Result<Address> {
        let text = match self {
            Self::Topic(name) => return Ok(Address::Topic(name.clone())),
            Self::Of(SessionRef::Text(text)) => text,
            Self::Of(reference @ SessionRef::UserAndName { user, name }) => {
                let found = sessions::find_addressed(tx, Some(user), name)?;
                return found
                    .map(|row| Address::Id(row.id.to_string()))
                    .ok_or_else(|| Error::NotFound(NotFound::Session(reference.to_string())));
            }
        };
        if let Some(row) = target::find_exactly(tx, text)? {
            return Ok(Address::Id(row.id.to_string()));
        }
        if let Ok(id) = BranchId::parse(text)
            && branches::find(tx, &id)?.is_some()
        {
            return Ok(Address::Id(id.to_string()));
        }
        let starting_with = |tx: &mut Tx<'_>, prefix: &str, limit| {
            let sessions = sessions::starting_with(tx, prefix, limit)?.into_iter().map(|id| id.to_string());
            let branches = branches::starting_with(tx, None, prefix, limit)?.into_iter().map(|id| id.to_string());
            Ok(sessions.chain(branches).collect())
        };
        let found = resolve(tx, "session or branch", text, None, starting_with)?;
        found.map(Address::Id).ok_or_else(|| Error::NotFound(NotFound::Recipient(text.clone())))
    }
}

impl Exchange {
    /// Sends a message: to the inbox of the recipient and, if a branch sends it, to the history of that branch, in one
    /// transaction.
    ///
    /// The same message under the same id is not sent again.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such recipient, or if another message has this id.
    pub fn send(&self, outgoing: &Outgoing, durability: Durability) -> Result<Sent> {
        let (join, new, to) = (&self.store.join, &outgoing.message, outgoing.to.clone());
        if let Recipient::Topic(name) = &to {
            named("topic", name)?;
        }
        let channel = new.channel.clone();
        let now = join.clock().now();
        let contents = Contents::of(join);
        let mut row = row_of(new, &contents, now)?;
        let fresh = if new.id.is_some() { Fresh::No } else { Fresh::Yes };
        let (class, from) = (new.lion_class.clone(), outgoing.from.clone());
        self.store.transact(durability, move |tx| {
            let inbox = Inbox { recipient: to.resolve(tx)?, channel: channel.clone() };
            row.recipient = Some(inbox.recipient.as_str().to_owned());
            row.lion_class = message_types::resolve(tx, class.as_deref())?;
            put(tx, &row)?;
            if let Some((session, branch)) = &from {
                let mut place = conversation::open(tx, session, branch, now)?;
                place.append(tx, &row.id, fresh)?;
                place.note(tx)?;
            }
            let progression = entered(tx, &inbox, now)?;
            let ord = progression_items::push(tx, &progression, &row.id)?;
            Ok((Sent { id: row.id.clone(), ord }, Vec::new()))
        })
    }

    /// Returns the inbox of a recipient.
    pub fn inbox_of(&self, recipient: &Recipient, channel: Option<&str>) -> Result<Inbox> {
        let channel = channel.map(str::to_owned);
        let Recipient::Of(reference) = recipient else {
            return Ok(Inbox { recipient: self.store.join.state().read(|tx| recipient.resolve(tx))?, channel });
        };
        let text = rules::reference_text(reference)?;
        let recipient = match self.store.meant_before(&text)? {
            Some((id, _)) => Address::Id(id),
            None => self.store.join.state().read(|tx| recipient.resolve(tx))?,
        };
        self.store.mean(text, recipient.as_str());
        Ok(Inbox { recipient, channel })
    }

    /// Returns the messages that a reader has not acknowledged, oldest first, after an ordinal.
    pub fn inbox(&self, inbox: &Inbox, reader: &str, after: Option<u64>, limit: u32) -> Result<Mail> {
        let reader = reader.to_owned();
        let first = after.map_or(0, |after| after.saturating_add(1)).min(i64::MAX.cast_unsigned());
        self.messages(inbox, limit, |tx| {
            let from = inbox_cursors::get(tx, &inbox.recipient, inbox.channel(), &reader)?;
            Ok(Acknowledged { from: from.max(first), to: i64::MAX.cast_unsigned() })
        })
    }

    /// Returns the acknowledgement that was recorded under the operation id of this handle; `None` if there is none.
    pub fn acknowledged(&self) -> Result<Option<Acknowledged>> {
        self.store.answer_to_request()
    }

    /// Returns the messages of an acknowledgement, oldest first.
    pub fn covered(&self, inbox: &Inbox, by: Acknowledged) -> Result<Mail> {
        let count = u32::try_from(by.to.saturating_sub(by.from)).unwrap_or(PAGE_MAX);
        if count == 0 {
            return Ok(Mail::default());
        }
        // The range is open at its end, as in the first request, so that `next` is the same.
        self.messages(inbox, count, |_| Ok(Acknowledged { to: i64::MAX.cast_unsigned(), ..by }))
    }

    fn messages(&self, inbox: &Inbox, limit: u32, which: impl Fn(&mut Tx<'_>) -> Result<Acknowledged>) -> Result<Mail> {
        let contents = Contents::of(&self.store.join);
        let limit = limit.clamp(1, PAGE_MAX);
        self.store.join.state().read(|tx| {
            let Some(progression) = inboxes::find(tx, &inbox.recipient, inbox.channel())? else {
                return Ok(Mail::default());
            };
            let Acknowledged { from, to } = which(tx)?;
            let mut rows = progression_items::oldest(tx, &progression, from, to, limit + 1)?;
            let is_all = rows.len() <= limit as usize;
            rows.truncate(limit as usize);
            let mut received = Vec::new();
            for row in rows {
                // The sender of an unreadable message is not read: that would fail on the same row.
                let about = match &row.content {
                    Ok(_) => messages::find(tx, &row.message_id)?,
                    Err(_) => None,
                };
                let (sender, role) = about.map_or((None, None), |row| (row.sender, Some(row.role)));
                let content = contents.text(row.content);
                received.push(Received { ord: row.ord, id: row.message_id, content, sender, role });
            }
            let next = received.last().filter(|_| !is_all).map(|one: &Received| one.ord);
            Ok::<_, Error>(Mail { messages: received, next })
        })
    }

    /// Acknowledges all messages of a reader up to this ordinal. Returns those that were not acknowledged before.
    pub fn ack(&self, inbox: &Inbox, reader: &str, ord: u64, durability: Durability) -> Result<Acknowledged> {
        named("recipient", inbox.recipient.as_str())?;
        named("reader", reader)?;
        bounded::<NAME_BYTES_MAX>("channel", inbox.channel())?;
        let (inbox, reader, now) = (inbox.clone(), reader.to_owned(), self.store.join.clock().now());
        self.store.transact(durability, move |tx| {
            let end = match inboxes::find(tx, &inbox.recipient, inbox.channel())? {
                Some(progression) => progressions::get(tx, &progression)?.end,
                None => 0,
            };
            if ord >= end {
                return Err(Error::Invalid(Invalid::PastEnd { at: ord, len: end }));
            }
            let from = inbox_cursors::get(tx, &inbox.recipient, inbox.channel(), &reader)?;
            inbox_cursors::advance(tx, &inbox.recipient, inbox.channel(), &reader, ord + 1, now)?;
            Ok((Acknowledged { from, to: from.max(ord + 1) }, Vec::new()))
        })
    }
}

/// Returns an error if a name is empty or too long.
fn named(what: &'static str, text: &str) -> Result<()> {
    bounded::<NAME_BYTES_MAX>(what, text)?;
    if text.is_empty() {
        return Err(Error::Invalid(Invalid::Value { what, why: "must not be empty".to_owned() }));
    }
    Ok(())
}
