//! `catalog`: the fold checkpoint of each log, and its counts.

use duolog_types::{Epoch, HomeId, Position, SessionId, Timestamp};

use crate::engine::{Row, Sql, Tx, Value, row};
use crate::error::Result;
use crate::params;

macro_rules! insert {
    ($conflict:literal) => {
        concat!(
            "INSERT INTO catalog (",
            columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT (session_id) ",
            $conflict
        )
    };
}

macro_rules! update {
    ($besides:literal) => {
        concat!(
            "UPDATE catalog SET epoch = ?2, position = ?3, line_hash = ?4, events = ?5, bytes = ?6, damaged = ?7, \
             first_at = ?8, last_at = ?9, dialect = ?10, model = ?11, title = ?12",
            $besides,
            " WHERE session_id = ?1 AND epoch = ?13 AND position = ?14 AND fold_version = ?15"
        )
    };
}

/// The result of folding one session's log.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogRow {
    /// The session.
    pub session_id: SessionId,
    /// The home that has the log.
    pub home_id: HomeId,
    /// The epoch that was folded.
    pub epoch: Epoch,
    /// The end of the folded bytes.
    pub position: Position,
    /// The hash of the last folded line: the next fold checks with it that the log is the same (R3).
    pub line_hash: Option<[u8; 32]>,
    /// The number of lines with events.
    pub events: u64,
    /// The number of folded bytes.
    pub bytes: u64,
    /// The number of lines that could not be read.
    pub damaged: u64,
    /// The timestamp of the first line that has one.
    pub first_at: Option<Timestamp>,
    /// The timestamp of the last line that has one.
    pub last_at: Option<Timestamp>,
    /// The dialect of its first lines.
    pub dialect: Option<String>,
    /// The last model that a line names.
    pub model: Option<String>,
    /// The title that its lines give it.
    pub title: Option<String>,
    /// The version of the fold that wrote the row. 0 if it has no dialect, model, title and usage.
    pub fold_version: u32,
    /// The number of lines whose responses are counted by another session.
    pub shared: u64,
}

row!(CatalogRow, columns:
    session_id, home_id, epoch, position, line_hash, events, bytes, damaged, first_at, last_at, dialect, model,
    title, fold_version, shared
);

/// The start of a fold. The fold takes effect only if the row has not changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldedTo {
    /// The epoch that was folded.
    pub epoch: Epoch,
    /// The end of the folded bytes.
    pub position: Position,
    /// The version of the fold that wrote the row.
    pub fold_version: u32,
    /// The number of lines whose responses are counted by another session.
    pub shared: u64,
}

impl CatalogRow {
    /// Returns the start of a fold that continues from this row.
    pub fn checkpoint(&self) -> FoldedTo {
        FoldedTo { epoch: self.epoch, position: self.position, fold_version: self.fold_version, shared: self.shared }
    }

    /// Returns the row of a log that was not folded yet.
    pub fn new(session_id: SessionId, home_id: HomeId, epoch: Epoch, position: Position) -> Self {
        Self {
            session_id,
            home_id,
            epoch,
            position,
            line_hash: None,
            events: 0,
            bytes: 0,
            damaged: 0,
            first_at: None,
            last_at: None,
            dialect: None,
            model: None,
            title: None,
            fold_version: 0,
            shared: 0,
        }
    }
}

/// Returns the row of a session. `None` if it was never folded.
pub fn get(tx: &mut Tx<'_>, session: &SessionId) -> Result<Option<CatalogRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM catalog WHERE session_id = ?1");
    tx.find(sql, params![session], CatalogRow::read)
}

/// Advances the checkpoint from `expected`. Returns false and changes nothing if another fold has advanced it.
///
/// `expected` is the start of the fold; `None` for a session that was never folded.
pub fn advance(tx: &mut Tx<'_>, expected: Option<FoldedTo>, row: &CatalogRow) -> Result<bool> {
    let Some(before) = expected else {
        return put(tx, insert!("DO NOTHING"), row);
    };
    let found = [before.epoch.into(), before.position.into(), before.fold_version.into()];
    let last = [row.fold_version.into(), row.shared.into()];
    let values: Vec<Value<'_>> =
        [(&row.session_id).into()].into_iter().chain(folded(row)).chain(found).chain(last).collect();
    // The last two have indexes, which an UPDATE that names them would write again.
    let is_same = (row.fold_version, row.shared) == (before.fold_version, before.shared);
    let changed = if is_same {
        tx.execute(update!(""), &values[..values.len() - 2])?
    } else {
        tx.execute(update!(", fold_version = ?16, shared = ?17"), &values)?
    };
    Ok(changed == 1)
}

/// Writes the row of a rebuild, unless the existing row has a later epoch, or a later position in the same epoch.
pub fn replace(tx: &mut Tx<'_>, row: &CatalogRow) -> Result<bool> {
    let sql = insert!(
        "DO UPDATE SET home_id = excluded.home_id, epoch = excluded.epoch, position = excluded.position, \
         line_hash = excluded.line_hash, events = excluded.events, bytes = excluded.bytes, \
         damaged = excluded.damaged, first_at = excluded.first_at, last_at = excluded.last_at, \
         dialect = excluded.dialect, model = excluded.model, title = excluded.title, \
         fold_version = excluded.fold_version, shared = excluded.shared \
         WHERE catalog.epoch < excluded.epoch \
         OR (catalog.epoch = excluded.epoch AND catalog.position <= excluded.position)"
    );
    put(tx, sql, row)
}

/// Returns sessions of a home whose rows are from an older fold, by id, with their folded bytes.
pub fn outdated(
    tx: &mut Tx<'_>,
    home: &HomeId,
    version: u32,
    after: Option<&SessionId>,
    limit: u32,
) -> Result<Vec<(SessionId, u64)>> {
    let sql = "SELECT c.session_id, c.bytes FROM catalog c JOIN sessions s ON s.id = c.session_id \
               WHERE c.home_id = ?1 AND c.fold_version < ?2 AND c.session_id > ?3 AND s.deleted_at IS NULL \
               ORDER BY c.session_id LIMIT ?4";
    let after = after.map_or("", SessionId::as_str);
    tx.all(sql, params![home, version, after, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Marks a session's row as outdated, so that the next reader folds it again.
pub fn outdate(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    tx.execute("UPDATE catalog SET fold_version = 0 WHERE session_id = ?1", params![session]).map(drop)
}

/// Locks the rows of sessions until the transaction ends, on a server. Callers pass them in the order of their ids, so
/// that two transactions never wait for each other.
pub fn lock<'s>(tx: &mut Tx<'_>, sessions: impl IntoIterator<Item = &'s SessionId>) -> Result<()> {
    const FIND: &str = "SELECT session_id FROM catalog WHERE session_id = ?1";
    const LOCK: &str = "SELECT session_id FROM catalog WHERE session_id = ?1 FOR UPDATE";
    for session in sessions {
        tx.find(Sql::each(FIND, LOCK), params![session], |row| row.get::<SessionId>(0))?;
    }
    Ok(())
}

/// Marks the rows of all sessions as outdated whose responses are counted by another session.
pub fn outdate_sharing(tx: &mut Tx<'_>) -> Result<()> {
    tx.execute("UPDATE catalog SET fold_version = 0 WHERE shared > 0", &[]).map(drop)
}

/// Deletes all rows, for a rebuild.
pub fn clear(tx: &mut Tx<'_>) -> Result<()> {
    tx.execute("DELETE FROM catalog", &[]).map(drop)
}

/// Returns every row, by session, to compare a rebuild with the rows before it.
pub fn dump(tx: &mut Tx<'_>) -> Result<Vec<CatalogRow>> {
    tx.all(concat!("SELECT ", columns!(), " FROM catalog ORDER BY session_id"), &[], CatalogRow::read)
}

fn put(tx: &mut Tx<'_>, sql: &str, row: &CatalogRow) -> Result<bool> {
    let (ids, last) = ([(&row.session_id).into(), row.home_id.into()], [row.fold_version.into(), row.shared.into()]);
    let values: Vec<Value<'_>> = ids.into_iter().chain(folded(row)).chain(last).collect();
    Ok(tx.execute(sql, &values)? == 1)
}

/// Returns the folded values in the order of the columns.
fn folded(row: &CatalogRow) -> [Value<'_>; 11] {
    [
        row.epoch.into(),
        row.position.into(),
        row.line_hash.as_ref().into(),
        row.events.into(),
        row.bytes.into(),
        row.damaged.into(),
        row.first_at.into(),
        row.last_at.into(),
        row.dialect.as_ref().into(),
        row.model.as_ref().into(),
        row.title.as_ref().into(),
    ]
}

/// The totals of the folded logs of a home.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CatalogTotals {
    /// The number of logs with at least one line.
    pub logs: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The number of events.
    pub events: u64,
}

/// Returns the totals of the folded logs of a home.
pub fn totals(tx: &mut Tx<'_>, home: &HomeId) -> Result<CatalogTotals> {
    let sql = "SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT), CAST(COALESCE(SUM(events), 0) AS BIGINT) \
               FROM catalog WHERE home_id = ?1 AND bytes > 0";
    let read = |row: &Row<'_>| Ok(CatalogTotals { logs: row.get(0)?, bytes: row.get(1)?, events: row.get(2)? });
    Ok(tx.find(sql, params![home], read)?.unwrap_or_default())
}
