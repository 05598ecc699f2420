//! What callers give and get.

use duolog_types::limits::{NAME_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::{MessageId, SessionId, Timestamp};

use crate::error::{Error, Invalid, Result};
use crate::sessions::BranchRef;
use crate::sessions::rules::bounded;

/// Which messages are meant: those of which all holds that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimilarFilter {
    /// Of this session.
    pub session: Option<SessionId>,
    /// On this branch of the session: what its full history has, summaries and the system item left out.
    pub branch: Option<BranchRef>,
    /// Who speaks.
    pub role: Option<String>,
    /// Who sent them.
    pub sender: Option<String>,
    /// Whom they are for.
    pub recipient: Option<String>,
    /// On which channel.
    pub channel: Option<String>,
    /// What they were in the program that made them.
    pub lion_class: Option<String>,
    /// Made then or later.
    pub since: Option<Timestamp>,
    /// Made before then.
    pub until: Option<Timestamp>,
}

impl SimilarFilter {
    /// Refuses what cannot be meant.
    pub(super) fn check(&self) -> Result<()> {
        if self.branch.is_some() && self.session.is_none() {
            let why = "is one of a session: say which".to_owned();
            return Err(Error::Invalid(Invalid::Value { what: "branch", why }));
        }
        if let Some(role) = &self.role {
            bounded::<WORD_BYTES_MAX>("role", role)?;
        }
        let names = [
            ("sender", &self.sender),
            ("recipient", &self.recipient),
            ("channel", &self.channel),
            ("lion_class", &self.lion_class),
        ];
        for (what, text) in names {
            text.as_ref().map(|text| bounded::<NAME_BYTES_MAX>(what, text)).transpose()?;
        }
        Ok(())
    }
}

/// A message that is near.
#[derive(Clone, Debug, PartialEq)]
pub struct Similar {
    /// The message.
    pub id: MessageId,
    /// Its nearness or distance, as the metric has it.
    pub score: f32,
}
