//! What callers give and get.

use std::fmt;
use std::str::FromStr;

use duolog_log::dialect::ItemKind;
use duolog_search::{Filter, Key, Query, Snippet};
use duolog_state::{BadPageToken, ListId};
use duolog_types::limits::PAGE_DEFAULT;
use duolog_types::{Cursor, HomeId, SessionId, Timestamp};

use crate::Wait;

/// What to look for, and where.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// What.
    pub query: Query,
    /// Among what.
    pub filter: Filter,
    /// How many hits at the most.
    pub limit: u32,
    /// Behind which hit to begin: the token that a page of the same search ended with.
    pub after: Option<HitToken>,
    /// Whether the index may be used.
    pub index: UseIndex,
    /// How long the search waits for derived rows and index to catch up with the logs. [`Wait::Briefly`] asks the index as
    /// it is, and says how many logs it does not know to their end.
    pub wait: Wait,
}

impl SearchRequest {
    /// Looks for this everywhere.
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
    /// The list of hits of this search. Its start in time may be relative to now, and is left out.
    pub(super) fn list(&self) -> ListId {
        let terms = self.query.canonical();
        let lowered = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
        let (role, tool) = (lowered(&self.filter.role), lowered(&self.filter.tool));
        let session = self.filter.session.as_ref().map(SessionId::as_str);
        ListId::of("hits", &[Some(&terms), session, role.as_deref(), tool.as_deref()])
    }
}

/// Where a page of hits ends and the next begins. Its text is for handing back, not for reading.
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
        BadPageToken::unless(text, |text| {
            let (list, key) = ListId::split(text)?;
            Some(Self { list, key: key.parse().ok()? })
        })
    }
}

/// Whether the index may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseIndex {
    /// It is brought up to date, within a bound, and asked; what it does not know is read.
    #[default]
    IfPossible,
    /// Every log is read.
    Never,
}

/// A text that holds what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub session: SessionId,
    /// The first byte of its line, with the log's epoch.
    pub cursor: Cursor,
    /// Which text of that line it is.
    pub part: u32,
    /// When: as its line says, or the last line before it that says so.
    pub at: Option<Timestamp>,
    /// What it is.
    pub kind: ItemKind,
    /// The role that the line itself names.
    pub role: Option<String>,
    /// The tool called or answering.
    pub tool: Option<String>,
    /// What stands around the first match.
    pub snippet: Snippet,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The hits, the newest first.
    pub hits: Vec<Hit>,
    /// Where the next page begins; nothing where this is the last.
    pub next: Option<HitToken>,
    /// Why the index was not used, or not for all; nothing where it was used for all that it could know.
    pub without_index: Option<String>,
    /// Whether the index was asked.
    pub used_index: bool,
    /// The bytes of logs that were read, because the index did not know them.
    pub scanned_bytes: u64,
    /// How many lines could not be read.
    pub damaged: u64,
    /// How many logs have lines that were not searched, because the search was not to wait for them.
    pub behind: u64,
    /// Logs that could not be read, or lack bytes that were recorded of them, and why.
    pub unread: Vec<(SessionId, String)>,
    /// Logs of other homes with the same state: they are not here to be searched.
    pub elsewhere: Elsewhere,
}

impl Found {
    /// Returns true if every line of every log was searched.
    pub fn is_complete(&self) -> bool {
        self.damaged == 0 && self.unread.is_empty() && self.elsewhere.sessions == 0 && self.behind == 0
    }

    /// Notes that a log was not searched whole, once.
    pub(super) fn note_unread(&mut self, session: &SessionId, reason: String) {
        if self.unread.iter().all(|(noted, _)| noted != session) {
            self.unread.push((session.clone(), reason));
        }
    }
}

/// The logs that other homes with the same state have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// How many sessions.
    pub sessions: u64,
    /// The first of them, with the home that has the log: no more than a page.
    pub first: Vec<(SessionId, HomeId)>,
}

/// How far the index was brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    /// How many sessions were added to.
    pub sessions: u64,
    /// How many texts were added.
    pub texts: u64,
    /// The bytes of their logs that were read.
    pub bytes: u64,
    /// The bytes that there were to read.
    pub of_bytes: u64,
    /// Logs that could not be read to their end, and why.
    pub failed: Vec<(SessionId, String)>,
}

/// How the index stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexStanding {
    /// There is none.
    Absent,
    /// It is whole.
    Whole {
        /// How many sessions it knows.
        sessions: u64,
        /// How many texts.
        texts: u64,
        /// Its bytes.
        bytes: u64,
    },
    /// It cannot be used.
    Unusable(String),
}
