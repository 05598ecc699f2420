//! `sessions`: their identity, the location of their logs, and their status.

use duolog_types::{
    Epoch, HomeId, InvocationKind, MessageId, Position, ProgressionId, SessionId, SessionStatus, SourceKind, Timestamp,
};

use super::{inboxes, progressions};
use crate::engine::{Row, Sql, Tx, Value, row};
use crate::error::Result;
use crate::page::{ListId, Page, PageOrder, PageToken};
use crate::params;

/// A list has no `node_metadata` (I5). The counts come from the catalog, if the log was folded.
macro_rules! summary_columns {
    () => {
        "s.id, s.home_id, s.created_at, s.user_id, s.name, s.scope, s.log_path, s.log_epoch, s.cwd, s.agent_name, \
         s.invocation_kind, s.source_kind, s.status, s.started_at, s.updated_at, s.ended_at, c.events, c.bytes, \
         c.last_at, c.title, c.model, c.dialect"
    };
}

/// A session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// The key that joins the log and the state.
    pub id: SessionId,
    /// The home that has its log.
    pub home_id: HomeId,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its user.
    pub user_id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// True if user and name identify it; then they are unique. Otherwise only the id does.
    pub addressed: bool,
    /// The directory of its log: a project's slug, a user, or `threads`.
    pub scope: String,
    /// The path of its log, relative to the state directory.
    pub log_path: String,
    /// The path in lower case: unique within a home, on any file system.
    pub log_key: String,
    /// The position of the first byte of the log file.
    pub log_base: Position,
    /// The log's epoch.
    pub log_epoch: Epoch,
    /// Its working directory.
    pub cwd: Option<String>,
    /// The agent's name.
    pub agent_name: Option<String>,
    /// How it was started.
    pub invocation_kind: Option<InvocationKind>,
    /// Its playbook.
    pub playbook_name: Option<String>,
    /// The topic of its show.
    pub show_topic: Option<String>,
    /// The play of its show.
    pub show_play_name: Option<String>,
    /// The path of its artifacts.
    pub artifacts_path: Option<String>,
    /// Its source.
    pub source_kind: SourceKind,
    /// Its status.
    pub status: Option<SessionStatus>,
    /// When it started.
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
    /// JSON that its creator stores with it.
    pub node_metadata: Option<String>,
    /// When it was deleted. The row is deleted after its log file.
    pub deleted_at: Option<Timestamp>,
    /// The file at the path, if there is one, belongs to the previous epoch and must be unlinked.
    pub unlink_due: bool,
}

row!(SessionRow, columns:
    id, home_id, created_at, user_id, name, addressed, scope, log_path, log_key, log_base, log_epoch, cwd,
    agent_name, invocation_kind, playbook_name, show_topic, show_play_name, artifacts_path, source_kind, status,
    started_at, updated_at, ended_at, first_msg_id, last_msg_id, progression_id, node_metadata, deleted_at,
    unlink_due
);

impl SessionRow {
    /// Returns a live session with this id and log, and no other details.
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
    /// The key that joins the log and the state.
    pub id: SessionId,
    /// The home that has its log.
    pub home_id: HomeId,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its user.
    pub user_id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// The directory of its log.
    pub scope: String,
    /// The path of its log, relative to the state directory.
    pub log_path: String,
    /// The log's epoch.
    pub log_epoch: Epoch,
    /// Its working directory.
    pub cwd: Option<String>,
    /// The agent's name.
    pub agent_name: Option<String>,
    /// How it was started.
    pub invocation_kind: Option<InvocationKind>,
    /// Its source.
    pub source_kind: SourceKind,
    /// Its status.
    pub status: Option<SessionStatus>,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The number of folded events. `None` if it was never folded.
    pub events: Option<u64>,
    /// The number of folded bytes. `None` if it was never folded.
    pub bytes: Option<u64>,
    /// The timestamp of the last folded line that has one.
    pub last_at: Option<Timestamp>,
    /// The title that its lines give it.
    pub title: Option<String>,
    /// The last model that a line names.
    pub model: Option<String>,
    /// The dialect of its lines.
    pub dialect: Option<String>,
}

row!(SessionSummaryRow:
    id, home_id, created_at, user_id, name, scope, log_path, log_epoch, cwd, agent_name, invocation_kind,
    source_kind, status, started_at, updated_at, ended_at, events, bytes, last_at, title, model, dialect
);

/// The location of a session's log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRow {
    /// The session.
    pub session_id: SessionId,
    /// The path of the log, relative to the state directory.
    pub path: String,
    /// The position of the first byte of the log file.
    pub base: Position,
    /// The log's epoch.
    pub epoch: Epoch,
    /// True if the session was deleted and only the row is left.
    pub deleted: bool,
    /// The file at the path, if there is one, belongs to the previous epoch and must be unlinked.
    pub unlink_due: bool,
}

/// The fold progress of a session's log.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedRow {
    /// The session.
    pub session_id: SessionId,
    /// The log's epoch.
    pub epoch: Epoch,
    /// The epoch and end of the folded bytes. `None` if it was never folded.
    pub folded: Option<(Epoch, Position)>,
    /// The path of the log, relative to the state directory.
    pub path: String,
    /// The position of the first byte of the log file.
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

/// The filter of a list of sessions. `None` does not filter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionFilter {
    /// Only this user's sessions.
    pub user_id: Option<String>,
    /// Only sessions with this status.
    pub status: Option<SessionStatus>,
    /// Only sessions of this agent.
    pub agent_name: Option<String>,
    /// Only sessions of this playbook.
    pub playbook_name: Option<String>,
    /// Only sessions that were started this way.
    pub invocation_kind: Option<InvocationKind>,
    /// Only sessions with this source.
    pub source_kind: Option<SourceKind>,
    /// Only sessions with this working directory.
    pub cwd: Option<String>,
    /// Only sessions that changed at this time or later.
    pub since: Option<Timestamp>,
}

impl SessionFilter {
    /// Returns the id of this list, for its page tokens.
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

/// Inserts a session. An id, log or address that is taken is a [`crate::ConstraintKind::Unique`] error.
pub fn insert(tx: &mut Tx<'_>, row: &SessionRow) -> Result<()> {
    let sql = concat!(
        "INSERT INTO sessions (",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
         ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)"
    );
    tx.execute(sql, &row.values()).map(drop)
}

/// Returns the session with this id, deleted or not.
pub fn find(tx: &mut Tx<'_>, id: &SessionId) -> Result<Option<SessionRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM sessions WHERE id = ?1"), params![id], SessionRow::read)
}

/// Returns the session with this user and name. `None` as user is a user of its own.
pub fn find_addressed(tx: &mut Tx<'_>, user: Option<&str>, name: &str) -> Result<Option<SessionRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM sessions WHERE COALESCE(user_id, '') = ?1 AND name = ?2 AND addressed = 1 AND deleted_at IS NULL"
    );
    tx.find(sql, params![user.unwrap_or_default(), name], SessionRow::read)
}

/// Returns the session of a home with this log, deleted or not.
pub fn find_by_log(tx: &mut Tx<'_>, home: &HomeId, log_path: &str) -> Result<Option<SessionRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM sessions WHERE home_id = ?1 AND log_key = ?2");
    let found = tx.find(sql, params![home, log_path.to_lowercase()], SessionRow::read)?;
    // A session whose path differs only in case is another one.
    Ok(found.filter(|row| row.log_path == log_path))
}

/// Returns true if a session that is not deleted has this log in this epoch, and no older file must be unlinked first.
pub fn names_log(tx: &mut Tx<'_>, id: &SessionId, log_path: &str, epoch: Epoch) -> Result<bool> {
    let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND log_path = ?2 AND log_epoch = ?3 AND deleted_at IS NULL \
               AND unlink_due = 0";
    Ok(tx.find(sql, params![id, log_path, epoch], |_| Ok(()))?.is_some())
}

/// Returns the ids with this prefix, in order. Deleted sessions are left out.
pub fn starting_with(tx: &mut Tx<'_>, prefix: &str, limit: u32) -> Result<Vec<SessionId>> {
    let sql = "SELECT id FROM sessions WHERE id >= ?1 AND id < ?2 AND deleted_at IS NULL ORDER BY id LIMIT ?3";
    // Ids are ASCII: an id with the prefix sorts before the prefix followed by the last character.
    let end = format!("{prefix}\u{10ffff}");
    tx.all(sql, params![prefix, end, limit], |row| row.get(0))
}

/// Records a change. The timestamp never moves back, so that the order of a list is stable.
pub fn touch(tx: &mut Tx<'_>, id: &SessionId, at: Timestamp) -> Result<()> {
    tx.execute("UPDATE sessions SET updated_at = ?2 WHERE id = ?1 AND updated_at < ?2", params![id, at]).map(drop)
}

/// Renames a session. Returns false if it does not exist. A name that is taken is a unique-constraint error.
pub fn rename(tx: &mut Tx<'_>, id: &SessionId, name: &str, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE sessions SET name = ?2, updated_at = ?3 WHERE id = ?1 AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, name, at])? == 1)
}

/// Sets the descriptive columns of a session to those of `row`. Returns false if the session does not exist.
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

/// Returns the sessions of a home, or of one user there, after this one, by id. Deleted sessions are left out.
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

/// Returns the number of sessions of a home, or of one user there, without deleted ones.
pub fn count(tx: &mut Tx<'_>, home: &HomeId, user: Option<&str>) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM sessions WHERE home_id = ?1 AND deleted_at IS NULL";
    let found = match user {
        Some(user) => tx.find(&format!("{sql} AND user_id = ?2"), params![home, user], |row| row.get(0))?,
        None => tx.find(sql, params![home], |row| row.get(0))?,
    };
    Ok(found.unwrap_or_default())
}

/// Raises the epoch of a session's log. Returns false if the epoch is not `from`, or the session is deleted.
pub fn raise_epoch(tx: &mut Tx<'_>, id: &SessionId, from: Epoch) -> Result<bool> {
    let sql = "UPDATE sessions SET log_epoch = ?3 WHERE id = ?1 AND log_epoch = ?2 AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, from, from.next()])? == 1)
}

/// Records that the file of the previous epoch must be unlinked.
pub fn owe_unlink(tx: &mut Tx<'_>, id: &SessionId, epoch: Epoch) -> Result<bool> {
    let sql = "UPDATE sessions SET unlink_due = 1 WHERE id = ?1 AND log_epoch = ?2 AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, epoch])? == 1)
}

/// Confirms that the file of the previous epoch must be unlinked. When this commit is synced, the record is synced too.
pub fn confirm_unlink(tx: &mut Tx<'_>, id: &SessionId, epoch: Epoch) -> Result<bool> {
    let sql = "UPDATE sessions SET unlink_due = 1 WHERE id = ?1 AND log_epoch = ?2 AND unlink_due = 1 \
               AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, epoch])? == 1)
}

/// Records that the file was unlinked. Returns false if that is recorded already, or the log has another epoch now.
pub fn note_unlinked(tx: &mut Tx<'_>, id: &SessionId, epoch: Epoch) -> Result<bool> {
    let sql = "UPDATE sessions SET unlink_due = 0 WHERE id = ?1 AND log_epoch = ?2 AND unlink_due = 1";
    Ok(tx.execute(sql, params![id, epoch])? == 1)
}

/// Returns sessions of a home whose log was deleted and whose file must be unlinked.
pub fn with_unlink_due(tx: &mut Tx<'_>, home: &HomeId, limit: u32) -> Result<Vec<SessionId>> {
    let sql = "SELECT id FROM sessions WHERE home_id = ?1 AND unlink_due = 1 ORDER BY id LIMIT ?2";
    tx.all(sql, params![home, limit], |row| row.get(0))
}

/// Marks the session with this log as deleted. Returns false if it does not exist, is marked already, or has another
/// log. Its name can be reused, its log path never.
pub fn tombstone(tx: &mut Tx<'_>, id: &SessionId, log_path: &str, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE sessions SET deleted_at = ?3, updated_at = ?3 \
               WHERE id = ?1 AND log_path = ?2 AND deleted_at IS NULL";
    Ok(tx.execute(sql, params![id, log_path, at])? == 1)
}

/// Returns sessions of a home whose deletion was begun and not finished.
pub fn tombstoned(tx: &mut Tx<'_>, home: &HomeId, limit: u32) -> Result<Vec<SessionId>> {
    let sql = "SELECT id FROM sessions WHERE home_id = ?1 AND deleted_at IS NOT NULL ORDER BY id LIMIT ?2";
    tx.all(sql, params![home, limit], |row| row.get(0))
}

/// The columns of a session that its conversations need.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolRow {
    /// True if it was deleted and only the row is left.
    pub deleted: bool,
    /// The progression of messages that are on no branch.
    pub progression_id: Option<ProgressionId>,
}

impl PoolRow {
    pub(super) fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self { deleted: row.get::<Option<Timestamp>>(0)?.is_some(), progression_id: row.get(1)? })
    }
}

/// Returns the columns of a session that its conversations need.
pub fn pool(tx: &mut Tx<'_>, id: &SessionId) -> Result<Option<PoolRow>> {
    let sql = "SELECT deleted_at, progression_id FROM sessions WHERE id = ?1";
    tx.find(sql, params![id], PoolRow::read)
}

/// Records a change of a session's conversations. Returns false if the session does not exist.
///
/// Every such change begins with this call, so they are serialised: on a server, concurrent changes conflict and are
/// retried.
pub fn enter(tx: &mut Tx<'_>, id: &SessionId, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE sessions SET updated_at = CASE WHEN updated_at < ?2 THEN ?2 ELSE updated_at END WHERE id = ?1";
    Ok(tx.execute(sql, params![id, at])? == 1)
}

/// Does the same as [`enter`] and records messages at the end of its pool, by the first and the last of them, in one
/// write of the row.
pub fn enter_with(tx: &mut Tx<'_>, id: &SessionId, at: Timestamp, first: &MessageId, last: &MessageId) -> Result<bool> {
    let sql = "UPDATE sessions SET updated_at = CASE WHEN updated_at < ?2 THEN ?2 ELSE updated_at END, \
               first_msg_id = COALESCE(first_msg_id, ?3), last_msg_id = ?4 WHERE id = ?1";
    Ok(tx.execute(sql, params![id, at, first, last])? == 1)
}

/// Sets the progression of messages that are on no branch.
pub fn set_pool(tx: &mut Tx<'_>, id: &SessionId, pool: &ProgressionId) -> Result<()> {
    tx.execute("UPDATE sessions SET progression_id = ?2 WHERE id = ?1", params![id, pool]).map(drop)
}

/// Records messages at the end of its pool, by the first and the last of them.
pub fn note_messages(tx: &mut Tx<'_>, id: &SessionId, first: &MessageId, last: &MessageId) -> Result<()> {
    let sql = "UPDATE sessions SET first_msg_id = COALESCE(first_msg_id, ?2), last_msg_id = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, first, last]).map(drop)
}

/// Sets the first and the last message of its pool, after some were removed.
pub fn set_bookmarks(
    tx: &mut Tx<'_>,
    id: &SessionId,
    first: Option<&MessageId>,
    last: Option<&MessageId>,
) -> Result<()> {
    let sql = "UPDATE sessions SET first_msg_id = ?2, last_msg_id = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, first, last]).map(drop)
}

/// Deletes its conversations and the messages that nothing else references. The row, its status and its log stay.
pub fn forget_conversations(tx: &mut Tx<'_>, id: &SessionId) -> Result<()> {
    progressions::remove_of(tx, id)?;
    let sql = "UPDATE sessions SET progression_id = NULL, first_msg_id = NULL, last_msg_id = NULL WHERE id = ?1";
    tx.execute(sql, params![id]).map(drop)
}

/// Changes the status from `from` to `to`. Returns false if the status is not `from`.
///
/// A terminal status sets `ended_at`, any other clears it. `started_at` is set if it is not.
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

/// Deletes the row of a session that is marked as deleted, its inboxes and all dependent rows. Returns false if there
/// is none with this log. Repairs stay, and messages that are referenced elsewhere.
pub fn remove(tx: &mut Tx<'_>, id: &SessionId, log_path: &str) -> Result<bool> {
    let marked = "SELECT 1 FROM sessions WHERE id = ?1 AND log_path = ?2 AND deleted_at IS NOT NULL";
    if tx.find(marked, params![id, log_path], |_| Ok(()))?.is_none() {
        return Ok(false);
    }
    inboxes::remove_of_session(tx, id)?;
    progressions::remove_of(tx, id)?;
    Ok(tx.execute("DELETE FROM sessions WHERE id = ?1", params![id])? == 1)
}

/// Returns the logs of a home after this one, by id, including those of deleted sessions.
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

/// Returns the fold progress of a home's logs after this one, by id. Deleted sessions are left out.
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

/// Returns the sessions of other homes whose logs have or may have lines, by home and id: their number and the first
/// ones.
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

/// Returns a page of sessions, in the order of the page. Deleted sessions are left out.
pub fn list(tx: &mut Tx<'_>, filter: &SessionFilter, page: &Page) -> Result<Vec<SessionSummaryRow>> {
    let (sql, values) = list_statement(filter, page);
    tx.all(&sql, &values, SessionSummaryRow::read)
}

/// Returns a page of sessions and the token of the next page. `None` if this is the last page.
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

/// The statement of [`list`]. Each filter has an index in exactly this order.
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
        // Most sessions are live: they are found in the index of all sessions.
        Some(SourceKind::Live) => and(" AND s.source_kind = ?#", SourceKind::Live.into()),
        // The planner uses the partial index of the others only with this condition.
        Some(kind) => and(" AND s.source_kind <> 'live' AND s.source_kind = ?#", kind.into()),
        None => {}
    }
    if let Some(cwd) = &filter.cwd {
        and(" AND s.cwd = ?#", cwd.into());
    }
    if let Some(since) = filter.since {
        and(" AND s.updated_at >= ?#", since.into());
    }
    let (after_clause, order) = match page.order() {
        PageOrder::Updated => (" AND (s.updated_at, s.id) < (?#", " ORDER BY s.updated_at DESC, s.id DESC LIMIT ?#"),
        PageOrder::Created => (" AND (s.created_at, s.id) < (?#", " ORDER BY s.created_at DESC, s.id DESC LIMIT ?#"),
    };
    if let Some(after) = page.after() {
        and(after_clause, after.at().into());
        and(", ?#)", after.key().into());
    }
    and(order, page.limit().into());
    (sql, values)
}

/// Returns the engine's plan for [`list`], a line per step, for a test that it uses its index.
pub fn explain_list(tx: &mut Tx<'_>, filter: &SessionFilter, page: &Page) -> Result<Vec<String>> {
    let (sql, values) = list_statement(filter, page);
    // SQLite has the text in the last column; PostgreSQL has one column.
    let (sqlite, postgres) = (format!("EXPLAIN QUERY PLAN {sql}"), format!("EXPLAIN (COSTS OFF) {sql}"));
    tx.all(Sql::each(&sqlite, &postgres), &values, |row| row.get(row.width() - 1))
}

/// Returns the number of sessions per status, without deleted ones; `None` for sessions without a status.
pub fn count_by_status(tx: &mut Tx<'_>) -> Result<Vec<(Option<SessionStatus>, u64)>> {
    // Both counts come from an index; the difference is the number without a status.
    let all = "SELECT COUNT(*) FROM sessions WHERE deleted_at IS NULL";
    let with_status = "SELECT status, COUNT(*) FROM sessions WHERE status IS NOT NULL AND deleted_at IS NULL \
                GROUP BY status ORDER BY status";
    let all = tx.find(all, &[], |row| row.get(0))?.unwrap_or(0_u64);
    let with_status = tx.all(with_status, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let without = all.saturating_sub(with_status.iter().map(|(_, count)| count).sum());
    let without = (without > 0).then_some((None, without));
    Ok(without.into_iter().chain(with_status).collect())
}
