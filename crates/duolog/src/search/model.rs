//! The types that callers pass and get.

use std::fmt;
use std::str::FromStr;

use duolog_log::dialect::ItemKind;
use duolog_search::{Filter, Key, Query, Snippet};
use duolog_state::{BadPageToken, ListId};
use duolog_types::limits::PAGE_DEFAULT;
use duolog_types::{Cursor, HomeId, SessionId, Timestamp};

use crate::Wait;

/// A search.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// The query.
    pub query: Query,
    /// The filter.
    pub filter: Filter,
    /// The maximum number of hits.
    pub limit: u32,
    /// The token of the previous page of the same search.
    pub after: Option<HitToken>,
    /// The use of the index.
    pub index: UseIndex,
    /// How long the search waits for derived rows and the index to catch up with the logs. [`Wait::Briefly`] uses the
    /// index as it is and reports the number of logs that it does not cover.
    pub wait: Wait,
}

impl SearchRequest {
    /// Returns a search over everything.
    pub fn new(query: Query) -> Self {
        Self {
            query,
            filter: Filter::default(),
            limit: PAGE_DEFAULT,
            after: None,
            index: UseIndex::IfPossible,
            wait: Wait::Complete,
        }
    }
}

impl SearchRequest {
    /// Returns the list id of the search, for its page tokens. The start time is left out because it may be relative to
    /// now.
    pub(super) fn list(&self) -> ListId {
        let terms = self.query.canonical();
        let lowered = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
        let (role, tool) = (lowered(&self.filter.role), lowered(&self.filter.tool));
        let session = self.filter.session.as_ref().map(SessionId::as_str);
        ListId::of("hits", &[Some(&terms), session, role.as_deref(), tool.as_deref()])
    }
}

/// A page token of a search. The text is opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitToken {
    /// The list.
    pub(super) list: ListId,
    /// The last hit of the page.
    pub(super) key: Key,
}

impl fmt::Display for HitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.list, self.key)
    }
}

impl FromStr for HitToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        BadPageToken::parse(text, |text| {
            let (list, key) = ListId::split(text)?;
            Some(Self { list, key: key.parse().ok()? })
        })
    }
}

/// The use of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseIndex {
    /// The index is updated, within a limit, and used. Lines that it lacks are read from the logs.
    #[default]
    IfPossible,
    /// Every log is read.
    Never,
}

/// A text that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub session: SessionId,
    /// The position of its line, with the epoch of the log.
    pub cursor: Cursor,
    /// The number of the text in its line.
    pub part: u32,
    /// The time of its line, or of the last line before it that has a time.
    pub at: Option<Timestamp>,
    /// The kind of the item.
    pub kind: ItemKind,
    /// The role in the line.
    pub role: Option<String>,
    /// The tool that was called or that answered.
    pub tool: Option<String>,
    /// The text around the first match.
    pub snippet: Snippet,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The hits, newest first.
    pub hits: Vec<Hit>,
    /// The token of the next page; `None` if this is the last page.
    pub next: Option<HitToken>,
    /// The reason why the index was not used, or not for all logs; `None` if it was used as far as possible.
    pub without_index: Option<String>,
    /// True if the index was used.
    pub used_index: bool,
    /// The number of log bytes that were read because they were not in the index.
    pub scanned_bytes: u64,
    /// The number of lines that could not be read.
    pub damaged: u64,
    /// The number of logs with lines that were not searched because the search did not wait for them.
    pub behind: u64,
    /// Logs that could not be read to their end, and why.
    pub unread: Vec<(SessionId, String)>,
    /// Logs that were searched although they lack recorded bytes.
    pub lost: Vec<LostLog>,
    /// Logs of other homes that share the state. They are not searched.
    pub elsewhere: Elsewhere,
}

impl Found {
    /// Returns true if every line of every log was searched.
    pub fn is_complete(&self) -> bool {
        let is_whole = self.damaged == 0 && self.unread.is_empty() && self.lost.is_empty();
        is_whole && self.elsewhere.sessions == 0 && self.behind == 0
    }

    /// Records once that a log was not searched completely.
    pub(super) fn note_unread(&mut self, session: &SessionId, reason: String) {
        if self.unread.iter().all(|(noted, _)| noted != session) {
            self.unread.push((session.clone(), reason));
        }
    }

    /// Records once that a log lacks recorded bytes.
    pub(super) fn note_lost(&mut self, session: &SessionId, bytes: u64, reason: String) {
        if self.lost.iter().all(|noted| noted.session != *session) {
            self.lost.push(LostLog { session: session.clone(), bytes, reason });
        }
    }
}

/// A log that lacks recorded bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostLog {
    /// Its session.
    pub session: SessionId,
    /// The number of lost bytes.
    pub bytes: u64,
    /// The description of the loss.
    pub reason: String,
}

/// The logs of other homes that share the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// The number of sessions.
    pub sessions: u64,
    /// The first of them, with the home of the log: at most one page.
    pub first: Vec<(SessionId, HomeId)>,
}

/// The progress of indexing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    /// The number of sessions with new texts.
    pub sessions: u64,
    /// The number of texts that were added.
    pub texts: u64,
    /// The number of log bytes that were read.
    pub bytes: u64,
    /// The number of log bytes to read in total.
    pub of_bytes: u64,
    /// Logs that could not be read to their end, with the reason.
    pub failed: Vec<(SessionId, String)>,
}

/// The status of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexStatus {
    /// There is no index.
    Absent,
    /// The index is complete and valid.
    Complete {
        /// The number of sessions in it.
        sessions: u64,
        /// The number of texts in it.
        texts: u64,
        /// Its size in bytes.
        bytes: u64,
    },
    /// The index cannot be used, for this reason.
    Unusable(String),
}
