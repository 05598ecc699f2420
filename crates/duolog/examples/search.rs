//! Searches all logs.
//!
//! Run it with `cargo run --example search`.

#![allow(clippy::print_stdout)]

use duolog::search::{Query, SearchRequest};
use duolog::{Batch, Durability, Home, Store, StoreOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let store = Store::open(StoreOptions::at(Home::beneath(directory.path())))?;
    for (name, text) in [
        ("monday", "The scheduler had a deadlock in the queue."),
        ("tuesday", "No deadlock today; the tests pass."),
        ("friday", "Deployed."),
    ] {
        let session = store.sessions().open_thread(name)?;
        let mut batch = Batch::default();
        // A line of Claude Code. Lines of Codex and others are supported as well.
        let line = format!(
            r#"{{"type":"user","timestamp":"2026-01-02T03:04:05.000Z","message":{{"role":"user","content":"{text}"}}}}"#
        );
        batch.push(line.as_bytes())?;
        store.log(&session.id).append(&batch, Durability::Process)?;
    }

    // Words, "phrases", prefix*, and -word to exclude a word.
    for query in ["deadlock", "deadlock -tests", "deploy*"] {
        let found = store.search().find(&SearchRequest::new(Query::parse(query)?), |_| {})?;
        println!("{query}: {} found", found.hits.len());
        for hit in &found.hits {
            let session = store.sessions().get(&hit.session)?;
            println!("  {}: {}", session.name.unwrap_or_default(), hit.snippet.text);
        }
        // The result says whether everything was searched.
        assert!(found.is_complete());
    }
    Ok(())
}
