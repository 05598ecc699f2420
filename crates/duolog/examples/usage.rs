//! Reports the tokens of sessions and their cost.
//!
//! Run it with `cargo run --example usage`.

#![allow(clippy::print_stdout)]

use duolog::usage::UsageFilter;
use duolog::{Batch, Durability, Home, Store, StoreOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let store = Store::open(StoreOptions::at(Home::beneath(directory.path())))?;

    // Usage is read from the log: append the output of the agent's runtime.
    let session = store.sessions().open_thread("work")?;
    let mut batch = Batch::default();
    for (number, model) in [(1, "claude-opus-4-8"), (2, "claude-opus-4-8"), (3, "a-model-of-mine")] {
        let line = format!(
            r#"{{"type":"assistant","timestamp":"2026-01-0{number}T12:00:00.000Z","sessionId":"s","uuid":"u{number}","requestId":"r{number}","message":{{"id":"m{number}","role":"assistant","model":"{model}","content":[{{"type":"text","text":"Done."}}],"usage":{{"input_tokens":1000,"output_tokens":200}}}}}}"#
        );
        batch.push(line.as_bytes())?;
    }
    store.log(&session.id).append(&batch, Durability::Process)?;

    // By day, newest first. `model`, `session` and `workflow` are other groupings.
    let report = store.usage().daily(&UsageFilter::default())?;
    for line in &report.lines {
        let day = line.key.as_deref().unwrap_or("no day");
        println!("{day}: {} in, {} out", line.used.tokens.input, line.used.tokens.output);
    }
    let cost = report.total.cost.map_or_else(|| "unknown".to_owned(), |cost| format!("${cost}"));
    println!("total: {} responses, {cost}", report.total.responses);
    // A model without a price is listed, and its tokens are not in the cost.
    for model in report.total.unpriced.iter().flatten() {
        println!("no price is known for {model}");
    }
    Ok(())
}
