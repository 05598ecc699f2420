//! `duolog sessions fork`.

use clap::Args;
use duolog::sessions::NewFork;
use duolog_wire::Forked;

use super::{Context, OnBranch};
use crate::args::Which;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions fork demo
  duolog sessions fork demo --at 10 --name try-again
  branch=$(duolog sessions fork demo --branch try-again)

JSON:
  {\"branch_id\": id, \"parent_branch_id\": id, \"forked_at_ord\": 10}";

/// Fork a branch and print the id of the new branch
///
/// The new branch sees the first items of the branch that it is forked from. No item is copied. Later changes to one
/// branch do not affect the other. The fork is written to the session's log.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Fork {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    branch: OnBranch,
    /// Number of items that the new branch sees [default: all]
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    /// Name of the new branch, unique within its session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Fork {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let session = store.sessions().resolve(&reference)?;
        let new = NewFork { from: self.branch.reference(), at: self.at, name: self.name, node_metadata: None };
        let branch = store.sessions().branches(&session.id).fork(new, durability)?;
        context.out.answer(&Forked::from(&branch), |text| text.line(&branch.id))?;
        context.out.note(format_args!("the new branch sees {}", figures::things(branch.items, "item")));
        context.close(store);
        Ok(Ended::Done)
    }
}
