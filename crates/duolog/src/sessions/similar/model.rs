//! The types that callers pass and get.

use duolog_types::limits::{NAME_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::{MessageId, SessionId, Timestamp};

use crate::error::{Error, Invalid, Result};
use crate::sessions::BranchRef;
use crate::sessions::rules::bounded;

/// The filter of messages. A message must match every field that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimilarFilter {
    /// The session.
    pub session: Option<SessionId>,
    /// The branch of the session: the items of its full history, without summaries and the system item.
    pub branch: Option<BranchRef>,
    /// The role of the speaker.
    pub role: Option<String>,
    /// The sender.
    pub sender: Option<String>,
    /// The recipient.
    pub recipient: Option<String>,
    /// The channel.
    pub channel: Option<String>,
    /// The class of the message in the program that created it.
    pub lion_class: Option<String>,
    /// Only messages created at this time or later.
    pub since: Option<Timestamp>,
    /// Only messages created before this time.
    pub until: Option<Timestamp>,
}

impl SimilarFilter {
    /// Returns an error if the filter is not valid.
    pub(super) fn check(&self) -> Result<()> {
        if self.branch.is_some() && self.session.is_none() {
            let why = "needs a session".to_owned();
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

/// A similar message.
#[derive(Clone, Debug, PartialEq)]
pub struct Similar {
    /// The message.
    pub id: MessageId,
    /// The similarity or distance, depending on the metric.
    pub score: f32,
}
