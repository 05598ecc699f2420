//! Pure decisions: the path of a new session's log, the validity of names, the identity of requests, and the role of an
//! item.

use std::borrow::Cow;
use std::path::Path;

use duolog_join::{NewLog, Stem};
use duolog_state::owned::sessions::SessionRow;
use duolog_types::json::{JsonFault, check_members};
use duolog_types::limits::{METADATA_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::names::{THREADS, check_name, project_slug, sanitize};
use duolog_types::{Bounded, HomeId, SessionId, Timestamp};

use serde::Serialize;

use super::adding::About;
use super::model::{NewSession, Session, SessionRef};
use crate::error::{Error, Invalid, Result};

/// Checks a new session and returns the plan of its log.
///
/// The path has the slug of the working directory and the session's id, or the user and the name, or the thread name.
pub(crate) fn plan(new: &NewSession, home: HomeId, at: Timestamp) -> Result<NewLog> {
    let id = new.id.clone().unwrap_or_else(SessionId::new);
    // A session with a user needs a name.
    let name = new.name.clone().or_else(|| new.user_id.as_ref().map(|_| fresh_name(at, &SessionId::new())));
    if let Some(name) = &name {
        check_name("session name", name)?;
    }
    if let Some(user) = &new.user_id {
        check_name("user", user)?;
    }
    for (what, text) in [
        ("agent_name", &new.agent_name),
        ("playbook_name", &new.playbook_name),
        ("show_topic", &new.show_topic),
        ("show_play_name", &new.show_play_name),
    ] {
        bounded::<NAME_BYTES_MAX>(what, text.as_deref().unwrap_or_default())?;
    }
    bounded::<PATH_BYTES_MAX>("artifacts_path", new.artifacts_path.as_deref().unwrap_or_default())?;
    if let Some(metadata) = &new.node_metadata {
        bounded::<METADATA_BYTES_MAX>("node_metadata", metadata)?;
    }
    let cwd = new.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    if let Some(cwd) = &cwd {
        bounded::<PATH_BYTES_MAX>("cwd", cwd)?;
    }
    let stem = stem_of(&id, cwd.as_deref(), new.user_id.as_deref(), name.as_deref());
    let mut row = SessionRow::new(id, home, &stem.scope, "", at);
    row.addressed = name.is_some();
    row.user_id.clone_from(&new.user_id);
    row.name = name;
    row.agent_name.clone_from(&new.agent_name);
    row.node_metadata.clone_from(&new.node_metadata);
    row.cwd = cwd;
    row.invocation_kind = new.invocation_kind;
    row.playbook_name.clone_from(&new.playbook_name);
    row.show_topic.clone_from(&new.show_topic);
    row.show_play_name.clone_from(&new.show_play_name);
    row.artifacts_path.clone_from(&new.artifacts_path);
    row.source_kind = new.source_kind.unwrap_or(row.source_kind);
    row.status = new.status;
    row.started_at = Some(new.started_at.unwrap_or(at));
    row.ended_at = new.ended_at.or_else(|| new.status.filter(|status| status.is_terminal()).map(|_| at));
    check_times(row.started_at, row.ended_at)?;
    Ok(NewLog { row, stem })
}

/// Returns an error if a session ends before it starts.
pub(super) fn check_times(started_at: Option<Timestamp>, ended_at: Option<Timestamp>) -> Result<()> {
    match started_at.zip(ended_at) {
        Some((started, ended)) if ended < started => Err(Error::Invalid(Invalid::Value {
            what: "ended_at",
            why: format!("{ended} is before started_at, {started}"),
        })),
        _ => Ok(()),
    }
}

/// Returns the stem of a log's path: the slug of the working directory and the id, the user and the name, or the thread
/// name.
pub(super) fn stem_of(id: &SessionId, cwd: Option<&str>, user: Option<&str>, name: Option<&str>) -> Stem {
    let by_id = |scope| Stem { scope, file: id.to_string(), name: id.to_string() };
    match (cwd, user, name) {
        (Some(cwd), _, _) => by_id(project_slug(cwd)),
        (None, Some(user), Some(name)) => Stem { scope: sanitize(user), file: sanitize(name), name: name.to_owned() },
        (None, Some(user), None) => by_id(sanitize(user)),
        (None, None, Some(name)) => Stem { scope: THREADS.to_owned(), file: sanitize(name), name: name.to_owned() },
        (None, None, None) => by_id(THREADS.to_owned()),
    }
}

/// Generates a name for a user's session: the time and six letters.
pub(super) fn fresh_name(at: Timestamp, id: &SessionId) -> String {
    let at = at.to_string();
    let to_millis = at.get(..23).unwrap_or(&at);
    let id = id.as_str();
    format!("session_{to_millis}Z_{}", &id[id.len().saturating_sub(6)..])
}

pub(crate) fn bounded<const MAX: usize>(what: &'static str, text: &str) -> Result<()> {
    Bounded::<MAX>::new(what, text).map(drop).map_err(Error::from)
}

/// Returns true if a text is the full id or the thread name of a session.
pub(super) fn is_called(session: &Session, text: &str) -> bool {
    session.id.as_str() == text || (session.user_id.is_none() && session.name.as_deref() == Some(text))
}

/// The content of a request under an operation id, by which a repetition is recognised.
#[derive(Serialize)]
pub(super) struct Request<'r> {
    what: &'static str,
    fields: Vec<Option<Cow<'r, str>>>,
}

impl<'r> Request<'r> {
    /// Creates a session. A generated id is not part of the request.
    pub(super) fn create(new: &'r NewSession) -> Self {
        let NewSession {
            id,
            user_id,
            name,
            cwd,
            agent_name,
            invocation_kind,
            playbook_name,
            show_topic,
            show_play_name,
            artifacts_path,
            source_kind,
            status,
            pid,
            started_at,
            ended_at,
            node_metadata,
        } = new;
        let texts =
            [user_id, name, agent_name, playbook_name, show_topic, show_play_name, artifacts_path, node_metadata];
        let mut fields: Vec<Option<Cow<'r, str>>> = texts.map(|text| text.as_deref().map(Cow::Borrowed)).into();
        fields.extend([
            id.as_ref().map(|id| id.as_str().into()),
            cwd.as_deref().map(Path::to_string_lossy),
            invocation_kind.map(|kind| kind.as_str().into()),
            source_kind.map(|kind| kind.as_str().into()),
            status.map(|status| status.as_str().into()),
            pid.map(|pid| pid.to_string().into()),
            started_at.map(|at| at.to_string().into()),
            ended_at.map(|at| at.to_string().into()),
        ]);
        Self { what: "create session", fields }
    }

    /// Renames a session.
    pub(super) fn rename(which: &'r SessionRef, name: &'r str) -> Self {
        let [user, session] = parts(which);
        Self { what: "rename session", fields: [user, session, Some(name)].map(|text| text.map(Cow::Borrowed)).into() }
    }

    /// Deletes a session.
    pub(super) fn delete(which: &'r SessionRef) -> Self {
        Self { what: "delete session", fields: parts(which).map(|text| text.map(Cow::Borrowed)).into() }
    }
}

/// The text of a reference, by which it is known when its request is repeated.
pub(super) fn reference_text(which: &SessionRef) -> Result<String> {
    serde_json::to_string(&parts(which)).map_err(|error| duolog_join::Error::NoJson(error).into())
}

pub(super) fn parts(which: &SessionRef) -> [Option<&str>; 2] {
    match which {
        SessionRef::Text(text) => [None, Some(text)],
        SessionRef::UserAndName { user, name } => [Some(user), Some(name)],
    }
}

/// The content of a request that adds items.
#[derive(Serialize)]
pub(super) struct Added<'r> {
    pub(super) what: &'static str,
    pub(super) branch: Option<&'r str>,
    pub(super) items: &'r [&'r str],
    pub(super) system: Option<&'r str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) embeddings: &'r [Vec<f32>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) about: &'r [About],
}

/// The role of an item that has none.
const NO_ROLE: &str = "item";

/// The properties that an item states.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen<'i> {
    /// The role of its speaker.
    pub(crate) role: Cow<'i, str>,
    /// True if a summary may replace it: not a message of the user, and not another summary.
    pub(crate) compactable: bool,
}

/// Checks that an item is JSON and reads its role, in one pass.
pub(crate) fn seen_in(item: &str) -> Result<Seen<'_>, JsonFault> {
    let (mut role, mut kind, mut readable) = (None, None, true);
    // The last of two members with the same name counts. A value that is not an object has no members.
    check_members(item, |name, value| match text_of(name).as_deref() {
        Some("role") => role = value,
        Some("type") => kind = value,
        Some(_) => {}
        None => readable = false,
    })?;
    // An object with an unreadable member name counts as having no members.
    let (role, kind) = if readable { (role.and_then(text_of), kind.and_then(text_of)) } else { (None, None) };
    let by_user = role.as_deref() == Some("user") && kind.as_deref().is_none_or(|kind| kind == "message");
    let compactable = !by_user && kind.as_deref() != Some("compaction");
    let role = role.filter(|role| !role.trim().is_empty() && role.len() <= WORD_BYTES_MAX);
    Ok(Seen { role: role.unwrap_or(NO_ROLE.into()), compactable })
}

/// Returns the text of a JSON string; `None` if it is not valid Unicode, such as half of a surrogate pair.
fn text_of(string: &str) -> Option<Cow<'_, str>> {
    let plain = string.strip_prefix('"')?.strip_suffix('"')?;
    if plain.contains('\\') { serde_json::from_str(string).ok().map(Cow::Owned) } else { Some(plain.into()) }
}

/// Returns true if two texts are equal JSON.
pub(super) fn is_same_json(one: &str, other: &str) -> bool {
    let parsed = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    one == other || parsed(one).is_some_and(|one| Some(one) == parsed(other))
}
