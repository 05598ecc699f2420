//! `sessions`: who they are, where their logs are, how they stand.

use duolog_types::{
    Epoch, HomeId, InvocationKind, MessageId, Position, ProgressionId, SessionId, SessionStatus, SourceKind, Timestamp,
};

use super::{inboxes, progressions};
use crate::engine::{Row, Sql, Tx, Value, row};
use crate::error::Result;
use crate::page::{ListId, Page, PageOrder, PageToken};
use crate::params;

/// A list takes no `node_metadata` (I5); figures come from the catalog where the fold has been.
macro_rules! summary_columns {
    () => {
        "s.id, s.home_id, s.created_at, s.user_id, s.name, s.scope, s.log_path, s.log_epoch, s.cwd, s.agent_name, \
         s.invocation_kind, s.source_kind, s.status, s.started_at, s.updated_at, s.ended_at, c.events, c.bytes, \
         c.last_at, c.title, c.model, c.dialect"
    };
}

/// A session, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// The key that joins the two stores.
    pub id: SessionId,
    /// The home that owns its log.
    pub home_id: HomeId,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whose it is.
    pub user_id: Option<String>,
    /// What people call it.
    pub name: Option<String>,
    /// Whether user and name lead to it: unique then. Otherwise only its id does.
    pub addressed: bool,
    /// The folder of its log: a project's slug, a user, or `threads`.
    pub scope: String,
    /// Its log, relative to the state directory.
    pub log_path: String,
    /// The same path with its case folded: unique in a home on any file system.
    pub log_key: String,
    /// Where the hot file begins.
    pub log_base: Position,
    /// The log's epoch.
    pub log_epoch: Epoch,
    /// The working directory it belongs to.
    pub cwd: Option<String>,
    /// The agent's name.
    pub agent_name: Option<String>,
    /// What started it.
    pub invocation_kind: Option<InvocationKind>,
    /// The playbook it runs.
    pub playbook_name: Option<String>,
    /// The topic of its show.
    pub show_topic: Option<String>,
    /// The play of its show.
    pub show_play_name: Option<String>,
    /// Where it keeps its artifacts.
    pub artifacts_path: Option<String>,
    /// Where it came from.
    pub source_kind: SourceKind,
    /// How it stands.
    pub status: Option<SessionStatus>,
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
    /// Its progression.
    pub progression_id: Option<String>,
    /// Whatever its maker keeps with it, as JSON.
    pub node_metadata: Option<String>,
    /// When it was deleted; the row goes once its log is gone.
    pub deleted_at: Option<Timestamp>,
    /// The file at the path, if there is one, is of the previous epoch and is still to be unlinked.
    pub unlink_due: bool,
}

row!(SessionRow, columns:
    id, home_id, created_at, user_id, name, addressed, scope, log_path, log_key, log_base, log_epoch, cwd,
    agent_name, invocation_kind, playbook_name, show_topic, show_play_name, artifacts_path, source_kind, status,
    started_at, updated_at, ended_at, first_msg_id, last_msg_id, progression_id, node_metadata, deleted_at,
    unlink_due
);

impl SessionRow {
    /// A live session with this id and log, and nothing said about it yet.
    pub fn new(id: SessionId, home: HomeId, scope: &str, log_path: &str, at: Timestamp) -> Self {
        Self {
            id,
            home_id: home,
            created_at: at,
            user_id: None,
            name: None,
            addressed: false,
            scope: scope.to_owned(),
            log_path: log_path.to_owned(),
            log_key: log_path.to_lowercase(),
            log_base: Position::ZERO,
            log_epoch: Epoch(0),
            cwd: None,
            agent_name: None,
            invocation_kind: None,
            playbook_name: None,
            show_topic: None,
            show_play_name: None,
            artifacts_path: None,
            source_kind: SourceKind::Live,
            status: None,
            started_at: None,
            updated_at: at,
            ended_at: None,
            first_msg_id: None,
            last_msg_id: None,
            progression_id: None,
            node_metadata: None,
            deleted_at: None,
            unlink_due: false,
        }
    }
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummaryRow {
    /// The key that joins the two stores.
    pub id: SessionId,
    /// The home that owns its log.
    pub home_id: HomeId,
    /// When it was made.
    pub created_at: Timestamp,
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
    /// Where it came from.
    pub source_kind: SourceKind,
    /// How it stands.
    pub status: Option<SessionStatus>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its events as far as folded; nothing when it never was.
    pub events: Option<u64>,
    /// Its bytes as far as folded; nothing when it never was.
    pub bytes: Option<u64>,
    /// The latest instant that a folded line names.
    pub last_at: Option<Timestamp>,
    /// What its lines call it.
    pub title: Option<String>,
    /// The model that its lines named last.
    pub model: Option<String>,
    /// The dialect that its lines are in.
    pub dialect: Option<String>,
}

row!(SessionSummaryRow:
    id, home_id, created_at, user_id, name, scope, log_path, log_epoch, cwd, agent_name, invocation_kind,
    source_kind, status, started_at, updated_at, ended_at, events, bytes, last_at, title, model, dialect
);

/// Where a session's log is.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRow {
    /// The session.
    pub session_id: SessionId,
    /// Its log, relative to the state directory.
    pub path: String,
    /// Where the hot file begins.
    pub base: Position,
    /// The log's epoch.
    pub epoch: Epoch,
    /// Whether the session was deleted and only the row is left.
    pub deleted: bool,
    /// The file at the path, if there is one, is of the previous epoch and is still to be unlinked.
    pub unlink_due: bool,
}

/// How far a session's log is folded.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedRow {
    /// The session.
    pub session_id: SessionId,
    /// The log's epoch.
    pub epoch: Epoch,
    /// The epoch of which derived rows tell, and up to where; nothing when it never was folded.
    pub folded: Option<(Epoch, Position)>,
    /// The log's path, beneath the state directory.
    pub path: String,
    /// The position of the first byte of its file.
    pub base: Position,
}

/// A session whose log is in another home.
#[derive(Debug, Clone, PartialEq)]
pub struct ElsewhereRow {
    /// The session.
    pub session_id: SessionId,
    /// The home that has its log.
    pub home_id: HomeId,
}

/// Which sessions a list shows. Nothing said is all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionFilter {
    /// Only this user's.
    pub user_id: Option<String>,
    /// Only those that stand so.
    pub status: Option<SessionStatus>,
    /// Only those of this agent.
    pub agent_name: Option<String>,
    /// Only those of this playbook.
    pub playbook_name: Option<String>,
    /// Only those that were started so.
    pub invocation_kind: Option<InvocationKind>,
    /// Only those that came from there.
    pub source_kind: Option<SourceKind>,
    /// Only those of this working directory.
    pub cwd: Option<String>,
    /// Only those that changed then or later.
    pub since: Option<Timestamp>,
}

impl SessionFilter {
    /// The list of these sessions, as its page tokens name it.
    #[doc(hidden)]
    pub fn list(&self) -> ListId {
        let filters = [
            self.user_id.as_deref(),
            self.status.map(SessionStatus::as_str),
            self.agent_name.as_deref(),
            self.playbook_name.as_deref(),
            self.invocation_kind.map(InvocationKind::as_str),
            self.source_kind.map(SourceKind::as_str),
            self.cwd.as_deref(),
        ];
        ListId::of("sessions", &filters)
    }
}

/// Adds a session. A taken id, log or address is a [`crate::ConstraintKind::Unique`] error.
pub fn insert(tx: &mut Tx<'_>, row: &SessionRow) -> Result<()> {
    let sql = concat!(
        "INSERT INTO sessions (",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
         ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)"
    );
    tx.execute(sql, &row.values()).map(drop)
}

/// The session with this id, deleted or not.
pub fn find(tx: &mut Tx<'_>, id: &SessionId) -> Result<Option<SessionRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM sessions WHERE id = ?1"), params![id], SessionRow::read)
}

/// The session that a user and a name lead to; no user is a user of its own.
pub fn find_addressed(tx: &mut Tx<'_>, user: Option<&str>, name: &str) -> Result<Option<SessionRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM sessions WHERE COALESCE(user_id, '') = ?1 AND name = ?2 AND addressed = 1 AND deleted_at IS NULL"
    );
    tx.find(sql, params![user.unwrap_or_default(), name], SessionRow::read)
}

/// The session of a home whose log this is, deleted or not.
pub fn find_by_log(tx: &mut Tx<'_>, home: &HomeId, log_path: &str) -> Result<Option<SessionRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM sessions WHERE home_id = ?1 AND log_key = ?2");
    let found = tx.find(sql, params![home, log_path.to_lowercase()], SessionRow::read)?;
    // One whose path differs only in the case of its letters is another.
    Ok(found.filter(|row| row.log_path == log_path))
}

/// Returns true if a session that is not deleted has this log, in this epoch, and no older file is to be unlinked first.
pub fn names_log(tx: &mut Tx<'_>, id: &SessionId, log_path: &str, epoch: Epoch) -> Result<bool> {
    let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND log_path = ?2 AND log_epoch = ?3 AND deleted_at IS NULL \
               AND unlink_due = 0";
    Ok(tx.find(sql, params![id, log_path, epoch], |_| Ok(()))?.is_some())
}

/// The ids that start so, in order, for completing a shortened id. Deleted sessions are not among them.
pub fn starting_with(tx: &mut Tx<'_>, prefix: &str, limit: u32) -> Result<Vec<SessionId>> {
    let sql = "SELECT id FROM sessions WHERE id >= ?1 AND id < ?2 AND deleted_at IS NULL ORDER BY id LIMIT ?3";
    // Ids are ASCII: what starts with the prefix sorts before the prefix and the last character there is.
    let end = format!("{prefix}\u{10ffff}");
    tx.all(sql, params![prefix, end, limit], |row| row.get(0))
}

/// Notes that it changed. An instant never goes back, so that a list does not either.
pub fn touch(tx: &mut Tx<'_>, id: &SessionId, at: Timestamp) -> Result<()> {
    tx.execute("UPDATE sessions SET updated_at = ?2 WHERE id = ?1 AND updated_at < ?2", params![id, at]).map(drop)
}

/// Gives it another name; false when there is no such session. A taken name is a unique-constraint error.
pub fn rename(tx: &mut Tx<'_>, id: &SessionId, name: &str, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE sessions SET name = ?2, updated_at = ?3 WHERE id = ?1 AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, name, at])? == 1)
}

/// Writes what a session says about itself, as this row has it; false when there is no such session.
pub fn describe(tx: &mut Tx<'_>, row: &SessionRow, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE sessions SET agent_name = ?2, invocation_kind = ?3, playbook_name = ?4, show_topic = ?5, \
               show_play_name = ?6, artifacts_path = ?7, source_kind = ?8, started_at = ?9, ended_at = ?10, \
               node_metadata = ?11, updated_at = CASE WHEN updated_at < ?12 THEN ?12 ELSE updated_at END \
               WHERE id = ?1 AND deleted_at IS NULL";
    let values = params![
        &row.id,
        row.agent_name.as_ref(),
        row.invocation_kind,
        row.playbook_name.as_ref(),
        row.show_topic.as_ref(),
        row.show_play_name.as_ref(),
        row.artifacts_path.as_ref(),
        row.source_kind,
        row.started_at,
        row.ended_at,
        row.node_metadata.as_ref(),
        at,
    ];
    Ok(tx.execute(sql, values)? == 1)
}

/// The sessions of a home, or of one user there, by id, after this one. Deleted sessions are not among them.
pub fn ids(
    tx: &mut Tx<'_>,
    home: &HomeId,
    user: Option<&str>,
    after: Option<&SessionId>,
    limit: u32,
) -> Result<Vec<SessionId>> {
    let all = "SELECT id FROM sessions WHERE home_id = ?1 AND id > ?2 AND deleted_at IS NULL ORDER BY id LIMIT ?3";
    let of_user = "SELECT id FROM sessions WHERE home_id = ?1 AND id > ?2 AND deleted_at IS NULL AND user_id = ?4 \
                   ORDER BY id LIMIT ?3";
    let after = after.map_or("", SessionId::as_str);
    match user {
        Some(user) => tx.all(of_user, params![home, after, limit, user], |row| row.get(0)),
        None => tx.all(all, params![home, after, limit], |row| row.get(0)),
    }
}

/// How many sessions of a home there are, or of one user there. Deleted sessions are not counted.
pub fn count(tx: &mut Tx<'_>, home: &HomeId, user: Option<&str>) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM sessions WHERE home_id = ?1 AND deleted_at IS NULL";
    let found = match user {
        Some(user) => tx.find(&format!("{sql} AND user_id = ?2"), params![home, user], |row| row.get(0))?,
        None => tx.find(sql, params![home], |row| row.get(0))?,
    };
    Ok(found.unwrap_or_default())
}

/// Raises the epoch of its log; false when it is not what the caller saw, or the session is deleted.
pub fn raise_epoch(tx: &mut Tx<'_>, id: &SessionId, from: Epoch) -> Result<bool> {
    let sql = "UPDATE sessions SET log_epoch = ?3 WHERE id = ?1 AND log_epoch = ?2 AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, from, from.next()])? == 1)
}

/// Notes that the file of the epoch before this one is still to be unlinked.
pub fn owe_unlink(tx: &mut Tx<'_>, id: &SessionId, epoch: Epoch) -> Result<bool> {
    let sql = "UPDATE sessions SET unlink_due = 1 WHERE id = ?1 AND log_epoch = ?2 AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, epoch])? == 1)
}

/// Confirms that the file of the epoch before this one is still to be unlinked: once this is synced, that it is, is too.
pub fn confirm_unlink(tx: &mut Tx<'_>, id: &SessionId, epoch: Epoch) -> Result<bool> {
    let sql = "UPDATE sessions SET unlink_due = 1 WHERE id = ?1 AND log_epoch = ?2 AND unlink_due = 1 \
               AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, epoch])? == 1)
}

/// Notes that it was unlinked; false if that was noted before, or the log is of another epoch by now.
pub fn note_unlinked(tx: &mut Tx<'_>, id: &SessionId, epoch: Epoch) -> Result<bool> {
    let sql = "UPDATE sessions SET unlink_due = 0 WHERE id = ?1 AND log_epoch = ?2 AND unlink_due = 1";
    Ok(tx.execute(sql, params![id, epoch])? == 1)
}

/// Sessions of a home whose log was deleted and whose file is still to be unlinked.
pub fn with_unlink_due(tx: &mut Tx<'_>, home: &HomeId, limit: u32) -> Result<Vec<SessionId>> {
    let sql = "SELECT id FROM sessions WHERE home_id = ?1 AND unlink_due = 1 ORDER BY id LIMIT ?2";
    tx.all(sql, params![home, limit], |row| row.get(0))
}

/// Marks the session with this log deleted; false when it is gone, marked already, or another by now. Its name is free
/// from here on, its log path never is.
pub fn tombstone(tx: &mut Tx<'_>, id: &SessionId, log_path: &str, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE sessions SET deleted_at = ?3, updated_at = ?3 \
               WHERE id = ?1 AND log_path = ?2 AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, log_path, at])? == 1)
}

/// Sessions of a home whose deletion was begun and not finished.
pub fn tombstoned(tx: &mut Tx<'_>, home: &HomeId, limit: u32) -> Result<Vec<SessionId>> {
    let sql = "SELECT id FROM sessions WHERE home_id = ?1 AND deleted_at IS NOT NULL ORDER BY id LIMIT ?2";
    tx.all(sql, params![home, limit], |row| row.get(0))
}

/// What a session's conversations need to know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolRow {
    /// Whether it was deleted and only the row is left.
    pub deleted: bool,
    /// The progression of what is on none of its branches.
    pub progression_id: Option<ProgressionId>,
}

impl PoolRow {
    pub(super) fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self { deleted: row.get::<Option<Timestamp>>(0)?.is_some(), progression_id: row.get(1)? })
    }
}

/// What a session's conversations need to know of it.
pub fn pool(tx: &mut Tx<'_>, id: &SessionId) -> Result<Option<PoolRow>> {
    let sql = "SELECT deleted_at, progression_id FROM sessions WHERE id = ?1";
    tx.find(sql, params![id], PoolRow::read)
}

/// Notes a change of its conversations as one of the session; false where there is none.
///
/// Every such change begins so, and they wait for each other: on a server, one that was overtaken by another is run again.
pub fn enter(tx: &mut Tx<'_>, id: &SessionId, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE sessions SET updated_at = CASE WHEN updated_at < ?2 THEN ?2 ELSE updated_at END WHERE id = ?1";
    Ok(tx.execute(sql, params![id, at])? == 1)
}

/// The same, for messages that will stand at the end of its pool, by the first and the last of them: its row is written
/// once.
pub fn enter_with(tx: &mut Tx<'_>, id: &SessionId, at: Timestamp, first: &MessageId, last: &MessageId) -> Result<bool> {
    let sql = "UPDATE sessions SET updated_at = CASE WHEN updated_at < ?2 THEN ?2 ELSE updated_at END, \
               first_msg_id = COALESCE(first_msg_id, ?3), last_msg_id = ?4 WHERE id = ?1";
    Ok(tx.execute(sql, params![id, at, first, last])? == 1)
}

/// Gives it the progression of what is on none of its branches.
pub fn set_pool(tx: &mut Tx<'_>, id: &SessionId, pool: &ProgressionId) -> Result<()> {
    tx.execute("UPDATE sessions SET progression_id = ?2 WHERE id = ?1", params![id, pool]).map(drop)
}

/// Notes messages at the end of its pool, by the first and the last of them.
pub fn note_messages(tx: &mut Tx<'_>, id: &SessionId, first: &MessageId, last: &MessageId) -> Result<()> {
    let sql = "UPDATE sessions SET first_msg_id = COALESCE(first_msg_id, ?2), last_msg_id = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, first, last]).map(drop)
}

/// Notes the first and the last message of its pool anew, after some were taken away.
pub fn set_bookmarks(
    tx: &mut Tx<'_>,
    id: &SessionId,
    first: Option<&MessageId>,
    last: Option<&MessageId>,
) -> Result<()> {
    let sql = "UPDATE sessions SET first_msg_id = ?2, last_msg_id = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, first, last]).map(drop)
}

/// Takes its conversations away, with the messages that nothing else names; the row, how it stands and its log stay.
pub fn forget_conversations(tx: &mut Tx<'_>, id: &SessionId) -> Result<()> {
    progressions::remove_of(tx, id)?;
    let sql = "UPDATE sessions SET progression_id = NULL, first_msg_id = NULL, last_msg_id = NULL WHERE id = ?1";
    tx.execute(sql, params![id]).map(drop)
}

/// Changes how it stands, if it stands as the caller saw; false otherwise.
///
/// Running, it has not ended, and has begun now if it never had; otherwise it ended now.
pub fn set_status(
    tx: &mut Tx<'_>,
    id: &SessionId,
    from: Option<SessionStatus>,
    to: SessionStatus,
    at: Timestamp,
) -> Result<bool> {
    let ended = to.is_terminal().then_some(at);
    let sql = "UPDATE sessions SET status = ?3, started_at = COALESCE(started_at, ?4), ended_at = ?5, updated_at = ?4 \
               WHERE id = ?1 AND status IS NOT DISTINCT FROM ?2 AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, from, to, at, ended])? == 1)
}

/// Removes the row of a session that was marked deleted, its inboxes, and all that hangs on it; false when there is none with this
/// log. Repairs stay, and messages that others name.
pub fn remove(tx: &mut Tx<'_>, id: &SessionId, log_path: &str) -> Result<bool> {
    let marked = "SELECT 1 FROM sessions WHERE id = ?1 AND log_path = ?2 AND deleted_at IS NOT NULL";
    if tx.find(marked, params![id, log_path], |_| Ok(()))?.is_none() {
        return Ok(false);
    }
    inboxes::remove_of_session(tx, id)?;
    progressions::remove_of(tx, id)?;
    Ok(tx.execute("DELETE FROM sessions WHERE id = ?1", params![id])? == 1)
}

/// The logs of a home, by id, after this one: for sweeps. Deleted sessions are among them.
pub fn logs(tx: &mut Tx<'_>, home: &HomeId, after: Option<&SessionId>, limit: u32) -> Result<Vec<LogRow>> {
    let sql = "SELECT id, log_path, log_base, log_epoch, deleted_at, unlink_due FROM sessions \
               WHERE home_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![home, after.map_or("", SessionId::as_str), limit], |row| {
        Ok(LogRow {
            session_id: row.get(0)?,
            path: row.get(1)?,
            base: row.get(2)?,
            epoch: row.get(3)?,
            deleted: row.get::<Option<Timestamp>>(4)?.is_some(),
            unlink_due: row.get(5)?,
        })
    })
}

/// How far the logs of a home are folded, by id, after this one. Deleted sessions are not among them.
pub fn folded(tx: &mut Tx<'_>, home: &HomeId, after: Option<&SessionId>, limit: u32) -> Result<Vec<FoldedRow>> {
    let sql = "SELECT s.id, s.log_epoch, c.epoch, c.position, s.log_path, s.log_base FROM sessions s LEFT JOIN catalog c \
               ON c.session_id = s.id WHERE s.home_id = ?1 AND s.id > ?2 AND s.deleted_at IS NULL \
               ORDER BY s.id LIMIT ?3";
    tx.all(sql, params![home, after.map_or("", SessionId::as_str), limit], |row| {
        let folded = row.get::<Option<Epoch>>(2)?.zip(row.get::<Option<Position>>(3)?);
        let (session_id, epoch, path, base) = (row.get(0)?, row.get(1)?, row.get(4)?, row.get(5)?);
        Ok(FoldedRow { session_id, epoch, folded, path, base })
    })
}

/// The sessions of other homes whose logs have lines, or may have some, by home and id: their number and the first of
/// them.
pub fn elsewhere(tx: &mut Tx<'_>, home: &HomeId, limit: u32) -> Result<(u64, Vec<ElsewhereRow>)> {
    const WHERE: &str = "FROM sessions s WHERE (s.home_id < ?1 OR s.home_id > ?1) AND s.deleted_at IS NULL AND \
                         (EXISTS (SELECT 1 FROM catalog c WHERE c.session_id = s.id AND c.epoch = s.log_epoch \
                         AND c.position > s.log_base) OR EXISTS (SELECT 1 FROM behind b WHERE b.session_id = s.id))";
    let count = tx.find(&format!("SELECT COUNT(*) {WHERE}"), params![home], |row| row.get(0))?.unwrap_or(0);
    if count == 0 {
        return Ok((0, Vec::new()));
    }
    let sql = format!("SELECT s.id, s.home_id {WHERE} ORDER BY s.home_id, s.id LIMIT ?2");
    let first =
        tx.all(&sql, params![home, limit], |row| Ok(ElsewhereRow { session_id: row.get(0)?, home_id: row.get(1)? }))?;
    Ok((count, first))
}

/// A page of sessions, in the order of the page. Deleted ones are not among them.
pub fn list(tx: &mut Tx<'_>, filter: &SessionFilter, page: &Page) -> Result<Vec<SessionSummaryRow>> {
    let (sql, values) = list_statement(filter, page);
    tx.all(&sql, &values, SessionSummaryRow::read)
}

/// A page of sessions and where the next one begins; nothing where this is the last.
pub fn list_page(
    tx: &mut Tx<'_>,
    filter: &SessionFilter,
    page: &Page,
) -> Result<(Vec<SessionSummaryRow>, Option<PageToken>)> {
    let mut rows = list(tx, filter, &page.with_one_more())?;
    let more = rows.len() > page.limit() as usize;
    rows.truncate(page.limit() as usize);
    let token = |last: &SessionSummaryRow| {
        let at = if page.order() == PageOrder::Created { last.created_at } else { last.updated_at };
        PageToken::new(filter.list(), page.order().rank(), at, &last.id)
    };
    let next = rows.last().filter(|_| more).map(token);
    Ok((rows, next))
}

/// The statement of [`list`]; each filter has an index in this very order.
fn list_statement<'a>(filter: &'a SessionFilter, page: &'a Page) -> (String, Vec<Value<'a>>) {
    let mut sql = String::from(concat!(
        "SELECT ",
        summary_columns!(),
        " FROM sessions s LEFT JOIN catalog c ON c.session_id = s.id WHERE s.deleted_at IS NULL"
    ));
    let mut values = Vec::new();
    let mut and = |clause: &str, value: Value<'a>| {
        values.push(value);
        sql.push_str(&clause.replace("?#", &format!("?{}", values.len())));
    };
    if let Some(user) = &filter.user_id {
        and(" AND s.user_id = ?#", user.into());
    }
    if let Some(status) = filter.status {
        and(" AND s.status = ?#", status.into());
    }
    if let Some(agent) = &filter.agent_name {
        and(" AND s.agent_name = ?#", agent.into());
    }
    if let Some(playbook) = &filter.playbook_name {
        and(" AND s.playbook_name = ?#", playbook.into());
    }
    if let Some(kind) = filter.invocation_kind {
        and(" AND s.invocation_kind = ?#", kind.into());
    }
    match filter.source_kind {
        // Most sessions are live: they are found by walking the newest.
        Some(SourceKind::Live) => and(" AND s.source_kind = ?#", SourceKind::Live.into()),
        // The planner takes the index of the others only if it is told that this is one.
        Some(kind) => and(" AND s.source_kind <> 'live' AND s.source_kind = ?#", kind.into()),
        None => {}
    }
    if let Some(cwd) = &filter.cwd {
        and(" AND s.cwd = ?#", cwd.into());
    }
    if let Some(since) = filter.since {
        and(" AND s.updated_at >= ?#", since.into());
    }
    let (behind, order) = match page.order() {
        PageOrder::Updated => (" AND (s.updated_at, s.id) < (?#", " ORDER BY s.updated_at DESC, s.id DESC LIMIT ?#"),
        PageOrder::Created => (" AND (s.created_at, s.id) < (?#", " ORDER BY s.created_at DESC, s.id DESC LIMIT ?#"),
    };
    if let Some(after) = page.after() {
        and(behind, after.at().into());
        and(", ?#)", after.key().into());
    }
    and(order, page.limit().into());
    (sql, values)
}

/// How the engine says that it answers [`list`], a line per step: for holding it to its index.
pub fn explain_list(tx: &mut Tx<'_>, filter: &SessionFilter, page: &Page) -> Result<Vec<String>> {
    let (sql, values) = list_statement(filter, page);
    // SQLite's answer has the words in its last column, and PostgreSQL's has no other.
    let (sqlite, postgres) = (format!("EXPLAIN QUERY PLAN {sql}"), format!("EXPLAIN (COSTS OFF) {sql}"));
    tx.all(Sql::each(&sqlite, &postgres), &values, |row| row.get(row.width() - 1))
}

/// How many sessions stand how, deleted ones not counted. Those of which nobody has said come with `None`.
pub fn count_by_status(tx: &mut Tx<'_>) -> Result<Vec<(Option<SessionStatus>, u64)>> {
    // Both are counted in an index; the rest is of which nobody has said.
    let all = "SELECT COUNT(*) FROM sessions WHERE deleted_at IS NULL";
    let said = "SELECT status, COUNT(*) FROM sessions WHERE status IS NOT NULL AND deleted_at IS NULL \
                GROUP BY status ORDER BY status";
    let all = tx.find(all, &[], |row| row.get(0))?.unwrap_or(0_u64);
    let said = tx.all(said, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let unsaid = all.saturating_sub(said.iter().map(|(_, count)| count).sum());
    let unsaid = (unsaid > 0).then_some((None, unsaid));
    Ok(unsaid.into_iter().chain(said).collect())
}
