//! `compactions`: what was said of a branch's ranges, in order. Nothing here is changed or taken away.

use duolog_types::{BranchId, MessageId, Timestamp};

use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

macro_rules! columns {
    () => {
        "branch_id, seq, from_ord, to_ord, summary_msg_id, undoes_branch_id, undoes_seq, covers_all, created_at"
    };
}

/// What a row says of its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionEntry {
    /// That a message stands for it.
    Summary {
        /// The message.
        message: MessageId,
        /// Whether nothing that held when it was said lies outside of its range.
        covers_all: bool,
    },
    /// That what was said earlier no longer holds.
    Undone {
        /// The branch that said it: this one, or one that it comes from.
        branch: BranchId,
        /// Which of its rows.
        seq: u64,
    },
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionRow {
    /// The branch.
    pub branch_id: BranchId,
    /// Its place in what was said of the branch, from 1.
    pub seq: u64,
    /// The first place of the range.
    pub from_ord: u64,
    /// The place after its last.
    pub to_ord: u64,
    /// What is said of it.
    pub said: CompactionEntry,
    /// When.
    pub created_at: Timestamp,
}

impl CompactionRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let said = match row.get(4)? {
            Some(message) => CompactionEntry::Summary { message, covers_all: row.get(7)? },
            None => CompactionEntry::Undone { branch: row.get(5)?, seq: row.get(6)? },
        };
        Ok(Self {
            branch_id: row.get(0)?,
            seq: row.get(1)?,
            from_ord: row.get(2)?,
            to_ord: row.get(3)?,
            said,
            created_at: row.get(8)?,
        })
    }
}

/// Adds a row. A place that is taken is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &CompactionRow) -> Result<()> {
    let sql = concat!("INSERT INTO compactions (", columns!(), ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    let (message, covers_all, undone) = match &row.said {
        CompactionEntry::Summary { message, covers_all } => (Some(message), *covers_all, None),
        CompactionEntry::Undone { branch, seq } => (None, false, Some((branch, *seq))),
    };
    let values = params![
        &row.branch_id,
        row.seq,
        row.from_ord,
        row.to_ord,
        message,
        undone.map(|(branch, _)| branch),
        undone.map(|(_, seq)| seq),
        covers_all,
        row.created_at,
    ];
    tx.execute(sql, values).map(drop)
}

/// The last place that is taken of a branch; 0 where nothing was said.
pub fn last_seq(tx: &mut Tx<'_>, branch: &BranchId) -> Result<u64> {
    let sql = "SELECT seq FROM compactions WHERE branch_id = ?1 ORDER BY seq DESC LIMIT 1";
    Ok(tx.find(sql, params![branch], |row| row.get(0))?.unwrap_or_default())
}

/// What was said of a branch, the first first, after a place.
pub fn oldest(tx: &mut Tx<'_>, branch: &BranchId, after: u64, limit: u32) -> Result<Vec<CompactionRow>> {
    let sql =
        concat!("SELECT ", columns!(), " FROM compactions WHERE branch_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3");
    tx.all(sql, params![branch, after, limit], CompactionRow::read)
}

/// One row.
pub fn find(tx: &mut Tx<'_>, branch: &BranchId, seq: u64) -> Result<Option<CompactionRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM compactions WHERE branch_id = ?1 AND seq = ?2");
    tx.find(sql, params![branch, seq], CompactionRow::read)
}

/// What was said of a branch up to a place, of ranges that end before `to_ord` or there, the last first.
pub fn newest(
    tx: &mut Tx<'_>,
    branch: &BranchId,
    seq_max: u64,
    to_ord_max: u64,
    limit: u32,
) -> Result<Vec<CompactionRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM compactions WHERE branch_id = ?1 AND seq <= ?2 AND to_ord <= ?3 ORDER BY seq DESC LIMIT ?4"
    );
    tx.all(sql, params![branch, seq_max, to_ord_max, limit], CompactionRow::read)
}
