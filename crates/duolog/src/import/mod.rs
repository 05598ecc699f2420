//! Importing conversations and runs of other programs: pure conversions of their rows, and readers that do not change
//! their files.
//!
//! A converted session is imported as a document ([`Mapped::document`]), so the import is atomic. A run with all of its
//! parts is imported in one transaction, and so is a chat ([`lastlight::import`]).

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

/// A session of another program, converted to rows. Its pool is the first progression.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// The session.
    pub(crate) session: SessionRow,
    /// Its status changes, oldest first.
    pub(crate) statuses: Vec<StatusTransitionRow>,
    /// Its progressions, each after its parent.
    pub(crate) progressions: Vec<ProgressionRow>,
    /// Its messages, each once, in the order of the pool.
    pub(crate) messages: Vec<MappedMessage>,
    /// The entries of the other progressions, in order.
    pub items: Vec<MappedItem>,
    /// Its branches, each after its parent.
    pub(crate) branches: Vec<BranchRow>,
    /// What was not imported, with the reason.
    pub left_out: Vec<String>,
}

/// A message with its class in the program that created it.
#[derive(Clone, Debug)]
pub(crate) struct MappedMessage {
    /// The message, with its content as text.
    pub(crate) row: MessageRow,
    /// The class.
    pub(crate) class: Option<String>,
}

/// An entry of a progression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedItem {
    /// The progression.
    pub progression: ProgressionId,
    /// The ordinal.
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

    /// Iterates over the contents of its messages, in the order of the pool.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(|message| match &message.row.content {
            Content::Text(text) => text.as_str(),
            Content::Blob { blob, .. } => blob.as_str(),
        })
    }

    /// Returns the session as a document, for [`crate::sessions::Sessions::import`].
    pub fn document(self) -> Result<Vec<u8>> {
        let mut document = Vec::new();
        write_mapped(self, &mut document)?;
        Ok(document)
    }
}

/// Returns the error for a source that cannot be imported.
fn bad(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Invalid(Invalid::Document { at: path.display().to_string(), why: why.to_string() })
}

/// Converts seconds since 1970 to a timestamp.
fn from_seconds(seconds: f64) -> Timestamp {
    // A value out of range becomes the nearest timestamp.
    #[allow(clippy::cast_possible_truncation)]
    Timestamp::from_micros((seconds * 1e6).round() as i64)
}

/// Returns metadata, unless it is `null`, which some programs write for an absent value.
fn said(metadata: Option<String>) -> Option<String> {
    metadata.filter(|text| text.trim() != "null" && !text.trim().is_empty())
}
