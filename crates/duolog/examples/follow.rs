//! Appends to the log of a session and follows it from another thread.
//!
//! Run it with `cargo run --example follow`.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use duolog::{Batch, Durability, Home, Item, Store, StoreOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A home is a directory. This one is temporary.
    let directory = tempfile::tempdir()?;
    let store = Store::open(StoreOptions::at(Home::beneath(directory.path())))?;
    let session = store.sessions().open_thread("hello")?;
    let log = store.log(&session.id);

    // A follower owns its data, so it can run in its own thread. It starts at the first line.
    let mut follow = log.follow(None)?;
    let reader = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < 3 {
            follow.poll(&mut |item| {
                if let Item::Line(line) = item {
                    seen += 1;
                    println!("line {seen}: {}", String::from_utf8_lossy(line.bytes));
                }
            })?;
            if seen < 3 {
                follow.wait(Duration::from_secs(10));
            }
        }
        // A later follower continues from this cursor.
        Ok::<_, duolog::Error>(follow.cursor())
    });

    // A batch is appended completely or not at all. With `Power` it survives a power loss.
    for text in ["What is the plan?", "Read, change, test.", "Go."] {
        let mut batch = Batch::default();
        batch.push(format!(r#"{{"type":"user","text":"{text}"}}"#).as_bytes())?;
        log.append(&batch, Durability::Power)?;
    }
    let cursor = reader.join().map_err(|_| "the reader panicked")??;
    println!("followed to byte {}", cursor.position);
    store.close()?;
    Ok(())
}
