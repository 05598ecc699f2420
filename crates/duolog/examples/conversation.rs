//! Keeps a conversation: adds items, forks a branch, and replaces old items with a summary.
//!
//! Run it with `cargo run --example conversation`.

#![allow(clippy::print_stdout)]

use duolog::sessions::{AddOptions, BranchRef, HistoryView, Items, NewFork};
use duolog::{Durability, Home, Store, StoreOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let store = Store::open(StoreOptions::at(Home::beneath(directory.path())))?;
    let sessions = store.sessions();
    let session = sessions.open_thread("chat")?.id;

    // Items are the input of the model: each is one JSON value, returned byte for byte.
    let items = sessions.items(&session);
    items.add(&[r#"{"role":"user","text":"Name a color"}"#], &AddOptions::default())?;
    items.add(&[r#"{"role":"assistant","text":"Red"}"#], &AddOptions::default())?;
    show("main", &items)?;

    // The fork shares the first item of the main branch and continues separately. Nothing is copied.
    let fork = NewFork { at: Some(1), name: Some("retry".to_owned()), ..NewFork::default() };
    let fork = sessions.branches(&session).fork(fork, Durability::Power)?;
    let retry = BranchRef::Text(fork.id.to_string());
    let other = sessions.items(&session).on(retry);
    other.add(&[r#"{"role":"assistant","text":"Blue"}"#], &AddOptions::default())?;
    show("retry", &other)?;

    // A summary replaces a range of items. The items are kept, and the summary can be undone.
    let compaction = sessions.compaction(&session, BranchRef::Default);
    compaction.compact(Some(0..2), r#"{"role":"system","text":"They named red"}"#, Durability::Power)?;
    show("main, compacted", &items)?;
    compaction.undo(Durability::Power)?;
    show("main, undone", &items)?;
    Ok(())
}

/// Prints the input of the model.
fn show(name: &str, items: &Items) -> duolog::Result<()> {
    let seen = items.latest(10, HistoryView::Context)?;
    let texts: Vec<&str> = seen.items.iter().map(|item| item.content.as_str()).collect();
    println!("{name}: {}", texts.join(" "));
    Ok(())
}
