//! What other programs keep of conversations and runs, as rows of ours: pure functions from their rows, and readers
//! that go through their files without changing anything.
//!
//! A session that was mapped is put into a home as a document ([`Mapped::document`]), and so all of it or nothing; so
//! is a run with all that it has, and a chat ([`lastlight::import`]).

pub mod lastlight;
pub mod lionagi;
pub mod skillet;

use std::path::Path;

use duolog_state::owned::branches::BranchRow;
use duolog_state::owned::messages::{Content, MessageRow};
use duolog_state::owned::progressions::ProgressionRow;
use duolog_state::owned::sessions::SessionRow;
use duolog_state::owned::status_transitions::StatusTransitionRow;
use duolog_types::{MessageId, ProgressionId, Timestamp};

use crate::error::{Error, Invalid, Result};
use crate::sessions::write_mapped;

/// A session of another program, as rows of ours. Its pool is the first progression.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// The session.
    pub(crate) session: SessionRow,
    /// How it came to stand as it does, the first first.
    pub(crate) statuses: Vec<StatusTransitionRow>,
    /// Its progressions, each behind its parent.
    pub(crate) progressions: Vec<ProgressionRow>,
    /// Its messages, each once, in the order of the pool.
    pub(crate) messages: Vec<MappedMessage>,
    /// What the progressions hold beside the pool, in order.
    pub items: Vec<MappedItem>,
    /// Its branches, each behind the one that it was forked from.
    pub(crate) branches: Vec<BranchRow>,
    /// What has no place here, and why.
    pub left_out: Vec<String>,
}

/// A message, and what it was in the program that made it.
#[derive(Clone, Debug)]
pub(crate) struct MappedMessage {
    /// The message, with what it says as text.
    pub(crate) row: MessageRow,
    /// Its class.
    pub(crate) class: Option<String>,
}

/// A message at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedItem {
    /// The progression.
    pub progression: ProgressionId,
    /// The place.
    pub ord: u64,
    /// The message.
    pub message: MessageId,
}

impl Mapped {
    /// Returns the user of the session; `None` if it has none.
    pub fn user_id(&self) -> Option<&str> {
        self.session.user_id.as_deref()
    }

    /// Returns the name of the session; `None` if it has none.
    pub fn name(&self) -> Option<&str> {
        self.session.name.as_deref()
    }

    /// Iterates over what its messages say, in the order of the pool.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(|message| match &message.row.content {
            Content::Text(text) => text.as_str(),
            Content::Blob { blob, .. } => blob.as_str(),
        })
    }

    /// The session as a document, for [`crate::sessions::Sessions::import`].
    pub fn document(self) -> Result<Vec<u8>> {
        let mut document = Vec::new();
        write_mapped(self, &mut document)?;
        Ok(document)
    }
}

/// A source that cannot be what it should be.
fn bad(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Invalid(Invalid::Document { at: path.display().to_string(), why: why.to_string() })
}

/// An instant that is kept as seconds since 1970.
fn from_seconds(seconds: f64) -> Timestamp {
    // Out of range the nearest that there is.
    #[allow(clippy::cast_possible_truncation)]
    Timestamp::from_micros((seconds * 1e6).round() as i64)
}

/// Metadata that says something: `null` is how some write that there is none.
fn said(metadata: Option<String>) -> Option<String> {
    metadata.filter(|text| text.trim() != "null" && !text.trim().is_empty())
}
