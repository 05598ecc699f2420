//! Search results.

use duolog::search;
use schemars::JsonSchema;
use serde::Serialize;

use crate::SessionFailure;
use crate::schema::ITEM_KINDS;

/// A page of hits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchResult {
    /// The query.
    pub query: String,
    /// The hits, newest first.
    pub hits: Vec<SearchHit>,
    /// The token of the next page.
    pub next: Option<String>,
    /// Use of the index.
    pub index: SearchIndex,
    /// Bytes of logs that were read without the index.
    pub scanned_bytes: u64,
    /// Unreadable lines.
    pub damaged_lines: u64,
    /// Sessions that were not fully searched because the search did not wait.
    pub lagging_sessions: u64,
    /// The first logs that were not fully searched.
    pub unread: Vec<SessionFailure>,
    /// Logs that were searched and have lost recorded bytes.
    pub lost_logs: Vec<LostLog>,
    /// Sessions of other homes with the same state, whose logs are not here.
    pub other_home_sessions: u64,
    /// True if every line of every log was searched.
    pub complete: bool,
}

/// A log that has lost recorded bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LostLog {
    /// The session.
    pub session_id: String,
    /// The reason.
    pub reason: String,
    /// Number of lost bytes.
    pub lost_bytes: u64,
}

impl From<&search::LostLog> for LostLog {
    fn from(log: &search::LostLog) -> Self {
        Self { session_id: log.session.to_string(), reason: log.reason.clone(), lost_bytes: log.bytes }
    }
}

/// A matching text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchHit {
    /// The session.
    pub session_id: String,
    /// The name of the session.
    pub session_name: Option<String>,
    /// Position of its line.
    pub position: u64,
    /// The epoch of the log.
    pub epoch: u32,
    /// Index of the text in its line, from 0.
    pub part: u32,
    /// Timestamp in the log.
    pub occurred_at: Option<String>,
    /// Kind of the item.
    #[schemars(extend("enum" = ITEM_KINDS))]
    pub kind: &'static str,
    /// Role in the line.
    pub role: Option<String>,
    /// Tool.
    pub tool: Option<String>,
    /// The text around the first match.
    pub snippet: String,
    /// The matches: start and end character in the snippet.
    pub matches: Vec<[u64; 2]>,
}

impl SearchHit {
    /// A hit and the name of its session.
    pub fn of(hit: &search::Hit, session_name: Option<&str>) -> Self {
        let text = &hit.snippet.text;
        let chars = |bytes: usize| text[..bytes].chars().count() as u64;
        Self {
            session_id: hit.session.to_string(),
            session_name: session_name.map(str::to_owned),
            position: hit.cursor.position.0,
            epoch: hit.cursor.epoch.0,
            part: hit.part,
            occurred_at: hit.at.map(|at| at.to_string()),
            kind: hit.kind.word(),
            role: hit.role.clone(),
            tool: hit.tool.clone(),
            snippet: text.clone(),
            matches: hit.snippet.matches.iter().map(|place| [chars(place.start), chars(place.end)]).collect(),
        }
    }
}

/// Use of the index.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchIndex {
    /// True if the index was used.
    pub used: bool,
    /// Reason why the index was not used, or not for all logs.
    pub reason: Option<String>,
}

/// `{"rebuilt": {…}}`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchRebuilt {
    /// The new index.
    pub rebuilt: SearchRebuiltCounts,
}

/// A rebuilt index.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchRebuiltCounts {
    /// Indexed sessions.
    pub session_count: u64,
    /// Indexed texts.
    pub text_count: u64,
    /// Size of the logs.
    pub bytes: u64,
    /// Logs that were not fully indexed.
    pub failures: Vec<SessionFailure>,
}

impl From<&search::Indexed> for SearchRebuilt {
    fn from(made: &search::Indexed) -> Self {
        let rebuilt = SearchRebuiltCounts {
            session_count: made.sessions,
            text_count: made.texts,
            bytes: made.bytes,
            failures: made.failed.iter().map(SessionFailure::from).collect(),
        };
        Self { rebuilt }
    }
}
