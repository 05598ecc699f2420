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

Exit code: 1 if another message has the given id. Nothing is changed then.

JSON:
  {\"session_id\", \"branch_id\", \"added\": 3, \"from_ord\": 0, \"to_ord\": 3}
  added is the number of new items: a repetition of an item that the branch has is not added again";

/// Add items to a conversation: all of them, or none
///
/// An item is what the model sees: any JSON, given back byte for byte. Reads JSON values from stdin to the end.
/// --session names the session whose id or thread name it is exactly; where there is none, one is made, in the same
/// transaction. --role, --sender, --lion-class and --metadata are those of every item; sessions items --detail shows them.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Add {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    branch: OnBranch,
    /// An item; may be given more than once
    #[arg(long, value_name = "JSON")]
    item: Vec<String>,
    /// The item that comes before all others; written once, and left alone where there is one
    #[arg(long, value_name = "JSON")]
    system: Option<String>,
    /// What an item means to a model, as a JSON array of numbers; one for each item
    #[arg(long, value_name = "JSON")]
    embedding: Vec<String>,
    /// Message id of an item; one for each item [default: a new one]
    ///
    /// The same item under the same id is added once. Another item under a taken id is refused.
    #[arg(long, value_name = "ID")]
    id: Vec<MessageId>,
    /// Role of the items [default: the one that each item names]
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Sender of the items
    #[arg(long, value_name = "NAME")]
    sender: Option<String>,
    /// Class of the items in the program that made them
    #[arg(long, value_name = "CLASS")]
    lion_class: Option<String>,
    /// Metadata of the items, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// Add only once under this id, however often it is asked
    #[arg(long = "operation-id", alias = "operation", value_name = "ID")]
    operation: Option<OperationId>,
    /// What the items survive once they are acknowledged: the death of the process, or a power cut; as the
    /// configuration says where it is not given
    #[arg(long, value_parser = args::durability())]
    durability: Option<Durability>,
}

impl Add {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let config = context.config()?.clone().with_durability(self.durability);
        let input = if self.item.is_empty() {
            context.out.invite("reading JSON items; Ctrl-D ends them");
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
            // A repetition is answered as the first time, whatever became of the session.
            Err(Error::NotFound(NotFound::Session(id))) => id,
            Err(error) => return Err(error.into()),
        };
        context.out.confirm(&wire::ItemsAdded::from(&added), |text| {
            let count = figures::things(added.end - added.from_ord, "item");
            text.line(format_args!("added {count} to {called}; it has {}", figures::count(added.end)));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

impl Add {
    /// What is known of each item; nothing if no flag says anything.
    fn about(&self, items: usize) -> Result<Vec<About>, Failure> {
        if let Some(metadata) = &self.metadata {
            check_metadata(metadata)?;
        }
        if !self.id.is_empty() && self.id.len() != items {
            return Err(Failure::Given {
                message: format!("--id is given {} times for {items} items", self.id.len()),
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

/// Reads all of stdin, as far as a batch may go.
fn read_stdin(bytes_max: usize) -> Result<String, Failure> {
    let mut input = String::new();
    let read = stdin().lock().take(bytes_max as u64 + 1).read_to_string(&mut input);
    read.map_err(Failure::file("read", Path::new("stdin")))?;
    if input.len() > bytes_max {
        return Err(Failure::Given {
            message: format!("the input is over the limit of a batch, {}", figures::size(bytes_max as u64)),
            hint: Some("add the items in several batches".to_owned()),
        });
    }
    Ok(input)
}

/// The JSON values of a text, byte for byte.
fn values_of(input: &str) -> Result<Vec<&str>, Failure> {
    let values = serde_json::Deserializer::from_str(input).into_iter::<&RawValue>();
    let values = values.map(|value| value.map(RawValue::get));
    values.collect::<Result<_, _>>().map_err(|error| Failure::Given {
        message: format!("the input is not JSON: {error}"),
        hint: Some("give one JSON value after another; NaN and Infinity are none".to_owned()),
    })
}
