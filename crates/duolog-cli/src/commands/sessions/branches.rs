//! `duolog sessions branches`, and the tree of branches that other commands show.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use duolog::sessions::Branch;
use duolog::{BranchId, limits};
use duolog_wire as wire;

use super::Context;
use crate::args::Which;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table, Text};

const AFTER: &str = "\
Examples:
  duolog sessions branches demo
  duolog sessions branches demo --json | jq -r '.branches[].id'

JSON:
  {\"branches\": [{\"id\", \"name\", \"is_default\", \"parent_branch_id\", \"forked_at_ord\", \"item_count\",
                \"created_at\", \"user_id\", \"node_metadata\"}], \"next\": token|null}";

/// Show the branches of a session
///
/// The branches are shown as a tree: each branch is below the branch that it was forked from.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Branches {
    #[command(flatten)]
    which: Which,
    /// Maximum number of results [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Page token printed by the previous page
    #[arg(long, value_name = "TOKEN")]
    after: Option<BranchId>,
}

impl Branches {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let found = store.sessions().branches(&session.id).list(self.after.as_ref(), self.limit)?;
        let next = found.last().filter(|_| found.len() == self.limit as usize).map(|last| &last.id);
        let page: wire::Page<wire::Branch> = wire::Page::of(&found, next);
        context.out.answer(&page, |text| draw(text, &found))?;
        if found.is_empty() {
            context.out.note("the session has no branch yet; the first item creates one");
        }
        context.out.more(next);
        Ok(Ended::Done)
    }
}

/// Draws branches as a tree, each below its parent. A branch whose parent is not in `branches` is a root.
pub(super) fn draw(text: &mut Text, branches: &[Branch]) {
    let known: BTreeSet<&BranchId> = branches.iter().map(|branch| &branch.id).collect();
    let mut below: BTreeMap<Option<&BranchId>, Vec<&Branch>> = BTreeMap::new();
    for branch in branches {
        let parent = branch.forked.as_ref().map(|forked| &forked.parent).filter(|parent| known.contains(parent));
        below.entry(parent).or_default().push(branch);
    }
    let mut table = Table::new(&[
        (Column::Word, "NAME"),
        (Column::Id, "ID"),
        (Column::Figure, "ITEM_COUNT"),
        (Column::Figure, "FORKED_AT_ORD"),
        (Column::Id, "PARENT_BRANCH_ID"),
    ])
    .dropping(&["PARENT_BRANCH_ID", "FORKED_AT_ORD", "ITEM_COUNT"]);
    // A stack of branches still to draw, each with the prefix of its line.
    let mut waiting: Vec<(&Branch, String, &str, &str)> =
        below.get(&None).into_iter().flatten().rev().map(|branch| (*branch, String::new(), "", "")).collect();
    while let Some((branch, lead, arm, after)) = waiting.pop() {
        let name = branch.name.as_deref().unwrap_or(if branch.is_default { "(default)" } else { "-" });
        let forked = branch.forked.as_ref();
        table.row(vec![
            format!("{lead}{arm}{name}"),
            branch.id.to_string(),
            figures::count(branch.items),
            forked.map(|forked| forked.at.to_string()).unwrap_or_default(),
            forked.map(|forked| forked.parent.to_string()).unwrap_or_default(),
        ]);
        let children = below.get(&Some(&branch.id)).map_or(&[][..], Vec::as_slice);
        for (at, child) in children.iter().enumerate().rev() {
            let (arm, next) = if at + 1 == children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            waiting.push((child, format!("{lead}{after}"), arm, next));
        }
    }
    if !branches.is_empty() {
        text.table(&table.without_empty("FORKED_AT_ORD").without_empty("PARENT_BRANCH_ID"));
    }
}
