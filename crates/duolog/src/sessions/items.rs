//! Items: what the model sees, added and taken away at the end of a branch.

use std::ops::Range;

use duolog_join::{IdempotencyKey, Write};
use duolog_state::Tx;
use duolog_state::owned::messages::{self, Content, MessageRow};
use duolog_state::owned::progressions::{self, Fresh};
use duolog_state::owned::{branches, progression_items};
use duolog_types::{BranchId, Durability, MessageId, OperationId, SessionId};
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use super::conversation::{self, BranchRef, Place};
use super::messages::packed;
use super::reading::{Checked, RawItems, Reading, Sink};
use super::{active, rules};
use crate::error::{Error, Result};
use crate::store::Store;

/// The items of one branch of a session.
#[derive(Clone)]
pub struct Items<'s> {
    pub(crate) store: &'s Store,
    pub(crate) session: SessionId,
    pub(crate) branch: BranchRef,
}

/// How items are added.
#[derive(Clone, Debug)]
pub struct AddOptions {
    /// Adds only once under this id, however often it is asked.
    pub operation: Option<OperationId>,
    /// What the items survive once they are acknowledged.
    pub durability: Durability,
    /// The item that comes before all others, where the branch has none yet.
    pub system: Option<String>,
    /// What the items mean to a model, one for each; none at all where that is not known.
    pub embeddings: Vec<Vec<f32>>,
}

impl Default for AddOptions {
    fn default() -> Self {
        Self { operation: None, durability: Durability::Power, system: None, embeddings: Vec::new() }
    }
}

/// What was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// The branch.
    pub branch: BranchId,
    /// Where the first of them stands.
    pub from_ord: u64,
    /// Where its history ends now.
    pub end: u64,
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its message.
    pub id: MessageId,
    /// Its place; nothing for the one that comes before all others.
    pub ord: Option<u64>,
    /// What it says: JSON, byte for byte as it was given.
    pub content: String,
    /// The places that it stands for, where it is a summary.
    pub stands_for: Option<Range<u64>>,
}

/// An item that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenItem {
    /// Its message.
    pub id: MessageId,
    /// Its place; nothing for the one that comes before all others, or a summary.
    pub ord: Option<u64>,
    /// What is wrong with it.
    pub detail: String,
}

/// Items in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemList {
    /// Those that can be read.
    pub items: Vec<Item>,
    /// Those among them that cannot.
    pub broken: Vec<BrokenItem>,
    /// Where the history ends: how many items it has.
    pub end: u64,
}

/// What is shown of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What the model is to see: summaries in the place of what they stand for.
    Context,
    /// Every item.
    Full,
}

impl Items<'_> {
    /// The items of another branch of the session.
    #[must_use]
    pub fn on(mut self, branch: BranchRef) -> Self {
        self.branch = branch;
        self
    }

    /// Adds items at the end: all of them, or none. The default branch is made by the first.
    ///
    /// Each is one JSON text, given back byte for byte. They go to the state; the log tells of what happened and is the
    /// caller's.
    pub fn add(&self, items: &[&str], options: &AddOptions) -> Result<Added> {
        let join = &self.store.join;
        let request = rules::Added {
            what: "add items",
            session: self.session.as_str(),
            branch: self.branch.text(),
            items,
            system: options.system.as_deref(),
            embeddings: &options.embeddings,
        };
        let key = |operation| IdempotencyKey::new("items.add", operation, &request);
        let key = options.operation.as_ref().map(key).transpose()?;
        if let Some(answer) = key.as_ref().map_or(Ok(None), |key| join.answer_to(key))? {
            return Ok(answer);
        }
        let (contents, now) = (Contents::of(join), join.clock().now());
        let mut new = contents.messages(items, now)?;
        embed(&mut new, &options.embeddings)?;
        let system = options.system.as_deref();
        let system = system.map(|system| contents.message(system, now)).transpose()?;
        let (session, branch) = (self.session.clone(), self.branch.clone());
        self.store.transact(Write::once(options.durability, key), move |tx| {
            let mut place = match (&system, new.first().zip(new.last())) {
                // What the pool will list is known, so the session's row is written once.
                (None, Some((first, last))) => {
                    conversation::open_for(tx, &session, &branch, (&first.id, &last.id), now)?
                }
                _ => conversation::open(tx, &session, &branch, now)?,
            };
            if let Some(system) = &system {
                set_system(tx, &mut place, system)?;
            }
            let from_ord = place.head.end;
            place.add(tx, &new)?;
            if system.is_some() {
                place.note(tx)?;
            }
            Ok((Added { branch: place.branch.id.clone(), from_ord, end: place.head.end }, Vec::new()))
        })
    }

    /// Puts messages that are there already at the end; says where each stands. One that the history holds stays where
    /// it is.
    pub fn append(&self, ids: &[MessageId], durability: Durability) -> Result<Vec<u64>> {
        let now = self.store.join.clock().now();
        let (session, branch, ids) = (self.session.clone(), self.branch.clone(), ids.to_vec());
        self.store.transact(durability, move |tx| {
            let mut place = conversation::open(tx, &session, &branch, now)?;
            let mut places = Vec::with_capacity(ids.len());
            for id in &ids {
                if messages::find(tx, id)?.is_none() {
                    return Err(Error::NoMessage(id.clone()));
                }
                places.push(place.append(tx, id, Fresh::No)?);
            }
            place.note(tx)?;
            Ok((places, Vec::new()))
        })
    }

    /// The last items, in their order: `limit` of those that can be read. The one that comes before all others is not
    /// counted, and stands first.
    pub fn latest(&self, limit: usize, view: View) -> Result<ItemList> {
        let (sink, broken, end) = self.read_latest(limit, view, Checked::default())?;
        Ok(ItemList { items: sink.into_items(), broken, end })
    }

    /// The same as they are kept, in one piece of memory: for who parses them anyway, and sees then whether they are
    /// JSON. Only what is not there is told as broken.
    pub fn latest_raw(&self, limit: usize, view: View) -> Result<RawItems> {
        let mut items = RawItems::default();
        self.latest_raw_into(limit, view, &mut items)?;
        Ok(items)
    }

    /// The same, in the memory of what was read before: for who reads a conversation at every turn.
    pub fn latest_raw_into(&self, limit: usize, view: View, items: &mut RawItems) -> Result<()> {
        items.clear();
        let (taken, broken, end) = self.read_latest(limit, view, std::mem::take(items))?;
        *items = taken;
        (items.broken, items.end) = (broken, end);
        Ok(())
    }

    /// Hands the last items to a sink, the last first.
    fn read_latest<S: Sink>(&self, limit: usize, view: View, sink: S) -> Result<(S, Vec<BrokenItem>, u64)> {
        let contents = Contents::of(&self.store.join);
        let read = self.store.join.state().read(|tx| {
            let Some(place) = conversation::find(tx, &self.session, &self.branch)? else {
                return Ok((sink, Vec::new(), 0));
            };
            let shown = match view {
                View::Full => Vec::new(),
                View::Context => active::shown(tx, &place.branch)?,
            };
            let (sink, broken) = Reading::of(&place, &contents, sink).latest(tx, shown, limit)?;
            Ok::<_, Error>((sink, broken, place.head.end))
        });
        Ok(read?)
    }

    /// A page of the whole history, from a place on, without the one that comes before all others.
    pub fn history(&self, from: u64, limit: u32) -> Result<ItemList> {
        let contents = Contents::of(&self.store.join);
        let list = self.store.join.state().read(|tx| {
            let Some(place) = conversation::find(tx, &self.session, &self.branch)? else {
                return Ok(ItemList::default());
            };
            let mut reading = Reading::of(&place, &contents, Checked::default());
            let to = from.saturating_add(limit.into());
            for segment in progressions::segments(tx, &place.head, from, to)? {
                for row in progression_items::oldest(tx, &segment.progression, segment.from, segment.to, limit)? {
                    reading.take(row.message_id.as_str(), row.ord, row.content.as_ref().map(Content::lent))?;
                }
            }
            let (sink, broken) = reading.over();
            Ok::<_, Error>(ItemList { items: sink.into_items(), broken, end: place.head.end })
        });
        Ok(list?)
    }

    /// Takes the last item off, and gives it; nothing where there is none.
    pub fn pop(&self, durability: Durability) -> Result<Option<Item>> {
        let (join, now) = (&self.store.join, self.store.join.clock().now());
        let (session, branch) = (self.session.clone(), self.branch.clone());
        let contents = Contents::of(join);
        self.store.transact(durability, move |tx| {
            let Some(mut place) = conversation::enter(tx, &session, &branch, now)? else {
                return Ok((None, Vec::new()));
            };
            let Some(ord) = place.head.end.checked_sub(1) else { return Ok((None, Vec::new())) };
            let mut last = None;
            for segment in progressions::segments(tx, &place.head, ord, ord + 1)? {
                last = progression_items::newest(tx, &segment.progression, ord, ord + 1, 1)?.pop();
            }
            let Some(row) = last else { return Ok((None, Vec::new())) };
            // What cannot be given out is not taken off either.
            let content = contents.text(row.content);
            let content = content.map_err(|detail| Error::BrokenItem { message: row.message_id.clone(), detail })?;
            place.cut(tx, ord, now)?;
            Ok((Some(Item { id: row.message_id, ord: Some(row.ord), content, stands_for: None }), Vec::new()))
        })
    }

    /// Takes every item off; says how many there were. The branch stays, and so does what comes before all others.
    pub fn clear(&self, durability: Durability) -> Result<u64> {
        let now = self.store.join.clock().now();
        let (session, branch) = (self.session.clone(), self.branch.clone());
        self.store.transact(durability, move |tx| {
            let Some(mut place) = conversation::enter(tx, &session, &branch, now)? else { return Ok((0, Vec::new())) };
            let end = place.head.end;
            place.cut(tx, 0, now)?;
            Ok((end, Vec::new()))
        })
    }

    /// Puts other items in the place of the last ones, if those are the `expected`; nothing is changed otherwise.
    ///
    /// Items are the same where their JSON is, whatever the spaces in it.
    pub fn replace_suffix(&self, expected: &[&str], replacement: &[&str], durability: Durability) -> Result<Added> {
        let join = &self.store.join;
        let (contents, now) = (Contents::of(join), join.clock().now());
        let last = self.latest(expected.len(), View::Full)?;
        let stale = || Error::OtherSuffix { end: last.end };
        let from = last.end.checked_sub(expected.len() as u64).ok_or_else(stale)?;
        let found: Vec<&Item> = last.items.iter().filter(|item| item.ord.is_some_and(|ord| ord >= from)).collect();
        let same = found.iter().zip(expected).all(|(item, expected)| rules::is_same_json(&item.content, expected));
        if found.len() != expected.len() || !same {
            return Err(stale());
        }
        let ids: Vec<MessageId> = found.iter().map(|item| item.id.clone()).collect();
        let new = contents.messages(replacement, now)?;
        let (session, branch, end) = (self.session.clone(), self.branch.clone(), last.end);
        self.store.transact(durability, move |tx| {
            let mut place = conversation::open(tx, &session, &branch, now)?;
            if place.head.end != end || ids_from(tx, &place, from)? != ids {
                return Err(Error::OtherSuffix { end: place.head.end });
            }
            place.cut(tx, from, now)?;
            place.add(tx, &new)?;
            place.note(tx)?;
            Ok((Added { branch: place.branch.id.clone(), from_ord: from, end: place.head.end }, Vec::new()))
        })
    }
}

/// Says what messages mean to a model, where that is known.
fn embed(new: &mut [MessageRow], embeddings: &[Vec<f32>]) -> Result<()> {
    if embeddings.is_empty() {
        return Ok(());
    }
    if embeddings.len() != new.len() {
        let why = format!("must be one for each item: there are {} for {}", embeddings.len(), new.len());
        return Err(Error::BadValue { what: "embeddings", why });
    }
    for (row, embedding) in new.iter_mut().zip(embeddings) {
        row.embedding = Some(packed(embedding)?);
    }
    Ok(())
}

/// Writes the item that comes before all others, where the branch has none.
fn set_system(tx: &mut Tx<'_>, place: &mut Place, system: &MessageRow) -> Result<()> {
    if place.branch.system_msg_id.is_some() {
        return Ok(());
    }
    messages::put(tx, system)?;
    branches::set_system(tx, &place.branch.id, &system.id)?;
    place.branch.system_msg_id = Some(system.id.clone());
    place.pool(tx, &system.id)
}

/// The messages from a place of a history on.
fn ids_from(tx: &mut Tx<'_>, place: &Place, from: u64) -> Result<Vec<MessageId>> {
    let mut ids = Vec::new();
    for segment in progressions::segments(tx, &place.head, from, place.head.end)? {
        ids.extend(progression_items::ids(tx, &segment.progression, segment.from, segment.to)?);
    }
    Ok(ids)
}
