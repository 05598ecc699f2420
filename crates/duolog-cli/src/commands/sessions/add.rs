//! `duolog sessions add`.

use std::io::{Read as _, stdin};
use std::path::Path;

use clap::Args;
use duolog::sessions::AddOptions;
use duolog::{Durability, OperationId};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::log::Target;
use super::{Context, OnBranch, vector};
use crate::args;
use crate::failure::{Ended, Failure, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions add --session demo --item '{\"role\":\"user\",\"content\":\"hello\"}'
  my-agent --items | duolog sessions add --user-email ada@example.com --session-name plan
  duolog sessions add --session demo --operation-id turn-7 < items.json
  duolog sessions add --session demo --item '\"hello\"' --embedding '[0.1,0.2]'

JSON:
  {\"session\": id, \"branch\": id, \"added\": 3, \"from_ord\": 0, \"end\": 3}";

/// Add items to a conversation: all of them, or none
///
/// An item is what the model sees: any JSON, given back byte for byte. Reads JSON values from stdin to the end.
/// --session names the session whose id or thread name it is exactly; where there is none, one is made.
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
    /// Add only once under this id, however often it is asked
    #[arg(long = "operation-id", alias = "operation", value_name = "ID")]
    operation: Option<OperationId>,
    /// What the items survive once they are acknowledged: the death of the process, or a power cut; as the
    /// configuration says where it is not given
    #[arg(long, value_parser = args::durability())]
    durability: Option<Durability>,
}

#[derive(Serialize)]
struct Answer<'a> {
    session: &'a str,
    branch: &'a str,
    added: usize,
    from_ord: u64,
    end: u64,
}

impl Add {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
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
        let options =
            AddOptions { operation: self.operation, durability: config.durability(), system: self.system, embeddings };
        let store = context.open_to_write()?;
        let session = self.target.open(&store, &config)?;
        let added = store.sessions().items(&session.id).on(self.branch.reference()).add(&items, &options)?;
        let shape = Answer {
            session: session.id.as_str(),
            branch: added.branch.as_str(),
            added: items.len(),
            from_ord: added.from_ord,
            end: added.end,
        };
        context.out.confirm(&shape, |text| {
            let count = figures::things(items.len() as u64, "item");
            let called = session.called();
            text.line(format_args!("added {count} to {called}; it has {}", figures::count(added.end)));
        })?;
        context.close(store);
        Ok(Ended::Done)
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
