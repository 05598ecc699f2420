//! Reading items: which items a history shows, and the conversion for the caller.

use std::cmp::Reverse;
use std::ops::Range;

use duolog_state::Tx;
use duolog_state::owned::messages::{self, ContentRef};
use duolog_state::owned::{progression_items, progressions};
use duolog_types::MessageId;
use duolog_types::json::check_value;

use super::active::Active;
use super::contents::{Contents, NOT_TEXT};
use super::conversation::Place;
use super::items::{BrokenItem, Item};
use crate::error::Result;

/// The maximum number of items per query, so that no query takes long.
const CHUNK: u64 = 16 << 10;

/// Items as stored, in order: consecutive bytes that were JSON when they were added.
#[derive(Clone, Debug, Default)]
pub struct RawItems {
    /// The ids and contents of the items, in the order in which they were read.
    ids: String,
    contents: Vec<u8>,
    taken: Vec<Taken>,
    /// The items of the same range that cannot be read.
    pub broken: Vec<BrokenItem>,
    /// The number of items in the history.
    pub end: u64,
}

#[derive(Clone, Debug)]
struct Taken {
    piece: u32,
    id: Range<usize>,
    content: Range<usize>,
    ord: Option<u64>,
    stands_for: Option<Range<u64>>,
}

/// An item as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawItem<'r> {
    /// The id of its message.
    pub id: &'r str,
    /// The ordinal; `None` for the system item and a summary.
    pub ord: Option<u64>,
    /// The content, byte for byte as it was given.
    pub content: &'r [u8],
    /// The ordinals that it replaces, if it is a summary.
    pub stands_for: Option<Range<u64>>,
}

impl RawItems {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Iterates over the items in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = RawItem<'_>> + ExactSizeIterator {
        self.taken.iter().map(|taken| RawItem {
            id: &self.ids[taken.id.clone()],
            ord: taken.ord,
            content: &self.contents[taken.content.clone()],
            stands_for: taken.stands_for.clone(),
        })
    }

    /// Removes the items and keeps the allocated memory.
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.contents.clear();
        self.taken.clear();
    }
}

/// Receives items. They come in pieces, the last piece first; the items of a piece are in order.
pub(super) trait Sink {
    /// Takes an item of a piece, or returns what is wrong with it.
    fn take(&mut self, piece: u32, item: RawItem<'_>) -> Result<(), String>;

    /// Returns the number of items that were taken.
    fn taken(&self) -> usize;

    /// Puts the pieces in order.
    fn finish(&mut self);
}

impl Sink for RawItems {
    fn take(&mut self, piece: u32, item: RawItem<'_>) -> Result<(), String> {
        let (id, content) = (self.ids.len(), self.contents.len());
        self.ids.push_str(item.id);
        self.contents.extend_from_slice(item.content);
        let (id, content) = (id..self.ids.len(), content..self.contents.len());
        self.taken.push(Taken { piece, id, content, ord: item.ord, stands_for: item.stands_for });
        Ok(())
    }

    fn taken(&self) -> usize {
        self.taken.len()
    }

    fn finish(&mut self) {
        self.taken.sort_by_key(|one| Reverse(one.piece));
    }
}

/// Items as owned values, each checked to be JSON.
#[derive(Default)]
pub(super) struct Checked {
    items: Vec<(u32, Item)>,
}

impl Checked {
    pub(super) fn into_items(self) -> Vec<Item> {
        self.items.into_iter().map(|(_, item)| item).collect()
    }
}

impl Sink for Checked {
    fn take(&mut self, piece: u32, item: RawItem<'_>) -> Result<(), String> {
        let content = str::from_utf8(item.content).map_err(|_| NOT_TEXT)?;
        check_value(content).map_err(|_| "it is not JSON")?;
        let id = MessageId::parse(item.id).map_err(|error| error.to_string())?;
        let item = Item { id, ord: item.ord, content: content.to_owned(), stands_for: item.stands_for };
        self.items.push((piece, item));
        Ok(())
    }

    fn taken(&self) -> usize {
        self.items.len()
    }

    fn finish(&mut self) {
        self.items.sort_by_key(|(piece, _)| Reverse(*piece));
    }
}

/// A range of a history in a view.
struct Span {
    range: Range<u64>,
    summary: Option<MessageId>,
}

/// Returns the ranges of a history of this length, with summaries in place of the ranges that they replace.
fn spans(end: u64, mut shown: Vec<Active>) -> Vec<Span> {
    shown.sort_by_key(|one| one.from);
    let (mut spans, mut at) = (Vec::new(), 0);
    for one in shown {
        spans.push(Span { range: at..one.from, summary: None });
        spans.push(Span { range: one.from..one.to, summary: Some(one.message) });
        at = one.to;
    }
    spans.push(Span { range: at..end, summary: None });
    spans
}

/// A read of the items of one branch into a sink.
pub(super) struct Reading<'r, S> {
    place: &'r Place,
    contents: &'r Contents,
    sink: S,
    broken: Vec<(u32, BrokenItem)>,
    /// The number of the current piece.
    piece: u32,
}

impl<'r, S: Sink> Reading<'r, S> {
    pub(super) fn of(place: &'r Place, contents: &'r Contents, sink: S) -> Self {
        Self { place, contents, sink, broken: Vec::new(), piece: 0 }
    }

    /// Reads the last items until `limit` of them are readable, and the system item.
    pub(super) fn latest(mut self, tx: &mut Tx<'_>, shown: Vec<Active>, limit: usize) -> Result<(S, Vec<BrokenItem>)> {
        for span in spans(self.place.head.end, shown).iter().rev() {
            if self.sink.taken() >= limit {
                break;
            }
            self.span(tx, span, limit)?;
        }
        if let Some(system) = &self.place.branch.system_msg_id {
            self.message(tx, system, None)?;
        }
        Ok(self.over())
    }

    /// Returns the sink and the unreadable items, in order.
    pub(super) fn over(mut self) -> (S, Vec<BrokenItem>) {
        self.sink.finish();
        self.broken.sort_by_key(|(piece, _)| Reverse(*piece));
        (self.sink, self.broken.into_iter().map(|(_, item)| item).collect())
    }

    /// Reads the items of a range from its end, until `limit` of them are readable.
    fn span(&mut self, tx: &mut Tx<'_>, span: &Span, limit: usize) -> Result<()> {
        if let Some(summary) = &span.summary {
            return self.message(tx, summary, Some(span.range.clone()));
        }
        let mut at = span.range.end;
        while at > span.range.start && self.sink.taken() < limit {
            let wanted = (limit - self.sink.taken()) as u64;
            let from = at.saturating_sub(wanted.clamp(1, CHUNK)).max(span.range.start);
            self.piece += 1;
            for segment in progressions::segments(tx, &self.place.head, from, at)? {
                let range = (segment.from, segment.to);
                progression_items::each(tx, &segment.progression, range, &mut |item| {
                    self.take(item.message_id, item.ord, item.content.as_ref().copied())
                })?;
            }
            at = from;
        }
        Ok(())
    }

    fn message(&mut self, tx: &mut Tx<'_>, id: &MessageId, stands_for: Option<Range<u64>>) -> Result<()> {
        let found = messages::find(tx, id)?.map(|row| row.content);
        let missing = "it is not there".to_owned();
        self.piece += 1;
        let content = found.as_ref().map(messages::Content::borrowed).ok_or(&missing);
        Ok(self.push(id.as_str(), None, content, stands_for)?)
    }

    /// Takes an item, unless it is the system item.
    pub(super) fn take(
        &mut self,
        id: &str,
        ord: u64,
        content: Result<ContentRef<'_>, &String>,
    ) -> duolog_state::Result<()> {
        if self.place.branch.system_msg_id.as_ref().is_some_and(|system| system.as_str() == id) {
            return Ok(());
        }
        self.push(id, Some(ord), content, None)
    }

    fn push(
        &mut self,
        id: &str,
        ord: Option<u64>,
        content: Result<ContentRef<'_>, &String>,
        stands_for: Option<Range<u64>>,
    ) -> duolog_state::Result<()> {
        let found = content.map_err(Clone::clone).and_then(|content| self.contents.found(content));
        let taken =
            found.and_then(|content| self.sink.take(self.piece, RawItem { id, ord, content: &content, stands_for }));
        if let Err(detail) = taken {
            let id = MessageId::parse(id).map_err(|error| duolog_state::Error::Damaged {
                what: "the id of a message".to_owned(),
                detail: error.to_string(),
            })?;
            self.broken.push((self.piece, BrokenItem { id, ord, detail }));
        }
        Ok(())
    }
}
