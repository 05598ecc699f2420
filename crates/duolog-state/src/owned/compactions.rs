//! `compactions`: the summaries of a branch's ranges and their undos, in order. Rows are never changed or deleted.

use duolog_types::{BranchId, MessageId, Timestamp};

use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

macro_rules! columns {
    () => {
        "branch_id, seq, from_ord, to_ord, summary_msg_id, undoes_branch_id, undoes_seq, covers_all, created_at"
    };
}

/// The entry of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionEntry {
    /// A message summarises the range.
    Summary {
        /// The summary.
        message: MessageId,
        /// True if no active summary was outside its range when it was added.
        covers_all: bool,
    },
    /// An earlier summary is undone.
    Undone {
        /// The branch of the summary: this one or an ancestor.
        branch: BranchId,
        /// The `seq` of the summary.
        seq: u64,
    },
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionRow {
    /// The branch.
    pub branch_id: BranchId,
    /// Its number within the branch, from 1.
    pub seq: u64,
    /// The first position of the range.
    pub from_ord: u64,
    /// The position after the range.
    pub to_ord: u64,
    /// The entry.
    pub entry: CompactionEntry,
    /// When it was added.
    pub created_at: Timestamp,
}

impl CompactionRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let entry = match row.get(4)? {
            Some(message) => CompactionEntry::Summary { message, covers_all: row.get(7)? },
            None => CompactionEntry::Undone { branch: row.get(5)?, seq: row.get(6)? },
        };
        Ok(Self {
            branch_id: row.get(0)?,
            seq: row.get(1)?,
            from_ord: row.get(2)?,
            to_ord: row.get(3)?,
            entry,
            created_at: row.get(8)?,
        })
    }
}

/// Inserts a row. A `seq` that exists is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &CompactionRow) -> Result<()> {
    let sql = concat!("INSERT INTO compactions (", columns!(), ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    let (message, covers_all, undone) = match &row.entry {
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

/// Returns the last `seq` of a branch; 0 if it has no rows.
pub fn last_seq(tx: &mut Tx<'_>, branch: &BranchId) -> Result<u64> {
    let sql = "SELECT seq FROM compactions WHERE branch_id = ?1 ORDER BY seq DESC LIMIT 1";
    Ok(tx.find(sql, params![branch], |row| row.get(0))?.unwrap_or_default())
}

/// Returns the rows of a branch after `after`, oldest first.
pub fn oldest(tx: &mut Tx<'_>, branch: &BranchId, after: u64, limit: u32) -> Result<Vec<CompactionRow>> {
    let sql =
        concat!("SELECT ", columns!(), " FROM compactions WHERE branch_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3");
    tx.all(sql, params![branch, after, limit], CompactionRow::read)
}

/// Returns one row.
pub fn find(tx: &mut Tx<'_>, branch: &BranchId, seq: u64) -> Result<Option<CompactionRow>> {
    let sql = concat!("SELECT ", columns!(), " FROM compactions WHERE branch_id = ?1 AND seq = ?2");
    tx.find(sql, params![branch, seq], CompactionRow::read)
}

/// Returns the rows of a branch up to `seq_max` whose ranges end at or before `to_ord_max`, newest first.
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
