//! `duolog sessions pop`.

use clap::Args;
use duolog_wire as wire;

use super::{Context, OnBranch, one_line};
use crate::args::Which;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog sessions pop demo
  last=$(duolog sessions pop demo --branch try-again)

Exit code: 1 if there is no item

JSON:
  {\"session_id\", \"item\": … as given …|null}";

/// Remove and print the last item of a conversation
///
/// Other branches keep the items that they see. A summary that covers the item is undone.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Pop {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    branch: OnBranch,
}

impl Pop {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let session = store.sessions().resolve(&reference)?;
        let popped = store.sessions().items(&session.id).on(self.branch.reference()).pop(durability)?;
        let item = popped.as_ref().map(|item| wire::Json::of(&item.content));
        let shown = context.out.answer(&wire::ItemPopped { session_id: session.id.to_string(), item }, |text| {
            if let Some(item) = &popped {
                text.line(one_line(&item.content));
            }
        });
        if popped.is_some() {
            shown.map_err(|failure| failure.unseen("the item was removed"))?;
        } else {
            shown?;
        }
        if popped.is_none() {
            context.out.note("there is no item to remove");
        }
        context.close(store);
        Ok(if popped.is_some() { Ended::Done } else { Ended::No })
    }
}
