//! Items: the input of the model, added and removed at the end of a branch.

use std::ops::Range;

use duolog_state::Tx;
use duolog_state::owned::messages::{self, Content};
use duolog_state::owned::progressions::{self, Fresh};
use duolog_state::owned::{pool_segments, progression_items};
use duolog_types::{Durability, MessageId, SessionId};
use serde::{Deserialize, Serialize};

use super::adding::Added;
use super::contents::Contents;
use super::conversation::{self, BranchRef, Place};
use super::messages::{Message, message_in};
use super::reading::{Checked, RawItems, Reading, Sink};
use super::{active, rules};
use crate::error::{Damaged, Error, NotFound, Result, Stale};
use crate::store::Store;

/// The handle for the items of one branch of a session.
#[derive(Clone)]
pub struct Items {
    pub(crate) store: Store,
    pub(crate) session: SessionId,
    pub(crate) branch: BranchRef,
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The id of its message.
    pub id: MessageId,
    /// The ordinal; `None` for the system item and a summary.
    pub ord: Option<u64>,
    /// The JSON content, byte for byte as it was given.
    pub content: String,
    /// The ordinals that it replaces, if it is a summary.
    pub stands_for: Option<Range<u64>>,
}

/// An item that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenItem {
    /// The id of its message.
    pub id: MessageId,
    /// The ordinal; `None` for the system item and a summary.
    pub ord: Option<u64>,
    /// The reason.
    pub detail: String,
}

/// A list of items, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemList {
    /// The readable items.
    pub items: Vec<Item>,
    /// The items of the same range that cannot be read.
    pub broken: Vec<BrokenItem>,
    /// The number of items in the history.
    pub end: u64,
}

/// An item with its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The ordinal; `None` for the system item and a summary.
    pub ord: Option<u64>,
    /// The ordinals that it replaces, if it is a summary.
    pub stands_for: Option<Range<u64>>,
    /// The message.
    pub message: Message,
}

/// A list of items with their metadata, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribedList {
    /// The readable items.
    pub items: Vec<Described>,
    /// The items of the same range that cannot be read.
    pub broken: Vec<BrokenItem>,
    /// The number of items in the history or the pool.
    pub end: u64,
}

/// A view of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryView {
    /// The input of the model: summaries replace their ranges.
    Context,
    /// Every item.
    Full,
}

impl Items {
    /// Selects another branch of the session.
    #[must_use]
    pub fn on(mut self, branch: BranchRef) -> Self {
        self.branch = branch;
        self
    }

    /// Appends existing messages and returns the ordinal of each. A message that is in the history already is not
    /// moved.
    pub fn append(&self, ids: &[MessageId], durability: Durability) -> Result<Vec<u64>> {
        let now = self.store.join.clock().now();
        let (session, branch, ids) = (self.session.clone(), self.branch.clone(), ids.to_vec());
        self.store.transact(durability, move |tx| {
            let mut place = conversation::open(tx, &session, &branch, now)?;
            let mut places = Vec::with_capacity(ids.len());
            for id in &ids {
                if messages::find(tx, id)?.is_none() {
                    return Err(Error::NotFound(NotFound::Message(id.clone())));
                }
                places.push(place.append(tx, id, Fresh::No)?);
            }
            place.note(tx)?;
            Ok((places, Vec::new()))
        })
    }

    /// Returns the last `limit` readable items, oldest first. The system item is not counted and comes first.
    pub fn latest(&self, limit: usize, view: HistoryView) -> Result<ItemList> {
        let (sink, broken, end) = self.read_latest(limit, view, Checked::default())?;
        Ok(ItemList { items: sink.into_items(), broken, end })
    }

    /// Returns the last items in one buffer, without checking that they are JSON. Use it if the caller parses them
    /// anyway. Only missing items are reported as broken.
    pub fn latest_raw(&self, limit: usize, view: HistoryView) -> Result<RawItems> {
        let mut items = RawItems::default();
        self.latest_raw_into(limit, view, &mut items)?;
        Ok(items)
    }

    /// Reads the last items into an existing buffer, for callers that read a conversation at every turn.
    pub fn latest_raw_into(&self, limit: usize, view: HistoryView, items: &mut RawItems) -> Result<()> {
        items.clear();
        let (taken, broken, end) = self.read_latest(limit, view, std::mem::take(items))?;
        *items = taken;
        (items.broken, items.end) = (broken, end);
        Ok(())
    }

    /// Returns the same items as [`Items::latest`], with the metadata of each.
    pub fn described(&self, limit: usize, view: HistoryView) -> Result<DescribedList> {
        let contents = Contents::of(&self.store.join);
        self.store.join.state().read(|tx| {
            let Some(place) = conversation::find(tx, &self.session, &self.branch)? else {
                return Ok(DescribedList::default());
            };
            let shown = match view {
                HistoryView::Full => Vec::new(),
                HistoryView::Context => active::shown(tx, &place.branch)?,
            };
            let (sink, broken) = Reading::of(&place, &contents, Checked::default()).latest(tx, shown, limit)?;
            let mut list = DescribedList { items: Vec::new(), broken, end: place.head.end };
            for item in sink.into_items() {
                let message = message_in(tx, &item.id, &contents)?;
                list.items.push(Described { ord: item.ord, stands_for: item.stands_for, message });
            }
            Ok::<_, Error>(list)
        })
    }

    /// Returns the last messages of the session, on all of its branches, oldest first.
    pub fn pool(&self, limit: usize) -> Result<DescribedList> {
        let contents = Contents::of(&self.store.join);
        self.store.join.state().read(|tx| {
            let mut list = DescribedList { end: pool_segments::count(tx, &self.session)?, ..DescribedList::default() };
            let mut found = Vec::new();
            for stretch in pool_segments::list(tx, &self.session, None, u32::MAX)?.into_iter().rev() {
                let left = (limit - found.len()) as u64;
                if left == 0 {
                    break;
                }
                let to = match stretch.to_ord {
                    Some(to) => to,
                    None => progressions::get(tx, &stretch.progression_id)?.end,
                };
                let from = stretch.from_ord.max(to.saturating_sub(left));
                let count = u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
                let mut some = progression_items::from(tx, &stretch.progression_id, from, count)?;
                some.retain(|(ord, _)| *ord < to);
                found.extend(some.into_iter().rev().map(|(ord, id)| (stretch.ord + (ord - stretch.from_ord), id)));
            }
            for (ord, id) in found.into_iter().rev() {
                match message_in(tx, &id, &contents) {
                    Ok(message) => list.items.push(Described { ord: Some(ord), stands_for: None, message }),
                    Err(Error::Damaged(Damaged::Item { message: id, detail })) => {
                        list.broken.push(BrokenItem { id, ord: Some(ord), detail });
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok::<_, Error>(list)
        })
    }

    /// Passes the last items to a sink, newest first.
    fn read_latest<S: Sink>(&self, limit: usize, view: HistoryView, sink: S) -> Result<(S, Vec<BrokenItem>, u64)> {
        let contents = Contents::of(&self.store.join);
        self.store.join.state().read(|tx| {
            let Some(place) = conversation::find(tx, &self.session, &self.branch)? else {
                return Ok((sink, Vec::new(), 0));
            };
            let shown = match view {
                HistoryView::Full => Vec::new(),
                HistoryView::Context => active::shown(tx, &place.branch)?,
            };
            let (sink, broken) = Reading::of(&place, &contents, sink).latest(tx, shown, limit)?;
            Ok::<_, Error>((sink, broken, place.head.end))
        })
    }

    /// Returns a page of the full history from an ordinal on, without the system item.
    pub fn history(&self, from: u64, limit: u32) -> Result<ItemList> {
        let contents = Contents::of(&self.store.join);
        self.store.join.state().read(|tx| {
            let Some(place) = conversation::find(tx, &self.session, &self.branch)? else {
                return Ok(ItemList::default());
            };
            let mut reading = Reading::of(&place, &contents, Checked::default());
            let to = from.saturating_add(limit.into());
            for segment in progressions::segments(tx, &place.head, from, to)? {
                for row in progression_items::oldest(tx, &segment.progression, segment.from, segment.to, limit)? {
                    reading.take(row.message_id.as_str(), row.ord, row.content.as_ref().map(Content::borrowed))?;
                }
            }
            let (sink, broken) = reading.over();
            Ok::<_, Error>(ItemList { items: sink.into_items(), broken, end: place.head.end })
        })
    }

    /// Removes the last item and returns it; `None` if there is none.
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
            // An item that cannot be returned is not removed.
            let content = contents.text(row.content);
            let content =
                content.map_err(|detail| Error::Damaged(Damaged::Item { message: row.message_id.clone(), detail }))?;
            place.cut(tx, ord, now)?;
            Ok((Some(Item { id: row.message_id, ord: Some(row.ord), content, stands_for: None }), Vec::new()))
        })
    }

    /// Removes every item and returns their number. The branch and its system item are kept.
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

    /// Replaces the last items if they equal `expected`.
    ///
    /// Items are equal if their JSON is equal, apart from white space.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the last items differ.
    pub fn replace_suffix(&self, expected: &[&str], replacement: &[&str], durability: Durability) -> Result<Added> {
        let join = &self.store.join;
        let (contents, now) = (Contents::of(join), join.clock().now());
        let last = self.latest(expected.len(), HistoryView::Full)?;
        let stale = || Error::Stale(Stale::OtherSuffix { end: last.end });
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
                return Err(Error::Stale(Stale::OtherSuffix { end: place.head.end }));
            }
            place.cut(tx, from, now)?;
            place.add(tx, &new)?;
            place.note(tx)?;
            let branch = place.branch.id.clone();
            Ok((Added { session: session.clone(), branch, from_ord: from, end: place.head.end }, Vec::new()))
        })
    }
}

/// Returns the messages of a history from an ordinal on.
fn ids_from(tx: &mut Tx<'_>, place: &Place, from: u64) -> Result<Vec<MessageId>> {
    let mut ids = Vec::new();
    for segment in progressions::segments(tx, &place.head, from, place.head.end)? {
        ids.extend(progression_items::ids(tx, &segment.progression, segment.from, segment.to)?);
    }
    Ok(ids)
}
