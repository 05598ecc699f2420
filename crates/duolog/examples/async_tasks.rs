//! Uses a store from async code.
//!
//! Run it with `cargo run --example async_tasks`.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use duolog::log::Follow;
use duolog::{Batch, Durability, Home, Item, Store, StoreOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(serve())
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let options = StoreOptions::at(Home::beneath(directory.path()));

    // Calls block, so they run on threads for blocking work. Handles own their data and can move there; clones are
    // cheap.
    let store = tokio::task::spawn_blocking(move || Store::open(options)).await??;
    let sessions = store.sessions();
    let session = tokio::task::spawn_blocking(move || sessions.open_thread("async")).await??.id;
    let log = store.log(&session);

    // A follower blocks while it waits, so it gets its own thread. The task gets its lines through a channel. The
    // channel is bounded: a slow reader slows down the follower, and memory does not grow.
    let (sender, mut lines) = tokio::sync::mpsc::channel(16);
    let follow = log.follow(None)?;
    let bell = follow.bell();
    let follower = std::thread::spawn(move || forward(follow, &sender));

    tokio::task::spawn_blocking(move || {
        (1..=3).try_for_each(|number| {
            let mut batch = Batch::default();
            batch.push(format!(r#"{{"n":{number}}}"#).as_bytes())?;
            log.append(&batch, Durability::Process).map(drop)
        })
    })
    .await??;
    for _ in 0..3 {
        println!("received {}", lines.recv().await.ok_or("the follower stopped")?);
    }

    // The reader is dropped; the bell wakes the follower, which notices.
    drop(lines);
    bell.ring();
    tokio::task::spawn_blocking(move || follower.join()).await?.map_err(|_| "the follower panicked")??;
    println!("follower stopped");
    tokio::task::spawn_blocking(move || store.close()).await??;
    println!("closed");
    Ok(())
}

/// Sends lines until the receiver is dropped.
fn forward(mut follow: Follow, sender: &tokio::sync::mpsc::Sender<String>) -> duolog::Result<()> {
    while !sender.is_closed() {
        follow.poll(&mut |item| {
            if let Item::Line(line) = item {
                // It fails only if the receiver was dropped, which the loop notices.
                let _ = sender.blocking_send(String::from_utf8_lossy(line.bytes).into_owned());
            }
        })?;
        follow.wait(Duration::from_secs(10));
    }
    Ok(())
}
