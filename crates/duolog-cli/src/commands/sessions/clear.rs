//! `duolog sessions clear`.

use clap::Args;
use duolog_wire::ItemCleared;

use super::{Context, OnBranch};
use crate::args::Which;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions clear demo
  duolog sessions clear demo --branch try-again --yes

Exit code: 1 if the answer to the prompt is no

JSON:
  {\"session_id\", \"cleared\": 12}";

/// Remove all items from a conversation
///
/// The log is kept, and other branches keep the items that they see. The command asks for confirmation on a terminal;
/// scripts must use --yes.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Clear {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    branch: OnBranch,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

impl Clear {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let session = store.sessions().resolve_exact(&reference)?;
        let branch = self.branch.reference();
        if !self.yes {
            let items = store.sessions().branches(&session.id).get(&branch)?.map_or(0, |branch| branch.items);
            let what = format!("{} of session {}", figures::things(items, "item"), session.id);
            let yes = context.out.ask(&format!("clear {what}?")).ok_or_else(|| Failure::Given {
                message: format!("cannot clear {what}: stdin is not a terminal, so nobody can confirm"),
                hint: Some("add --yes".to_owned()),
            })?;
            if !yes {
                let kept = ItemCleared { session_id: session.id.to_string(), cleared: 0 };
                context.out.answer(&kept, |text| text.line(format_args!("kept {what}")))?;
                context.close(store);
                return Ok(Ended::No);
            }
        }
        let cleared = store.sessions().items(&session.id).on(branch).clear(durability)?;
        context.out.confirm(&ItemCleared { session_id: session.id.to_string(), cleared }, |text| {
            text.line(format_args!("cleared {}", figures::things(cleared, "item")));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}
