//! The embeddings that a filter needs to compare, and their source.

use duolog_join::Error as JoinError;
use duolog_state::Tx;
use duolog_state::owned::message_embeddings::{self as table, MessageFilter};
use duolog_state::owned::progressions::{self, Segment};
use duolog_state::owned::{message_types, pool_segments, sessions};
use duolog_types::SessionId;

use super::SimilarFilter;
use crate::error::Result;
use crate::sessions::conversation;

/// The source of the embeddings.
pub(super) enum Scope {
    /// There are none.
    Nothing,
    /// The items of these segments.
    Items(Vec<Segment>, MessageFilter),
    /// All embeddings.
    All(MessageFilter),
}

/// The number of embeddings that are scanned in the time of one lookup.
const LOOKED_UP: u64 = 8;

impl Scope {
    /// Returns the scope of a filter.
    ///
    /// # Errors
    ///
    /// Returns an error if the session or branch of the filter does not exist.
    pub(super) fn of(tx: &mut Tx<'_>, filter: &SimilarFilter) -> Result<Self> {
        let segments = match (&filter.session, &filter.branch) {
            (Some(session), Some(branch)) => {
                let Some(place) = conversation::find(tx, session, branch)? else { return Ok(Self::Nothing) };
                Some(progressions::segments(tx, &place.head, 0, u64::MAX)?)
            }
            (Some(session), None) => {
                let found = sessions::pool(tx, session)?.filter(|row| !row.deleted);
                let row = found.ok_or_else(|| JoinError::NoSession(session.clone()))?;
                if row.progression_id.is_none() {
                    return Ok(Self::Nothing);
                }
                let segments = pool_segments::segments(tx, session)?;
                let messages: u64 = segments.iter().map(|segment| segment.to.saturating_sub(segment.from)).sum();
                if messages.saturating_mul(LOOKED_UP) > table::last(tx)?.unsigned_abs() {
                    return Self::all(tx, filter, Some(session.clone()));
                }
                Some(segments)
            }
            (None, _) => None,
        };
        match (segments, Self::all(tx, filter, None)?) {
            (Some(segments), Self::All(among)) => Ok(Self::Items(segments, among)),
            (_, scope) => Ok(scope),
        }
    }

    fn all(tx: &mut Tx<'_>, filter: &SimilarFilter, session: Option<SessionId>) -> Result<Self> {
        let lion_class = match &filter.lion_class {
            Some(class) => match message_types::find(tx, class)? {
                Some(number) => Some(number),
                None => return Ok(Self::Nothing),
            },
            None => None,
        };
        Ok(Self::All(MessageFilter {
            session,
            role: filter.role.clone(),
            sender: filter.sender.clone(),
            recipient: filter.recipient.clone(),
            channel: filter.channel.clone(),
            lion_class,
            since: filter.since,
            until: filter.until,
        }))
    }
}
