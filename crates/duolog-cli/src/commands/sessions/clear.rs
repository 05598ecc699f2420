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

Exit code: 1 where the question is answered with no

JSON:
  {\"session_id\", \"cleared\": 12}";

/// Take every item off a conversation; the log stays
///
/// Other branches keep what they see. A person at a terminal is asked; a script says --yes.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Clear {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    branch: OnBranch,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Clear {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let session = store.sessions().resolve_whole(&reference)?;
        let branch = self.branch.reference();
        if !self.yes {
            let items = store.sessions().branches(&session.id).get(&branch)?.map_or(0, |branch| branch.items);
            let what = format!("{} of session {}", figures::things(items, "item"), session.id);
            let yes = context.out.ask(&format!("clear {what}?")).ok_or_else(|| Failure::Given {
                message: format!("{what} would be cleared, and nobody is there to ask"),
                hint: Some("say --yes".to_owned()),
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
