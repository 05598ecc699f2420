//! `duolog sessions items`.

use clap::Args;
use duolog::sessions::View;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Context, OnBranch, as_json, one_line};
use crate::args::Which;
use crate::failure::{Ended, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions items demo
  duolog sessions items demo --limit 50 --json | jq '.items'
  duolog sessions items demo --full --branch try-again

JSON:
  {\"items\": [ … as given … ]}";

/// The items when nobody asks for another number.
const LIMIT: usize = 1000;

/// Show what the model is to see: the last items, in their order
///
/// Where a summary stands for items, it is shown in their place; --full shows every item instead. The system item comes
/// first and is not counted. Each is one line.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Items {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    branch: OnBranch,
    /// How many at the most, of the last ones
    #[arg(long, value_name = "N", default_value_t = LIMIT)]
    limit: usize,
    /// Every item, and no summaries
    #[arg(long)]
    full: bool,
}

#[derive(Serialize)]
struct Answer {
    items: Vec<Box<RawValue>>,
}

impl Items {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let view = if self.full { View::Full } else { View::Context };
        let list = store.sessions().items(&session.id).on(self.branch.reference()).latest(self.limit, view)?;
        let answer = Answer { items: list.items.iter().map(|item| as_json(&one_line(&item.content))).collect() };
        context.out.answer(&answer, |text| {
            for item in &list.items {
                text.line(one_line(&item.content));
            }
        })?;
        for broken in &list.broken {
            context.out.alert(format_args!("item {} cannot be read: {}", broken.id, broken.detail));
        }
        if list.items.is_empty() {
            context.out.note("there are no items yet; add one with: duolog sessions add --session NAME --item JSON");
        } else if list.items.len() >= self.limit && list.end > self.limit as u64 {
            context.out.note(format_args!("of {}; --limit shows more", figures::things(list.end, "item")));
        }
        Ok(if list.broken.is_empty() { Ended::Done } else { Ended::Damaged })
    }
}
