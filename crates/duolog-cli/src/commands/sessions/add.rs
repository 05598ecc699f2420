//! `duolog sessions add`.

use std::io::{Read as _, stdin};
use std::path::Path;

use clap::Args;
use duolog::errors::NotFound;
use duolog::sessions::{About, AddOptions};
use duolog::{Durability, Error, MessageId, OperationId};
use duolog_wire as wire;
use serde_json::value::RawValue;

use super::super::log::Target;
use super::{Context, OnBranch, check_metadata, vector};
use crate::args;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions add --session demo --item '{\"role\":\"user\",\"content\":\"hello\"}'
  my-agent --items | duolog sessions add --user-email ada@example.com --session-name plan
  duolog sessions add --session demo --operation-id turn-7 < items.json
  duolog sessions add --session demo --item '\"hello\"' --embedding '[0.1,0.2]'
  duolog sessions add --session demo --item '{\"text\":\"hi\"}' --id m-7 --role user --sender ada --metadata '{\"a\":1}'

Exit code: 1 if another message has the given id; nothing is changed

JSON:
  {\"session_id\", \"branch_id\", \"added\": 3, \"from_ord\": 0, \"to_ord\": 3}
  added is the number of new items. An item that the branch already has under the same id is not
  added again";

/// Add items to a conversation
///
/// All items are added, or none. An item is any JSON value that the model sees; it is returned byte for byte. Without
/// --item, JSON values are read from stdin until the end.
///
/// --session must be a whole id or a thread name. If the session does not exist, it is created in the same transaction.
///
/// --role, --sender, --lion-class and --metadata apply to every item; sessions items --detail shows them.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Add {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    branch: OnBranch,
    /// Item; may be repeated
    #[arg(long, value_name = "JSON")]
    item: Vec<String>,
    /// System item, which comes before all others; ignored if the branch has one
    #[arg(long, value_name = "JSON")]
    system: Option<String>,
    /// Embedding of an item, as a JSON array of numbers; one for each item
    #[arg(long, value_name = "JSON")]
    embedding: Vec<String>,
    /// Message id of an item; one for each item [default: a new id]
    ///
    /// The same item under the same id is added once. Another item under a taken id is refused.
    #[arg(long, value_name = "ID")]
    id: Vec<MessageId>,
    /// Role of the items [default: role in each item]
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Sender of the items
    #[arg(long, value_name = "NAME")]
    sender: Option<String>,
    /// Class of the items in the program that created them
    #[arg(long, value_name = "CLASS")]
    lion_class: Option<String>,
    /// Metadata of the items, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// Operation id: the items are added once per id, and a retry returns the first answer
    #[arg(long = "operation-id", value_name = "ID")]
    operation: Option<OperationId>,
    /// Durability of the acknowledged items [default: durability of the configuration]
    ///
    /// process: they survive a process crash. power: they also survive a power cut.
    #[arg(long, value_parser = args::durability())]
    durability: Option<Durability>,
}

impl Add {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let config = context.config()?.clone().with_durability(self.durability);
        let input = if self.item.is_empty() {
            context.out.invite("reading JSON items from stdin; press Ctrl-D to end");
            read_stdin(config.limits().batch_bytes_max)?
        } else {
            String::new()
        };
        let items =
            if self.item.is_empty() { values_of(&input)? } else { self.item.iter().map(String::as_str).collect() };
        let embeddings =
            self.embedding.iter().map(|text| vector::parse("--embedding", text)).collect::<Result<_, _>>()?;
        let about = self.about(items.len())?;
        let (operation, system, durability) = (self.operation, self.system, config.durability());
        let options = AddOptions { operation, durability, system, embeddings, about };
        let store = context.open_to_write()?;
        let target = self.target.write_target(&config);
        let added = store.sessions().add_items(&target, &self.branch.reference(), &items, &options)?;
        let called = match store.sessions().get(&added.session) {
            Ok(session) => session.called().to_owned(),
            // A retry gets the first answer, even if the session was deleted since.
            Err(Error::NotFound(NotFound::Session(id))) => id,
            Err(error) => return Err(error.into()),
        };
        context.out.confirm(&wire::ItemsAdded::from(&added), |text| {
            let count = figures::things(added.end - added.from_ord, "item");
            text.line(format_args!("added {count} to {called}; it now has {}", figures::things(added.end, "item")));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

impl Add {
    /// Returns the id, role, sender, class and metadata of each item. Empty if none of the flags is given.
    fn about(&self, items: usize) -> Result<Vec<About>, Failure> {
        if let Some(metadata) = &self.metadata {
            check_metadata(metadata)?;
        }
        if !self.id.is_empty() && self.id.len() != items {
            return Err(Failure::Given {
                message: format!("cannot add the items: --id is given {} times for {items} items", self.id.len()),
                hint: Some("give one --id for each item, or none".to_owned()),
            });
        }
        let about = About {
            id: None,
            role: self.role.clone(),
            sender: self.sender.clone(),
            lion_class: self.lion_class.clone(),
            node_metadata: self.metadata.clone(),
        };
        if self.id.is_empty() && about == About::default() {
            return Ok(Vec::new());
        }
        Ok((0..items).map(|at| About { id: self.id.get(at).cloned(), ..about.clone() }).collect())
    }
}

/// Reads all of stdin. Returns an error if the input is larger than a batch may be.
fn read_stdin(bytes_max: usize) -> Result<String, Failure> {
    let mut input = String::new();
    let read = stdin().lock().take(bytes_max as u64 + 1).read_to_string(&mut input);
    read.map_err(Failure::file("read", Path::new("stdin")))?;
    if input.len() > bytes_max {
        return Err(Failure::Given {
            message: format!(
                "cannot add the items: the input is larger than the batch limit of {}",
                figures::size(bytes_max as u64)
            ),
            hint: Some("add the items in several batches".to_owned()),
        });
    }
    Ok(input)
}

/// Splits a text into its JSON values, byte for byte.
fn values_of(input: &str) -> Result<Vec<&str>, Failure> {
    let values = serde_json::Deserializer::from_str(input).into_iter::<&RawValue>();
    let values = values.map(|value| value.map(RawValue::get));
    values.collect::<Result<_, _>>().map_err(|error| Failure::Given {
        message: format!("cannot add the items: the input is not JSON: {error}"),
        hint: Some("give one JSON value after another; NaN and Infinity are not JSON".to_owned()),
    })
}
