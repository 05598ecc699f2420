//! Exchange: messages from one to another. Delivery is at least once, and a message's id tells a repetition.

use duolog_state::Tx;
use duolog_state::owned::progressions::{self, Fresh, ProgressionRow};
use duolog_state::owned::{inbox_cursors, inboxes, message_types, messages, progression_items};
use duolog_types::limits::{NAME_BYTES_MAX, PAGE_MAX};
use duolog_types::{Durability, MessageId, Moment, ProgressionId, SessionId};
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use super::conversation::{self, BranchRef};
use super::messages::{NewMessage, row_of};
use super::rules::bounded;
use crate::error::{Error, Result};
use crate::store::Store;

/// What is sent from one to another.
#[derive(Clone)]
pub struct Exchange<'s> {
    pub(crate) store: &'s Store,
}

/// A message on its way, and the branch that sends it, where one does.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// The message. Its recipient must be said.
    pub message: NewMessage,
    /// The session and branch whose history is to hold it too.
    pub from: Option<(SessionId, BranchRef)>,
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Its id.
    pub id: MessageId,
    /// Its place in the inbox.
    pub ord: u64,
}

/// An inbox: a recipient on a channel, or on none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// Whom messages are for: a session, a branch, or any name.
    pub recipient: String,
    /// On which channel.
    pub channel: Option<String>,
}

/// A message in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its place there.
    pub ord: u64,
    /// Its id.
    pub id: MessageId,
    /// What it says, as JSON, or what is wrong with it.
    pub content: Result<String, String>,
    /// Who sent it.
    pub sender: Option<String>,
    /// Who speaks.
    pub role: Option<String>,
}

/// The progression of an inbox, which is made where there is none.
fn entered(tx: &mut Tx<'_>, inbox: &Inbox, now: Moment) -> Result<ProgressionId> {
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

impl Exchange<'_> {
    /// Sends a message: into the recipient's inbox and, where a branch sends it, its history; both or neither. One that
    /// is there already is not sent again.
    pub fn send(&self, outgoing: &Outgoing, durability: Durability) -> Result<Sent> {
        let (join, new) = (&self.store.join, &outgoing.message);
        let Some(recipient) = new.recipient.clone() else {
            return Err(Error::BadValue { what: "recipient", why: "must be said".to_owned() });
        };
        let inbox = Inbox { recipient, channel: new.channel.clone() };
        let now = join.clock().now();
        let contents = Contents::of(join);
        let mut row = row_of(new, &contents, now)?;
        let fresh = if new.id.is_some() { Fresh::No } else { Fresh::Yes };
        let (class, from) = (new.lion_class.clone(), outgoing.from.clone());
        self.store.transact(durability, move |tx| {
            row.lion_class = message_types::resolve(tx, class.as_deref())?;
            messages::put(tx, &row)?;
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

    /// What a reader has not taken note of, in order.
    pub fn inbox(&self, inbox: &Inbox, reader: &str, limit: u32) -> Result<Vec<Received>> {
        let contents = Contents::of(&self.store.join);
        let limit = limit.clamp(1, PAGE_MAX);
        self.store.join.state().read(|tx| {
            let Some(progression) = inboxes::find(tx, &inbox.recipient, inbox.channel())? else {
                return Ok(Vec::new());
            };
            let from = inbox_cursors::get(tx, &inbox.recipient, inbox.channel(), reader)?;
            let mut received = Vec::new();
            for row in progression_items::oldest(tx, &progression, from, i64::MAX.cast_unsigned(), limit)? {
                // Who sent what cannot be read is not asked for: that would fail on the same row.
                let about = match &row.content {
                    Ok(_) => messages::find(tx, &row.message_id)?,
                    Err(_) => None,
                };
                let (sender, role) = about.map_or((None, None), |row| (row.sender, Some(row.role)));
                let content = contents.text(row.content);
                received.push(Received { ord: row.ord, id: row.message_id, content, sender, role });
            }
            Ok::<_, Error>(received)
        })
    }

    /// Takes note of all that a reader was given up to this place; false where it had.
    pub fn ack(&self, inbox: &Inbox, reader: &str, ord: u64, durability: Durability) -> Result<bool> {
        for (what, text) in [("recipient", inbox.recipient.as_str()), ("reader", reader)] {
            bounded::<NAME_BYTES_MAX>(what, text)?;
            if text.is_empty() {
                return Err(Error::BadValue { what, why: "must be said".to_owned() });
            }
        }
        bounded::<NAME_BYTES_MAX>("channel", inbox.channel())?;
        let (inbox, reader, now) = (inbox.clone(), reader.to_owned(), self.store.join.clock().now());
        self.store.transact(durability, move |tx| {
            let end = match inboxes::find(tx, &inbox.recipient, inbox.channel())? {
                Some(progression) => progressions::get(tx, &progression)?.end,
                None => 0,
            };
            if ord >= end {
                return Err(Error::PastEnd { at: ord, len: end });
            }
            let moved = inbox_cursors::advance(tx, &inbox.recipient, inbox.channel(), &reader, ord + 1, now)?;
            Ok((moved, Vec::new()))
        })
    }
}
