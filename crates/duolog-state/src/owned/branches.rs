//! `branches`: the branches of a session's conversation.

use duolog_types::{BranchId, MessageId, ProgressionId, SessionId, Timestamp};

use super::pool_segments::{self, PoolSegmentRow};
use super::progressions::{self, ProgressionRow};
use super::sessions::PoolRow;
use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

/// The columns of a branch `b`.
macro_rules! columns {
    () => {
        "b.id, b.created_at, b.node_metadata, b.user_id, b.name, b.session_id, b.progression_id, b.system_msg_id, \
         b.parent_branch_id, b.forked_at_ord, b.forked_at_seq, b.is_default"
    };
}

/// The number of these columns.
const COLUMNS: usize = 12;

/// The point where a branch was forked from its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkPoint {
    /// The parent branch.
    pub parent: BranchId,
    /// The number of items of the parent's history that the branch sees.
    pub at_ord: u64,
    /// The last compaction of the parent that the branch sees, if its range is within those items.
    pub at_seq: u64,
}

/// A branch.
#[derive(Debug, Clone, PartialEq)]
pub struct BranchRow {
    /// Its id.
    pub id: BranchId,
    /// When it was created.
    pub created_at: Timestamp,
    /// JSON that its creator stores with it, such as the agent's configuration.
    pub node_metadata: Option<String>,
    /// Its user.
    pub user_id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its session.
    pub session_id: SessionId,
    /// The progression at the end of its history. Removing items may replace it.
    pub progression_id: ProgressionId,
    /// The system message, which comes before all others.
    pub system_msg_id: Option<MessageId>,
    /// The point where it was forked. `None` if it was not forked.
    pub forked: Option<ForkPoint>,
    /// True if it is the session's default branch.
    pub is_default: bool,
}

impl BranchRow {
    /// Reads a branch whose columns begin at `first`.
    fn read(row: &Row<'_>, first: usize) -> Result<Self> {
        let forked = match (row.get(first + 8)?, row.get(first + 9)?, row.get(first + 10)?) {
            (Some(parent), Some(at_ord), Some(at_seq)) => Some(ForkPoint { parent, at_ord, at_seq }),
            _ => None,
        };
        Ok(Self {
            id: row.get(first)?,
            created_at: row.get(first + 1)?,
            node_metadata: row.get(first + 2)?,
            user_id: row.get(first + 3)?,
            name: row.get(first + 4)?,
            session_id: row.get(first + 5)?,
            progression_id: row.get(first + 6)?,
            system_msg_id: row.get(first + 7)?,
            forked,
            is_default: row.get(first + 11)?,
        })
    }
}

/// Inserts a branch. A second default branch of a session is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &BranchRow) -> Result<()> {
    let sql = "INSERT INTO branches (id, created_at, node_metadata, user_id, name, session_id, progression_id, \
               system_msg_id, parent_branch_id, forked_at_ord, forked_at_seq, is_default) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let values = params![
        &row.id,
        row.created_at,
        row.node_metadata.as_ref(),
        row.user_id.as_ref(),
        row.name.as_ref(),
        &row.session_id,
        &row.progression_id,
        row.system_msg_id.as_ref(),
        row.forked.as_ref().map(|forked| &forked.parent),
        row.forked.as_ref().map(|forked| forked.at_ord),
        row.forked.as_ref().map(|forked| forked.at_seq),
        row.is_default,
    ];
    tx.execute(sql, values).map(drop)
}

/// Returns the branch with this id.
pub fn find(tx: &mut Tx<'_>, id: &BranchId) -> Result<Option<BranchRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM branches b WHERE b.id = ?1"), params![id], |row| {
        BranchRow::read(row, 0)
    })
}

/// Returns the ids with this prefix, in order, of one session or of all.
pub fn starting_with(tx: &mut Tx<'_>, session: Option<&SessionId>, prefix: &str, limit: u32) -> Result<Vec<BranchId>> {
    let end = format!("{prefix}\u{7f}");
    let of_one = "SELECT id FROM branches WHERE id >= ?1 AND id < ?2 AND session_id = ?4 ORDER BY id LIMIT ?3";
    let of_all = "SELECT id FROM branches WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    match session {
        Some(session) => tx.all(of_one, params![prefix, &end, limit, session], |row| row.get(0)),
        None => tx.all(of_all, params![prefix, &end, limit], |row| row.get(0)),
    }
}

/// A session's default conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct DefaultRow {
    /// The session's columns that its conversations need.
    pub pool: PoolRow,
    /// The last segment of its pool.
    pub last: Option<PoolSegmentRow>,
    /// The default branch and the progression at the end of its history. `None` before the first message.
    pub branch: Option<(BranchRow, ProgressionRow)>,
}

impl DefaultRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        const FIRST: usize = 6;
        let pool = PoolRow::read(row)?;
        let last = row.get::<Option<u64>>(2)?.map(|_| PoolSegmentRow::read(row, 2)).transpose()?;
        if row.get::<Option<BranchId>>(FIRST)?.is_none() {
            return Ok(Self { pool, last, branch: None });
        }
        let branch = BranchRow::read(row, FIRST)?;
        if row.get::<Option<ProgressionId>>(FIRST + COLUMNS)?.is_none() {
            return Err(progressions::missing(&branch.progression_id));
        }
        let head = ProgressionRow::read(row, FIRST + COLUMNS)?;
        Ok(Self { pool, last, branch: Some((branch, head)) })
    }
}

/// Returns a session's default conversation. `None` if the session does not exist.
pub fn find_default(tx: &mut Tx<'_>, session: &SessionId) -> Result<Option<DefaultRow>> {
    let sql = concat!(
        "SELECT s.deleted_at, s.progression_id, ",
        pool_segments::columns!("l"),
        ", ",
        columns!(),
        ", ",
        progressions::columns!(),
        " FROM sessions s LEFT JOIN pool_segments l ON l.session_id = s.id \
         AND l.ord = (SELECT MAX(o.ord) FROM pool_segments o WHERE o.session_id = s.id) \
         LEFT JOIN branches b ON b.session_id = s.id AND b.is_default = 1 \
         LEFT JOIN progressions p ON p.id = b.progression_id WHERE s.id = ?1"
    );
    tx.find(sql, params![session], DefaultRow::read)
}

/// Returns the branches of a session with this name, by id.
pub fn named(tx: &mut Tx<'_>, session: &SessionId, name: &str, limit: u32) -> Result<Vec<BranchId>> {
    let sql = "SELECT id FROM branches WHERE session_id = ?1 AND name = ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![session, name, limit], |row| row.get(0))
}

/// Returns the branches of a session after this one, by id.
pub fn list(tx: &mut Tx<'_>, session: &SessionId, after: Option<&BranchId>, limit: u32) -> Result<Vec<BranchRow>> {
    let sql =
        concat!("SELECT ", columns!(), " FROM branches b WHERE b.session_id = ?1 AND b.id > ?2 ORDER BY b.id LIMIT ?3");
    tx.all(sql, params![session, after.map_or("", BranchId::as_str), limit], |row| BranchRow::read(row, 0))
}

/// Returns the branches of a session that were forked from `parent`, or from no branch, after this one, by id.
pub fn forks(
    tx: &mut Tx<'_>,
    session: &SessionId,
    parent: Option<&BranchId>,
    after: Option<&BranchId>,
    limit: u32,
) -> Result<Vec<BranchRow>> {
    let roots = concat!(
        "SELECT ",
        columns!(),
        " FROM branches b WHERE b.session_id = ?1 AND b.parent_branch_id IS NULL AND b.id > ?2 ORDER BY b.id LIMIT ?3"
    );
    let forks = concat!(
        "SELECT ",
        columns!(),
        " FROM branches b WHERE b.session_id = ?1 AND b.parent_branch_id = ?4 AND b.id > ?2 ORDER BY b.id LIMIT ?3"
    );
    let after = after.map_or("", BranchId::as_str);
    match parent {
        Some(parent) => tx.all(forks, params![session, after, limit, parent], |row| BranchRow::read(row, 0)),
        None => tx.all(roots, params![session, after, limit], |row| BranchRow::read(row, 0)),
    }
}

/// Returns the number of branches of a session.
pub fn count(tx: &mut Tx<'_>, session: &SessionId) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM branches WHERE session_id = ?1";
    Ok(tx.find(sql, params![session], |row| row.get(0))?.unwrap_or_default())
}

/// Moves the branch at the progression `from` to the progression `to`.
pub fn follow(tx: &mut Tx<'_>, from: &ProgressionId, to: &ProgressionId) -> Result<()> {
    let sql = "UPDATE branches SET progression_id = ?2 WHERE progression_id = ?1";
    tx.execute(sql, params![from, to]).map(drop)
}

/// Returns true if a branch's history ends in this progression.
pub fn is_at(tx: &mut Tx<'_>, progression: &ProgressionId) -> Result<bool> {
    let sql = "SELECT 1 FROM branches WHERE progression_id = ?1";
    Ok(tx.find(sql, params![progression], |_| Ok(()))?.is_some())
}

/// Sets the name, user and metadata of a branch. Returns false if the branch does not exist.
pub fn describe(
    tx: &mut Tx<'_>,
    id: &BranchId,
    name: Option<&str>,
    user_id: Option<&str>,
    node_metadata: Option<&str>,
) -> Result<bool> {
    let sql = "UPDATE branches SET name = ?2, user_id = ?3, node_metadata = ?4 WHERE id = ?1";
    Ok(tx.execute(sql, params![id, name, user_id, node_metadata])? == 1)
}

/// Sets the system message of a branch. Returns false if it has one.
pub fn set_system(tx: &mut Tx<'_>, id: &BranchId, message: &MessageId) -> Result<bool> {
    let sql = "UPDATE branches SET system_msg_id = ?2 WHERE id = ?1 AND system_msg_id IS NULL";
    Ok(tx.execute(sql, params![id, message])? == 1)
}
