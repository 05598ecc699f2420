//! `duolog sessions items`.

use std::ops::Range;

use clap::Args;
use duolog::sessions::{DescribedList, HistoryView};
use duolog_wire as wire;

use super::{Context, OnBranch, one_line};
use crate::args::Which;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions items demo
  duolog sessions items demo --limit 50 --json | jq '.items'
  duolog sessions items demo --full --branch try-again
  duolog sessions items demo --full --after 199 --limit 100
  duolog sessions items demo --detail --json | jq '.items[] | {id, role, sender}'
  duolog sessions items demo --pool --json | jq -r '.items[].id'

JSON:
  {\"items\": [ … as given … ], \"item_count\": 3, \"complete\": true|false, \"next\": token|null}
  With --detail or --pool:
  {\"items\": [{\"id\", \"ord\": ordinal|null, \"role\", \"sender\", \"recipient\", \"channel\", \"lion_class\",
             \"node_metadata\", \"created_at\", \"embedding\": [numbers]|null,
             \"summary_of\": {\"from_ord\", \"to_ord\"}|null, \"content\": … as given …}],
   \"item_count\": 3, \"complete\": true|false, \"next\": null}
  item_count is the total number of items. complete is false if there are items that are neither
  shown nor covered by a summary that is shown. Pass next to --after";

/// Default of --limit.
const LIMIT: usize = 1000;

/// Show the last items of a conversation
///
/// Shows the context of the model, one item per line, oldest first. A summary replaces the items that it covers; --full
/// shows every item instead. The system item comes first and is not counted.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Items {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    branch: OnBranch,
    /// Maximum number of results, from the end
    #[arg(long, short = 'n', value_name = "N", default_value_t = LIMIT)]
    limit: usize,
    /// Page token printed by the previous page
    ///
    /// The token is the ordinal of an item; the items after it are shown, instead of the last ones.
    #[arg(long, value_name = "TOKEN", requires = "full", conflicts_with_all = ["detail", "pool"])]
    #[arg(value_parser = clap::value_parser!(u64).range(..1 << 62))]
    after: Option<u64>,
    /// Show every item and no summaries
    #[arg(long)]
    full: bool,
    /// Show the id, role, sender, class and metadata of each item
    #[arg(long)]
    detail: bool,
    /// Show the messages of all branches in the order they were added, in detail
    #[arg(long, conflicts_with_all = ["branch", "full"])]
    pool: bool,
}

impl Items {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let view = if self.full { HistoryView::Full } else { HistoryView::Context };
        if self.detail || self.pool {
            let items = store.sessions().items(&session.id).on(self.branch.reference());
            let list = if self.pool { items.pool(self.limit)? } else { items.described(self.limit, view)? };
            let places = list.items.iter().map(|item| first_place(item.ord, item.stands_for.as_ref()));
            let is_whole = (list.items.len() + list.broken.len()) as u64 >= list.end;
            let complete = if self.pool { is_whole } else { starts_at_first(places, list.end) };
            return detail(context, &list, complete);
        }
        let items = store.sessions().items(&session.id).on(self.branch.reference());
        let list = match self.after {
            Some(after) => items.history(after.saturating_add(1), u32::try_from(self.limit).unwrap_or(u32::MAX))?,
            None => items.latest(self.limit, view)?,
        };
        let places = list.items.iter().map(|item| first_place(item.ord, item.stands_for.as_ref()));
        let complete = starts_at_first(places, list.end);
        let at_end = list.items.iter().filter_map(|item| item.ord).max();
        let next = at_end.filter(|at_end| self.after.is_some() && at_end + 1 < list.end);
        let answer = wire::ItemList {
            items: list.items.iter().map(|item| wire::Json::of(&item.content)).collect(),
            item_count: list.end,
            complete,
            next: next.map(|next| next.to_string()),
        };
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
        } else if let Some(next) = next {
            context.out.note(format_args!("{} in all; next page: --after {next}", figures::things(list.end, "item")));
        } else if !complete && self.after.is_none() {
            context.out.note(format_args!("{} in all; use --limit to show more", figures::things(list.end, "item")));
        }
        Ok(if list.broken.is_empty() { Ended::Done } else { Ended::Damaged })
    }
}

/// Returns the ordinal of an item, or the first ordinal that a summary covers. `None` for the system item.
fn first_place(ord: Option<u64>, stands_for: Option<&Range<u64>>) -> Option<u64> {
    stands_for.map(|range| range.start).or(ord)
}

/// Returns true if the ordinals include the first item of a history with `end` items.
fn starts_at_first(places: impl Iterator<Item = Option<u64>>, end: u64) -> bool {
    end == 0 || places.flatten().min() == Some(0)
}

/// Shows items with their id, role, sender and metadata.
fn detail(context: &mut Context<'_>, list: &DescribedList, complete: bool) -> CommandResult {
    let answer = wire::ItemDetailList {
        items: list.items.iter().map(wire::ItemDetail::from).collect(),
        item_count: list.end,
        complete,
        next: None,
    };
    context.out.answer(&answer, |text| {
        for item in &list.items {
            let message = &item.message;
            let ord = item.ord.map_or_else(|| "-".to_owned(), |ord| ord.to_string());
            let sender = message.sender.as_deref().unwrap_or("-");
            let (id, role) = (&message.id, &message.role);
            text.line(format_args!("{ord}  {id}  {role}  {sender}  {}", one_line(&message.content)));
        }
    })?;
    for broken in &list.broken {
        context.out.alert(format_args!("item {} cannot be read: {}", broken.id, broken.detail));
    }
    if !complete && !list.items.is_empty() {
        context.out.note(format_args!("{} in all; use --limit to show more", figures::things(list.end, "item")));
    }
    Ok(if list.broken.is_empty() { Ended::Done } else { Ended::Damaged })
}
