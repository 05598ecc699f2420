//! Exports a session as one document and imports it into another home.
//!
//! Run it with `cargo run --example exchange`.

#![allow(clippy::print_stdout)]

use std::io::{Seek as _, Write as _};

use duolog::sessions::AddOptions;
use duolog::{Batch, Durability, Home, Store, StoreOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let open = |name: &str| Store::open(StoreOptions::at(Home::beneath(&directory.path().join(name))));

    // A session with a log and a conversation.
    let laptop = open("laptop")?;
    let session = laptop.sessions().open_thread("plan")?.id;
    let mut batch = Batch::default();
    batch.push(br#"{"type":"user","text":"What is the plan?"}"#)?;
    laptop.log(&session).append(&batch, Durability::Power)?;
    laptop
        .sessions()
        .items(&session)
        .add(&[r#"{"role":"user"}"#, r#"{"role":"assistant"}"#], &AddOptions::default())?;

    // The document contains everything: rows, branches, messages, log lines and blobs.
    let mut document = tempfile::tempfile()?;
    let exported = laptop.sessions().export(&session, &mut document)?;
    document.flush()?;
    println!("exported: {} branch, {} messages, {} line", exported.branches, exported.messages, exported.lines);

    // The import creates an equal session or changes nothing.
    let server = open("server")?;
    document.rewind()?;
    let imported = server.sessions().import(document.try_clone()?)?;
    println!("imported: {} messages", imported.held.messages);
    assert_eq!(server.log(&session).last(1)?, laptop.log(&session).last(1)?);

    // A second import is refused: the session exists.
    document.rewind()?;
    let refused = server.sessions().import(document);
    println!("again: {}", refused.err().map_or("done", |error| error.kind().as_str()));
    Ok(())
}
