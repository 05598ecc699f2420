//! `branches`: the ways that a session's conversation took.

use duolog_types::{BranchId, MessageId, Moment, ProgressionId, SessionId};

use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

macro_rules! columns {
    () => {
        "id, created_at, node_metadata, user_id, name, session_id, progression_id, system_msg_id, parent_branch_id, \
         forked_at_ord, forked_at_seq, is_default"
    };
}

/// What a branch began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// The branch that it was forked from.
    pub parent: BranchId,
    /// How many items of its parent's history it sees.
    pub at_ord: u64,
    /// Up to which of its parent's compactions it sees those that lie within.
    pub at_seq: u64,
}

/// A branch, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct BranchRow {
    /// Its id.
    pub id: BranchId,
    /// When it was made.
    pub created_at: Moment,
    /// Whatever its maker keeps with it, such as the agent's configuration, as JSON.
    pub node_metadata: Option<String>,
    /// Whose it is.
    pub user_id: Option<String>,
    /// What people call it.
    pub name: Option<String>,
    /// The session that it is a branch of.
    pub session_id: SessionId,
    /// Where its history ends. A cut may move it to another.
    pub progression_id: ProgressionId,
    /// The message that comes before all others.
    pub system_msg_id: Option<MessageId>,
    /// What it was forked from; nothing where it began by itself.
    pub forked: Option<Forked>,
    /// Whether it is the one that is meant where only the session is named.
    pub is_default: bool,
}

impl BranchRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let forked = match (row.get(8)?, row.get(9)?, row.get(10)?) {
            (Some(parent), Some(at_ord), Some(at_seq)) => Some(Forked { parent, at_ord, at_seq }),
            _ => None,
        };
        Ok(Self {
            id: row.get(0)?,
            created_at: row.get(1)?,
            node_metadata: row.get(2)?,
            user_id: row.get(3)?,
            name: row.get(4)?,
            session_id: row.get(5)?,
            progression_id: row.get(6)?,
            system_msg_id: row.get(7)?,
            forked,
            is_default: row.get(11)?,
        })
    }
}

/// Adds a branch. A second default of its session is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &BranchRow) -> Result<()> {
    let sql =
        concat!("INSERT INTO branches (", columns!(), ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)");
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

/// The branch with this id.
pub fn find(tx: &mut Tx<'_>, id: &BranchId) -> Result<Option<BranchRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM branches WHERE id = ?1"), params![id], BranchRow::read)
}

/// The branch that is meant where only the session is named.
pub fn find_default(tx: &mut Tx<'_>, session: &SessionId) -> Result<Option<BranchRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM branches WHERE session_id = ?1 AND is_default = 1");
    tx.find(sql, params![session], BranchRow::read)
}

/// The branches of a session that are called so, by id.
pub fn named(tx: &mut Tx<'_>, session: &SessionId, name: &str, limit: u32) -> Result<Vec<BranchId>> {
    let sql = "SELECT id FROM branches WHERE session_id = ?1 AND name = ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![session, name, limit], |row| row.get(0))
}

/// The branches of a session, by id, after this one.
pub fn list(tx: &mut Tx<'_>, session: &SessionId, after: Option<&BranchId>, limit: u32) -> Result<Vec<BranchRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM branches WHERE session_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
    tx.all(sql, params![session, after.map_or("", BranchId::as_str), limit], BranchRow::read)
}

/// The branches of a session that were forked from this one, or from none, by id, after this one.
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
        " FROM branches WHERE session_id = ?1 AND parent_branch_id IS NULL AND id > ?2 ORDER BY id LIMIT ?3"
    );
    let forks = concat!(
        "SELECT ",
        columns!(),
        " FROM branches WHERE session_id = ?1 AND parent_branch_id = ?4 AND id > ?2 ORDER BY id LIMIT ?3"
    );
    let after = after.map_or("", BranchId::as_str);
    match parent {
        Some(parent) => tx.all(forks, params![session, after, limit, parent], BranchRow::read),
        None => tx.all(roots, params![session, after, limit], BranchRow::read),
    }
}

/// How many branches a session has.
pub fn count(tx: &mut Tx<'_>, session: &SessionId) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM branches WHERE session_id = ?1";
    Ok(tx.find(sql, params![session], |row| row.get(0))?.unwrap_or_default())
}

/// Has the branch at one progression go on at another.
pub fn follow(tx: &mut Tx<'_>, from: &ProgressionId, to: &ProgressionId) -> Result<()> {
    let sql = "UPDATE branches SET progression_id = ?2 WHERE progression_id = ?1";
    tx.execute(sql, params![from, to]).map(drop)
}

/// Whether a branch's history ends in a progression.
pub fn is_at(tx: &mut Tx<'_>, progression: &ProgressionId) -> Result<bool> {
    let sql = "SELECT 1 FROM branches WHERE progression_id = ?1";
    Ok(tx.find(sql, params![progression], |_| Ok(()))?.is_some())
}

/// Gives a branch the message that comes before all others; false where it has one.
pub fn set_system(tx: &mut Tx<'_>, id: &BranchId, message: &MessageId) -> Result<bool> {
    let sql = "UPDATE branches SET system_msg_id = ?2 WHERE id = ?1 AND system_msg_id IS NULL";
    Ok(tx.execute(sql, params![id, message])? == 1)
}
