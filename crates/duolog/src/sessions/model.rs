//! The types that callers pass and get.

use std::fmt;
use std::path::PathBuf;

use duolog_join::CaughtUp;
use duolog_state::PageToken;
use duolog_state::owned::sessions::{SessionRow, SessionSummaryRow};
use duolog_types::{Cursor, Epoch, HomeId, InvocationKind, SessionId, SessionStatus, SourceKind, Timestamp};
use serde::{Deserialize, Serialize};

/// A new session. No field is required: without any, the session has an id and no name.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// The id [default: a new one].
    pub id: Option<SessionId>,
    /// The user.
    pub user_id: Option<String>,
    /// The name. With a user, it is unique for that user and generated if absent; without a user, it is a thread name.
    pub name: Option<String>,
    /// The working directory, as a real path.
    pub cwd: Option<PathBuf>,
    /// The name of the agent.
    pub agent_name: Option<String>,
    /// The kind of invocation.
    pub invocation_kind: Option<InvocationKind>,
    /// The playbook.
    pub playbook_name: Option<String>,
    /// The topic of its show.
    pub show_topic: Option<String>,
    /// The play of its show.
    pub show_play_name: Option<String>,
    /// The directory of its artifacts.
    pub artifacts_path: Option<String>,
    /// The source of the session [default: live].
    pub source_kind: Option<SourceKind>,
    /// The status.
    pub status: Option<SessionStatus>,
    /// The process of this machine that runs it.
    pub pid: Option<u32>,
    /// The time at which it started [default: now].
    pub started_at: Option<Timestamp>,
    /// The time at which it ended [default: now, if the status is final].
    pub ended_at: Option<Timestamp>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

/// A session. Results under an operation id are stored as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The id.
    pub id: SessionId,
    /// The home that owns its log.
    pub home_id: HomeId,
    /// The user.
    pub user_id: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// The folder of its log.
    pub scope: String,
    /// The path of its log, relative to the state directory.
    pub log_path: String,
    /// The epoch of its log.
    pub log_epoch: Epoch,
    /// The working directory.
    pub cwd: Option<String>,
    /// The name of the agent.
    pub agent_name: Option<String>,
    /// The kind of invocation.
    pub invocation_kind: Option<InvocationKind>,
    /// The playbook.
    pub playbook_name: Option<String>,
    /// The topic of its show.
    pub show_topic: Option<String>,
    /// The play of its show.
    pub show_play_name: Option<String>,
    /// The directory of its artifacts.
    pub artifacts_path: Option<String>,
    /// The source of the session.
    pub source_kind: SourceKind,
    /// The status.
    pub status: Option<SessionStatus>,
    /// The time at which it was created.
    pub created_at: Timestamp,
    /// The time at which it started.
    pub started_at: Option<Timestamp>,
    /// The time of the last change.
    pub updated_at: Timestamp,
    /// The time at which it ended.
    pub ended_at: Option<Timestamp>,
    /// Its first message.
    pub first_msg_id: Option<String>,
    /// Its last message.
    pub last_msg_id: Option<String>,
    /// The progression of all its messages, oldest first.
    pub progression_id: Option<String>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

impl From<SessionRow> for Session {
    fn from(row: SessionRow) -> Self {
        Self {
            id: row.id,
            home_id: row.home_id,
            user_id: row.user_id,
            name: row.name,
            scope: row.scope,
            log_path: row.log_path,
            log_epoch: row.log_epoch,
            cwd: row.cwd,
            agent_name: row.agent_name,
            invocation_kind: row.invocation_kind,
            playbook_name: row.playbook_name,
            show_topic: row.show_topic,
            show_play_name: row.show_play_name,
            artifacts_path: row.artifacts_path,
            source_kind: row.source_kind,
            status: row.status,
            created_at: row.created_at,
            started_at: row.started_at,
            updated_at: row.updated_at,
            ended_at: row.ended_at,
            first_msg_id: row.first_msg_id,
            last_msg_id: row.last_msg_id,
            progression_id: row.progression_id,
            node_metadata: row.node_metadata,
        }
    }
}

/// A session in a list, without text of unlimited length (I5).
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// The id.
    pub id: SessionId,
    /// The user.
    pub user_id: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// The folder of its log.
    pub scope: String,
    /// The status.
    pub status: Option<SessionStatus>,
    /// The time at which it started.
    pub started_at: Option<Timestamp>,
    /// The time of the last change.
    pub updated_at: Timestamp,
    /// The number of events in its log, as far as folded; `None` if it was never folded.
    pub events: Option<u64>,
    /// The number of bytes of its log, as far as folded; `None` if it was never folded.
    pub bytes: Option<u64>,
    /// The title in its log: given by a user, given by a model, or the start of the first prompt.
    pub title: Option<String>,
    /// The last model in its log.
    pub model: Option<String>,
    /// The dialect of its log.
    pub dialect: Option<String>,
}

impl From<SessionSummaryRow> for SessionSummary {
    fn from(row: SessionSummaryRow) -> Self {
        Self {
            id: row.id,
            user_id: row.user_id,
            name: row.name,
            scope: row.scope,
            status: row.status,
            started_at: row.started_at,
            updated_at: row.updated_at,
            events: row.events,
            bytes: row.bytes,
            title: row.title,
            model: row.model,
            dialect: row.dialect,
        }
    }
}

/// Statistics of a session's log. `None` means that the log was never folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFigures {
    /// The number of events.
    pub events: Option<u64>,
    /// The number of bytes.
    pub bytes: Option<u64>,
    /// The number of lines that could not be read.
    pub damaged: Option<u64>,
    /// The first timestamp in the log.
    pub first_at: Option<Timestamp>,
    /// The last timestamp in the log.
    pub last_at: Option<Timestamp>,
    /// The title in the log.
    pub title: Option<String>,
    /// The last model in the log.
    pub model: Option<String>,
    /// The dialect of the log.
    pub dialect: Option<String>,
    /// The backlog of the session's derived rows.
    pub behind: CaughtUp,
}

/// A page of sessions.
#[derive(Clone, Debug)]
pub struct SessionList {
    /// The sessions, newest first.
    pub sessions: Vec<SessionSummary>,
    /// The token of the next page; `None` if this is the last page.
    pub next: Option<PageToken>,
    /// The backlog of derived rows.
    pub behind: CaughtUp,
}

/// A change of a session's properties. `None` keeps a field, and an empty text clears it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionChange {
    /// The name of the agent.
    pub agent_name: Option<String>,
    /// The kind of invocation.
    pub invocation_kind: Option<InvocationKind>,
    /// The playbook.
    pub playbook_name: Option<String>,
    /// The topic of its show.
    pub show_topic: Option<String>,
    /// The play of its show.
    pub show_play_name: Option<String>,
    /// The directory of its artifacts.
    pub artifacts_path: Option<String>,
    /// The source of the session.
    pub source_kind: Option<SourceKind>,
    /// The time at which it started.
    pub started_at: Option<Timestamp>,
    /// The time at which it ended.
    pub ended_at: Option<Timestamp>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

/// A reference to an existing session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionRef {
    /// An id, a thread name, or a prefix of an id.
    Text(String),
    /// A user and a name.
    UserAndName {
        /// The user.
        user: String,
        /// The name.
        name: String,
    },
}

impl SessionRef {
    /// Returns the last part of the reference.
    pub fn name(&self) -> &str {
        match self {
            Self::Text(name) | Self::UserAndName { name, .. } => name,
        }
    }
}

impl From<&SessionId> for SessionRef {
    fn from(id: &SessionId) -> Self {
        Self::Text(id.to_string())
    }
}

impl From<&Self> for SessionRef {
    fn from(reference: &Self) -> Self {
        reference.clone()
    }
}

impl fmt::Display for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::UserAndName { user, name } => write!(f, "{name} of {user}"),
        }
    }
}

impl Session {
    /// Returns the name, or the id if there is no name.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// Returns the cursor at the first line of its log.
    pub fn start(&self) -> Cursor {
        Cursor { epoch: self.log_epoch, ..Cursor::default() }
    }
}
