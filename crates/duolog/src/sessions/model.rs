//! What callers give and get.

use std::fmt;
use std::path::PathBuf;

use duolog_join::CaughtUp;
use duolog_state::PageToken;
use duolog_state::owned::sessions::{SessionRow, SessionSummaryRow};
use duolog_types::{Cursor, Epoch, HomeId, InvocationKind, SessionId, SessionStatus, SourceKind, Timestamp};
use serde::{Deserialize, Serialize};

/// A session to be made. Nothing is required: it then has an id and no name.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// Its id; one is minted where none is given.
    pub id: Option<SessionId>,
    /// Whose it is.
    pub user_id: Option<String>,
    /// What people call it. With a user, unique for that user, and made up where it is not said; without one, a thread
    /// name.
    pub name: Option<String>,
    /// The working directory it belongs to, as a real path.
    pub cwd: Option<PathBuf>,
    /// The agent's name.
    pub agent_name: Option<String>,
    /// What started it.
    pub invocation_kind: Option<InvocationKind>,
    /// The playbook that it runs.
    pub playbook_name: Option<String>,
    /// The topic of its show.
    pub show_topic: Option<String>,
    /// The play of its show.
    pub show_play_name: Option<String>,
    /// The directory of its artifacts.
    pub artifacts_path: Option<String>,
    /// Where it came from [default: live].
    pub source_kind: Option<SourceKind>,
    /// How it stands.
    pub status: Option<SessionStatus>,
    /// The process of this machine that runs it.
    pub pid: Option<u32>,
    /// When it began [default: now].
    pub started_at: Option<Timestamp>,
    /// When it ended [default: now, if its status is a final one].
    pub ended_at: Option<Timestamp>,
    /// Whatever its maker keeps with it, as JSON.
    pub node_metadata: Option<String>,
}

/// A session, whole. What an operation answers with is kept as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The home that owns its log.
    pub home_id: HomeId,
    /// Whose it is.
    pub user_id: Option<String>,
    /// What people call it.
    pub name: Option<String>,
    /// The folder of its log.
    pub scope: String,
    /// Its log, relative to the state directory.
    pub log_path: String,
    /// The log's epoch.
    pub log_epoch: Epoch,
    /// The working directory it belongs to.
    pub cwd: Option<String>,
    /// The agent's name.
    pub agent_name: Option<String>,
    /// What started it.
    pub invocation_kind: Option<InvocationKind>,
    /// The playbook that it runs.
    pub playbook_name: Option<String>,
    /// The topic of its show.
    pub show_topic: Option<String>,
    /// The play of its show.
    pub show_play_name: Option<String>,
    /// The directory of its artifacts.
    pub artifacts_path: Option<String>,
    /// Where it came from.
    pub source_kind: SourceKind,
    /// How it stands.
    pub status: Option<SessionStatus>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its first message.
    pub first_msg_id: Option<String>,
    /// Its last message.
    pub last_msg_id: Option<String>,
    /// The progression of all its messages, in the order they came.
    pub progression_id: Option<String>,
    /// Whatever its maker keeps with it, as JSON.
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

/// A session in a list. Text that can grow has no place here (I5).
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub user_id: Option<String>,
    /// What people call it.
    pub name: Option<String>,
    /// The folder of its log.
    pub scope: String,
    /// How it stands.
    pub status: Option<SessionStatus>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// How many events its log holds, as far as folded; nothing where it never was.
    pub events: Option<u64>,
    /// How many bytes, likewise.
    pub bytes: Option<u64>,
    /// What its log calls it: as a person named it, as a model did, or how its first prompt begins.
    pub title: Option<String>,
    /// The model that its log named last.
    pub model: Option<String>,
    /// The dialect that its log is in.
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

/// What is known of a session's log. Nothing where it was never folded, which is not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFigures {
    /// How many events it holds.
    pub events: Option<u64>,
    /// How many bytes.
    pub bytes: Option<u64>,
    /// How many lines could not be read.
    pub damaged: Option<u64>,
    /// The instant that the first line with one names.
    pub first_at: Option<Timestamp>,
    /// The instant that the last line with one names.
    pub last_at: Option<Timestamp>,
    /// What it calls the session.
    pub title: Option<String>,
    /// The model that it named last.
    pub model: Option<String>,
    /// The dialect that it is in.
    pub dialect: Option<String>,
    /// How far the figures are behind the session's log.
    pub behind: CaughtUp,
}

/// A page of sessions.
#[derive(Clone, Debug)]
pub struct SessionList {
    /// The sessions, newest first.
    pub sessions: Vec<SessionSummary>,
    /// Where the next page begins; nothing where this is the last.
    pub next: Option<PageToken>,
    /// How far the figures are behind the logs.
    pub behind: CaughtUp,
}

/// What a session says about itself, to be changed. `None` leaves a field as it is, and an empty text clears it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionChange {
    /// The agent's name.
    pub agent_name: Option<String>,
    /// What started it.
    pub invocation_kind: Option<InvocationKind>,
    /// The playbook that it runs.
    pub playbook_name: Option<String>,
    /// The topic of its show.
    pub show_topic: Option<String>,
    /// The play of its show.
    pub show_play_name: Option<String>,
    /// The directory of its artifacts.
    pub artifacts_path: Option<String>,
    /// Where it came from.
    pub source_kind: Option<SourceKind>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

/// How a person names a session that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionRef {
    /// An id, a thread name, or the beginning of an id.
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
    /// The last part of it: a name where it is one.
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
    /// Its name, or its id where it has none.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// The first position of its log, as a cursor.
    pub fn start(&self) -> Cursor {
        Cursor { epoch: self.log_epoch, ..Cursor::default() }
    }
}
