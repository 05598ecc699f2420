//! Sessions and the answers to their changes.

use duolog::sessions::{self, Liveness};
use duolog::{InvocationKind, SessionStatus, SourceKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::schema::{words, words_or_null};
use crate::{Branch, Completeness, Json};

/// A session in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionSummary {
    /// Session id.
    pub id: String,
    /// User.
    pub user_id: Option<String>,
    /// Name.
    pub name: Option<String>,
    /// Directory of the log.
    pub scope: String,
    /// Status; null if none was set.
    #[schemars(extend("enum" = words_or_null(SessionStatus::ALL, SessionStatus::as_str)))]
    pub status: Option<&'static str>,
    /// Start time.
    pub started_at: Option<String>,
    /// Time of the last change.
    pub updated_at: String,
    /// Events in its log; null if it was never folded.
    pub events: Option<u64>,
    /// Size of its log; null if it was never folded.
    pub bytes: Option<u64>,
    /// Title from the log.
    pub title: Option<String>,
}

impl From<&sessions::SessionSummary> for SessionSummary {
    fn from(session: &sessions::SessionSummary) -> Self {
        Self {
            id: session.id.to_string(),
            user_id: session.user_id.clone(),
            name: session.name.clone(),
            scope: session.scope.clone(),
            status: session.status.map(SessionStatus::as_str),
            started_at: session.started_at.map(|at| at.to_string()),
            updated_at: session.updated_at.to_string(),
            events: session.events,
            bytes: session.bytes,
            title: session.title.clone(),
        }
    }
}

/// A page of sessions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionSummary>,
    /// The token of the next page.
    pub next: Option<String>,
    /// Completeness of counts and titles.
    #[serde(flatten)]
    pub completeness: Completeness,
}

impl From<&sessions::SessionList> for SessionList {
    fn from(list: &sessions::SessionList) -> Self {
        Self {
            sessions: list.sessions.iter().map(SessionSummary::from).collect(),
            next: list.next.as_ref().map(ToString::to_string),
            completeness: (&list.behind).into(),
        }
    }
}

/// A session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Session {
    /// Session id.
    pub id: String,
    /// User.
    pub user_id: Option<String>,
    /// Name.
    pub name: Option<String>,
    /// Directory of the log.
    pub scope: String,
    /// Status; null if none was set.
    #[schemars(extend("enum" = words_or_null(SessionStatus::ALL, SessionStatus::as_str)))]
    pub status: Option<&'static str>,
    /// Creation time.
    pub created_at: String,
    /// Start time.
    pub started_at: Option<String>,
    /// Time of the last change.
    pub updated_at: String,
    /// End time.
    pub ended_at: Option<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// The name of the agent.
    pub agent_name: Option<String>,
    /// Kind of invocation that started the session.
    #[schemars(extend("enum" = words_or_null(InvocationKind::ALL, InvocationKind::as_str)))]
    pub invocation_kind: Option<&'static str>,
    /// Playbook.
    pub playbook_name: Option<String>,
    /// Topic of the show.
    pub show_topic: Option<String>,
    /// Play of the show.
    pub show_play_name: Option<String>,
    /// Directory of the artifacts.
    pub artifacts_path: Option<String>,
    /// Origin: written by Duolog, or the program it was imported from.
    #[schemars(extend("enum" = words(SourceKind::ALL, SourceKind::as_str)))]
    pub source_kind: &'static str,
    /// The home that owns the log.
    pub home_id: String,
    /// Path of the log, relative to the state directory.
    pub log_path: String,
    /// Epoch of the log.
    pub log_epoch: u32,
    /// First message.
    pub first_msg_id: Option<String>,
    /// Last message.
    pub last_msg_id: Option<String>,
    /// The progression of all its messages.
    pub progression_id: Option<String>,
    /// Metadata of the writer.
    pub node_metadata: Option<Json>,
}

impl From<&sessions::Session> for Session {
    fn from(session: &sessions::Session) -> Self {
        Self {
            id: session.id.to_string(),
            user_id: session.user_id.clone(),
            name: session.name.clone(),
            scope: session.scope.clone(),
            status: session.status.map(SessionStatus::as_str),
            created_at: session.created_at.to_string(),
            started_at: session.started_at.map(|at| at.to_string()),
            updated_at: session.updated_at.to_string(),
            ended_at: session.ended_at.map(|at| at.to_string()),
            cwd: session.cwd.clone(),
            agent_name: session.agent_name.clone(),
            invocation_kind: session.invocation_kind.map(InvocationKind::as_str),
            playbook_name: session.playbook_name.clone(),
            show_topic: session.show_topic.clone(),
            show_play_name: session.show_play_name.clone(),
            artifacts_path: session.artifacts_path.clone(),
            source_kind: session.source_kind.as_str(),
            home_id: session.home_id.to_string(),
            log_path: session.log_path.clone(),
            log_epoch: session.log_epoch.0,
            first_msg_id: session.first_msg_id.clone(),
            last_msg_id: session.last_msg_id.clone(),
            progression_id: session.progression_id.clone(),
            node_metadata: session.node_metadata.as_deref().map(Json::of),
        }
    }
}

/// `{"session": {…}}`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionAnswer {
    /// The session.
    pub session: Session,
}

impl From<&sessions::Session> for SessionAnswer {
    fn from(session: &sessions::Session) -> Self {
        Self { session: session.into() }
    }
}

/// Everything about a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionDetail {
    /// The session.
    pub session: Session,
    /// End of the log; null if it cannot be read.
    pub position: Option<u64>,
    /// End of the log, with its epoch.
    pub cursor: Option<String>,
    /// Events in its log; null if it was never folded.
    pub events: Option<u64>,
    /// Size of its log; null if it was never folded.
    pub bytes: Option<u64>,
    /// Unreadable lines of the log.
    pub damaged_lines: Option<u64>,
    /// First timestamp in the log.
    pub first_event_at: Option<String>,
    /// Last timestamp in the log.
    pub last_event_at: Option<String>,
    /// Title from the log.
    pub title: Option<String>,
    /// Last model in the log.
    pub model: Option<String>,
    /// The dialect of its log.
    pub dialect: Option<String>,
    /// The process of the session.
    pub process: Option<SessionProcess>,
    /// The first branches.
    pub branches: Vec<Branch>,
    /// The last listed branch if there are more; continue with `sessions branches --after`.
    pub branches_next: Option<String>,
    /// Completeness of the counts.
    #[serde(flatten)]
    pub completeness: Completeness,
}

/// The process of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionProcess {
    /// Process id.
    pub pid: u32,
    /// The machine.
    pub host: Option<String>,
    /// Start time of the process.
    pub started_at: String,
    /// `elsewhere` if the process is on another machine.
    #[schemars(extend("enum" = ["alive", "dead", "elsewhere", "unknown"]))]
    pub liveness: &'static str,
}

impl From<&sessions::Owner> for SessionProcess {
    fn from(owner: &sessions::Owner) -> Self {
        let liveness = match owner.liveness {
            Liveness::Alive => "alive",
            Liveness::Dead => "dead",
            Liveness::Elsewhere => "elsewhere",
            Liveness::Unknown => "unknown",
        };
        Self { pid: owner.pid, host: owner.host.clone(), started_at: owner.since.to_string(), liveness }
    }
}

/// A status change of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionStatusChanged {
    /// The session.
    pub session_id: String,
    /// Status after the change.
    #[schemars(extend("enum" = words(SessionStatus::ALL, SessionStatus::as_str)))]
    pub status: &'static str,
    /// Status before the change.
    #[schemars(extend("enum" = words_or_null(SessionStatus::ALL, SessionStatus::as_str)))]
    pub previous_status: Option<&'static str>,
    /// False if the session already had this status.
    pub changed: bool,
}

/// The status changes of a session, newest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StatusHistory {
    /// The changes.
    pub transitions: Vec<StatusTransition>,
    /// False if there are more results.
    pub complete: bool,
}

/// A recorded status change of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StatusTransition {
    /// The status before.
    #[schemars(extend("enum" = words_or_null(SessionStatus::ALL, SessionStatus::as_str)))]
    pub previous_status: Option<&'static str>,
    /// The status after.
    #[schemars(extend("enum" = words(SessionStatus::ALL, SessionStatus::as_str)))]
    pub status: &'static str,
    /// Reason code.
    pub reason_code: Option<String>,
    /// Reason.
    pub reason: Option<String>,
    /// Actor of the change.
    pub actor: Option<String>,
    /// Evidence.
    pub evidence: Option<Json>,
    /// Time of the change.
    pub created_at: String,
}

impl From<&sessions::StatusTransition> for StatusTransition {
    fn from(one: &sessions::StatusTransition) -> Self {
        Self {
            previous_status: one.previous_status.map(SessionStatus::as_str),
            status: one.status.as_str(),
            reason_code: one.reason_code.clone(),
            reason: one.reason.clone(),
            actor: one.actor.clone(),
            evidence: one.evidence.as_deref().map(Json::of),
            created_at: one.created_at.to_string(),
        }
    }
}

/// A deleted session, or deleted parts of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionDeleted {
    /// The session.
    pub session_id: String,
    /// False if nothing was deleted.
    pub deleted: bool,
    /// Size of the log.
    pub log_bytes: u64,
    /// Branches in the state.
    pub branch_count: u64,
    /// Messages in the state.
    pub message_count: u64,
    /// The selected parts.
    pub parts: Vec<&'static str>,
}

/// Deleted sessions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionsDeleted {
    /// Number of sessions.
    pub session_count: u64,
    /// Size of the logs.
    pub log_bytes: u64,
}

/// A session exported as a document.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionExported {
    /// The session.
    pub session_id: String,
    /// The file.
    pub path: String,
    /// Branches.
    pub branch_count: u64,
    /// Messages.
    pub message_count: u64,
    /// Lines of the log.
    pub line_count: u64,
    /// False if the log lost bytes earlier; the document has the remaining lines.
    pub complete: bool,
    /// Number of lost bytes.
    pub lost_bytes: u64,
}

/// A session imported from a document.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionImported {
    /// The session.
    pub session: Session,
    /// Branches.
    pub branch_count: u64,
    /// Messages.
    pub message_count: u64,
    /// Lines of the log.
    pub line_count: u64,
    /// False if the log lost bytes before it was exported; the document has the remaining lines.
    pub complete: bool,
    /// Number of lost bytes.
    pub lost_bytes: u64,
}

impl From<&sessions::ImportedSession> for SessionImported {
    fn from(imported: &sessions::ImportedSession) -> Self {
        Self {
            session: (&imported.session).into(),
            branch_count: imported.held.branches,
            message_count: imported.held.messages,
            line_count: imported.held.lines,
            complete: imported.held.recorded_loss.is_none(),
            lost_bytes: imported.held.recorded_loss.map_or(0, |loss| loss.bytes),
        }
    }
}
