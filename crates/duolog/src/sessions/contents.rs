//! The contents of messages: in their rows, or in blobs if they are too large.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Read as _;
use std::time::Duration;

use duolog_join::Join;
use duolog_log::{BlobId, Blobs, Hold};
use duolog_state::owned::messages::{Content, ContentRef, MessageRow};
use duolog_types::json::check_value;
use duolog_types::limits::CONTENT_BYTES_MAX;
use duolog_types::{Durability, HomeId, MessageId, Timestamp};

use super::rules::{self, Seen};
use crate::error::{Error, Invalid, Result};

/// The error for bytes that are not text.
pub(super) const NOT_TEXT: &str = "it is not UTF-8 text";

/// The storage for contents that are too large for a row. It lives until the rows that refer to the blobs are
/// committed, so that the blobs are not pruned.
pub(super) struct Contents {
    blobs: Blobs,
    hold: RefCell<Option<Hold>>,
    busy_timeout: Duration,
    home: HomeId,
}

impl Contents {
    pub(super) fn of(join: &Join) -> Self {
        let (blobs, busy_timeout) = (Blobs::on(join.disk()), join.limits().busy_timeout);
        Self { blobs, hold: RefCell::new(None), busy_timeout, home: join.home() }
    }

    /// Stores a JSON text, byte for byte.
    pub(super) fn keep(&self, text: &str) -> Result<Content> {
        check_value(text).map_err(|fault| Error::Invalid(Invalid::Item { number: 0, fault }))?;
        self.keep_checked(text)
    }

    /// Stores a text that is known to be JSON.
    fn keep_checked(&self, text: &str) -> Result<Content> {
        if text.len() <= CONTENT_BYTES_MAX {
            return Ok(Content::Text(text.to_owned()));
        }
        Ok(Content::Blob { blob: self.keep_bytes(text.as_bytes())?.to_string(), home: self.home })
    }

    /// Stores bytes as a blob.
    pub(super) fn keep_bytes(&self, mut bytes: &[u8]) -> Result<BlobId> {
        if self.hold.borrow().is_none() {
            *self.hold.borrow_mut() = Some(self.blobs.hold(self.busy_timeout)?);
        }
        // As durable as a row may become: a server syncs every row.
        Ok(self.blobs.put(&mut bytes, Durability::Power)?)
    }

    /// Returns the content of a text that was stored already; writes nothing.
    pub(super) fn kept(text: String, home: HomeId) -> Content {
        if text.len() <= CONTENT_BYTES_MAX {
            return Content::Text(text);
        }
        Content::Blob { blob: BlobId::of_bytes(text.as_bytes()).to_string(), home }
    }

    /// Returns messages with new ids for items. All items are checked before any is stored.
    pub(super) fn messages(&self, items: &[&str], now: Timestamp) -> Result<Vec<MessageRow>> {
        let seen = (1..).zip(items).map(|(number, item)| seen_in(item, number)).collect::<Result<Vec<_>>>()?;
        let ids = MessageId::batch(items.len());
        items.iter().zip(seen).zip(ids).map(|((item, seen), id)| self.message_seen(id, item, &seen, now)).collect()
    }

    /// Returns a message with a new id for one item.
    pub(super) fn message(&self, item: &str, now: Timestamp) -> Result<MessageRow> {
        let seen = seen_in(item, 0)?;
        self.message_seen(MessageId::new(), item, &seen, now)
    }

    fn message_seen(&self, id: MessageId, item: &str, seen: &Seen<'_>, now: Timestamp) -> Result<MessageRow> {
        let content = self.keep_checked(item)?;
        Ok(MessageRow { compactable: seen.compactable, ..MessageRow::new(id, &seen.role, content, now) })
    }

    /// Stores one item. Returns true if a summary may replace it.
    pub(super) fn keep_item(&self, item: &str) -> Result<(Content, bool)> {
        let seen = seen_in(item, 0)?;
        Ok((self.keep_checked(item)?, seen.compactable))
    }

    /// Returns the text of a content, or what is wrong with it.
    pub(super) fn text(&self, content: Result<Content, String>) -> Result<String, String> {
        let content = content?;
        let text = match content {
            Content::Text(text) => text,
            Content::Blob { blob, home } => String::from_utf8(self.read(&blob, home)?).map_err(|_| NOT_TEXT)?,
        };
        check_value(&text).map_err(|_| "it is not JSON".to_owned())?;
        Ok(text)
    }

    /// Returns the bytes of a borrowed content without a check: they were JSON when they were stored.
    pub(super) fn found<'c>(&self, content: ContentRef<'c>) -> Result<Cow<'c, [u8]>, String> {
        match content {
            ContentRef::Text(text) => Ok(text.into()),
            ContentRef::Blob { blob, home } => self.read(blob, home).map(Cow::Owned),
        }
    }

    fn read(&self, blob: &str, home: HomeId) -> Result<Vec<u8>, String> {
        if home != self.home {
            return Err(format!("its content is a blob in home {home}"));
        }
        let id: BlobId = blob.parse().map_err(|_| format!("{blob} is not the id of a blob"))?;
        let mut bytes = Vec::new();
        let mut reader = self.blobs.open(&id).map_err(|error| error.to_string())?;
        reader.read_to_end(&mut bytes).map_err(|error| format!("its blob cannot be read: {error}"))?;
        Ok(bytes)
    }
}

/// Checks an item and returns its role.
fn seen_in(item: &str, number: usize) -> Result<Seen<'_>> {
    rules::seen_in(item).map_err(|fault| Error::Invalid(Invalid::Item { number, fault }))
}
