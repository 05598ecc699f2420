//! `duolog sessions items`.

use clap::Args;
use duolog::sessions::{Described, DescribedList, View};
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
  duolog sessions items demo --detail --json | jq '.items[] | {id, role, sender}'
  duolog sessions items demo --pool --json | jq -r '.items[].id'

JSON:
  {\"items\": [ … as given … ]}
  with --detail and with --pool
  {\"items\": [{\"id\", \"ord\": place|null, \"role\", \"sender\", \"recipient\", \"channel\", \"lion_class\",
             \"metadata\", \"created_at\", \"embedding\": [numbers]|null, \"summary_of\": [from, to]|null,
             \"content\": … as given …}], \"end\": 3}";

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
    /// Show the id, role, sender, class and metadata of each item
    #[arg(long)]
    detail: bool,
    /// Show the messages of all branches in the order they came, in detail
    #[arg(long, conflicts_with_all = ["branch", "full"])]
    pool: bool,
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
        if self.detail || self.pool {
            let items = store.sessions().items(&session.id).on(self.branch.reference());
            let list = if self.pool { items.pool(self.limit)? } else { items.described(self.limit, view)? };
            return detail(context, &list, self.limit);
        }
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

#[derive(Serialize)]
struct DetailAnswer<'a> {
    items: Vec<Detail<'a>>,
    end: u64,
}

#[derive(Serialize)]
struct Detail<'a> {
    id: &'a str,
    ord: Option<u64>,
    role: &'a str,
    sender: Option<&'a str>,
    recipient: Option<&'a str>,
    channel: Option<&'a str>,
    lion_class: Option<&'a str>,
    metadata: Option<Box<RawValue>>,
    created_at: String,
    embedding: Option<&'a [f32]>,
    summary_of: Option<[u64; 2]>,
    content: Box<RawValue>,
}

impl<'a> From<&'a Described> for Detail<'a> {
    fn from(item: &'a Described) -> Self {
        let message = &item.message;
        Self {
            id: message.id.as_str(),
            ord: item.ord,
            role: &message.role,
            sender: message.sender.as_deref(),
            recipient: message.recipient.as_deref(),
            channel: message.channel.as_deref(),
            lion_class: message.lion_class.as_deref(),
            metadata: message.node_metadata.as_deref().map(as_json),
            created_at: message.created_at.to_string(),
            embedding: message.embedding.as_deref(),
            summary_of: item.stands_for.as_ref().map(|range| [range.start, range.end]),
            content: as_json(&one_line(&message.content)),
        }
    }
}

/// Shows items with what is known of them.
fn detail(context: &mut Context<'_>, list: &DescribedList, limit: usize) -> Outcome {
    let answer = DetailAnswer { items: list.items.iter().map(Detail::from).collect(), end: list.end };
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
    if list.items.len() >= limit && list.end > limit as u64 {
        context.out.note(format_args!("of {}; --limit shows more", figures::things(list.end, "item")));
    }
    Ok(if list.broken.is_empty() { Ended::Done } else { Ended::Damaged })
}
