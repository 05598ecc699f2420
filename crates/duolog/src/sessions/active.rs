//! The active summaries of a branch: its own, and those that its ancestors had where it was forked.
//!
//! Rows are read newest first. The row that undoes a summary is newer than the summary, so it is always read before it.

use std::collections::HashSet;

use duolog_state::Tx;
use duolog_state::owned::branches::{self, BranchRow};
use duolog_state::owned::compactions::{self, CompactionEntry, CompactionRow};
use duolog_state::{Error as StateError, Result as StateResult};
use duolog_types::{BranchId, MessageId};

/// The number of rows that are read at a time.
const ROWS: u32 = 32;
/// An ordinal after every item.
const END: u64 = i64::MAX.cast_unsigned();

/// An active summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Active {
    pub(super) branch: BranchId,
    pub(super) seq: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) message: MessageId,
}

impl Active {
    pub(super) fn covers(&self, from: u64, to: u64) -> bool {
        self.from <= from && to <= self.to
    }

    pub(super) fn is_apart_from(&self, from: u64, to: u64) -> bool {
        self.to <= from || to <= self.from
    }
}

/// Returns the summaries that are shown, newest first: those that no later one covers.
pub(super) fn shown(tx: &mut Tx<'_>, branch: &BranchRow) -> StateResult<Vec<Active>> {
    let mut shown: Vec<Active> = Vec::new();
    walk(tx, branch, |one, covers_all| {
        if shown.iter().any(|later| later.covers(one.from, one.to)) {
            return true;
        }
        shown.push(one);
        // It covers all summaries before it.
        !covers_all
    })?;
    Ok(shown)
}

/// Returns every active summary, newest first, including those that later ones cover.
pub(super) fn all(tx: &mut Tx<'_>, branch: &BranchRow) -> StateResult<Vec<Active>> {
    let mut all = Vec::new();
    walk(tx, branch, |one, _| {
        all.push(one);
        true
    })?;
    Ok(all)
}

/// Passes the active summaries to `each`, newest first, until it returns false.
fn walk(tx: &mut Tx<'_>, branch: &BranchRow, mut each: impl FnMut(Active, bool) -> bool) -> StateResult<()> {
    let mut undone = HashSet::new();
    let (mut id, mut forked) = (branch.id.clone(), branch.forked.clone());
    let (mut seq_max, mut to_max) = (END, END);
    loop {
        while seq_max > 0 {
            let rows = compactions::newest(tx, &id, seq_max, to_max, ROWS)?;
            seq_max = if rows.len() < ROWS as usize { 0 } else { rows.last().map_or(0, |row| row.seq - 1) };
            for CompactionRow { branch_id: branch, seq, from_ord: from, to_ord: to, entry, .. } in rows {
                match entry {
                    CompactionEntry::Undone { branch, seq } => {
                        undone.insert((branch, seq));
                    }
                    CompactionEntry::Summary { message, covers_all } => {
                        let is_undone = undone.remove(&(branch.clone(), seq));
                        if !is_undone && !each(Active { branch, seq, from, to, message }, covers_all) {
                            return Ok(());
                        }
                    }
                }
            }
        }
        let Some(from) = forked.take() else { return Ok(()) };
        (seq_max, to_max) = (from.at_seq, to_max.min(from.at_ord));
        let parent = branches::find(tx, &from.parent)?.ok_or_else(|| StateError::Damaged {
            what: format!("branch {}", from.parent),
            detail: "another was forked from it, and it is not there".to_owned(),
        })?;
        (id, forked) = (parent.id, parent.forked);
    }
}
