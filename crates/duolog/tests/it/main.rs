//! The library from outside, wherever the state is: beside the logs, in another directory, on a server.

#![allow(clippy::expect_used, clippy::panic)]

/// Blobs: what is counted, and what may be taken away when.
mod blobs;
/// Branches, items and summaries against a model that keeps them in memory.
mod branch_names;
mod branching;
/// Space, checkpoints, copies, figures, and what doctor says of an engine.
mod care;
/// Chats: one at a place, begun, ended, told once.
mod chats;
/// Claims and what ends with them; ends and answers that are whole, told and never repeated.
mod claims;
/// Hosts whose clocks differ, on one server.
mod clocks;
/// What conversations keep, refuse and survive.
mod conversations;
/// What sessions, branches and items say about themselves, and the lists by it.
mod described;
/// The example programs: they run, and print what they promise.
mod examples;
/// What is sent from one to another, and how sessions stand.
mod exchange;
/// What other programs keep, mapped to our rows.
mod foreign;
/// Gates: what runs wait for, and who may say it when.
mod gates;
/// Handles: owned, shared by threads, refused after close, each with its own request.
mod handles;
/// What Last Light keeps, taken into a home.
mod lastlight;
/// Executions, what is summed up of them, and lists of runs.
mod ledger;
/// Making, renaming and deleting under an operation id.
mod once;
/// Opening: what is made, and what is only looked at.
mod opening;
/// Lists that are paged while what they list changes.
mod pages;
/// Sessions as documents, from one home to another.
mod portable;
/// Recording what a runtime says.
mod record;
/// Logs of every dialect told as conversations.
mod replay;
/// A runner killed at every step, and whoever goes on.
mod run_kills;
/// Processes that want the same of the same runs at once.
mod run_races;
/// Runs: from their start to their end, by one owner at a time.
mod runs;
/// Schedules: what is in force, what is due, and what is fired once.
mod schedules;
/// Searching: with and without an index, whatever becomes of it.
mod search;
/// Several homes on one state.
mod shared;
/// Messages that are near: with and without packed embeddings, whatever becomes of them, against a model.
mod similar;
/// Slots: who runs, who waits, and in which order.
mod slots;
/// Writes that create their session: with what they write, or not at all.
mod targets;
/// What was used, and what it costs.
mod usage;

use std::path::PathBuf;

use duolog::{Batch, Home, Store, StoreAddress, StoreOptions};
use duolog_testkit::engines::Place;
use tempfile::TempDir;

/// A home of its own, whose state is elsewhere.
struct Apart {
    directory: TempDir,
    store: StoreAddress,
}

impl Apart {
    fn of(place: &Place) -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), store: StoreAddress::At(place.address()) }
    }

    fn options(&self) -> StoreOptions {
        StoreOptions::at(self.home()).with_store(self.store.clone()).one_shot()
    }

    fn open(&self) -> Store {
        Store::open(self.options()).unwrap_or_else(|error| panic!("{error}: {error:?}"))
    }

    fn home(&self) -> Home {
        Home::beneath(self.directory.path())
    }

    fn log(&self, path: &str) -> PathBuf {
        self.home().state.join(path)
    }
}

fn line(text: &str) -> Batch {
    let mut batch = Batch::default();
    batch.push(text.as_bytes()).expect("a line");
    batch
}

/// The last lines of a log, as text.
fn lines(store: &Store, session: &duolog::SessionId) -> Vec<String> {
    let lines = store.log(session).last(100).expect("reads");
    lines.into_iter().map(|line| String::from_utf8(line).expect("UTF-8")).collect()
}
