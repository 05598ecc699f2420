//! Tests of the public interface, with the state beside the logs, in another directory and on a server.

#![allow(clippy::expect_used, clippy::panic)]

/// Blobs: counting and pruning.
mod blobs;
/// Branches, items and summaries against a model in memory.
mod branch_names;
mod branching;
/// Vacuum, checkpoints, backups, statistics, and the checks of an engine.
mod care;
/// Chats: one active chat per conversation.
mod chats;
/// Claims; ends and answers that are complete, logged and never repeated.
mod claims;
/// Hosts with different clocks on one server.
mod clocks;
/// Conversations: items, messages, branches and their limits.
mod conversations;
/// Properties of sessions, branches and items, and lists by them.
mod described;
/// The example programs and their output.
mod examples;
/// Messages between sessions, and the status of sessions.
mod exchange;
/// Sessions of other programs, converted.
mod foreign;
/// Gates and their answers.
mod gates;
/// Handles: owned, shared by threads, refused after close, each with its own request.
mod handles;
/// Import of a Last Light database.
mod lastlight;
/// Executions, their roll-ups, and lists of runs.
mod ledger;
/// Creating, renaming and deleting under an operation id.
mod once;
/// Opening a store for writing and for reading.
mod opening;
/// Lists that are paged while their rows change.
mod pages;
/// Sessions as documents, exported and imported.
mod portable;
/// Recording the output of a runtime.
mod record;
/// Logs of every dialect, replayed as conversations.
mod replay;
/// A runner that is killed at every step, and its successor.
mod run_kills;
/// Processes that change the same runs at once.
mod run_races;
/// Runs from their start to their end, with one owner at a time.
mod runs;
/// Schedules: the values in force, the due times, and firing once.
mod schedules;
/// Search with and without an index, and with a damaged one.
mod search;
/// Several homes on one state.
mod shared;
/// Similar messages, against a model in memory.
mod similar;
/// Slots: running and queued runs, and their order.
mod slots;
/// Writes that create their session atomically.
mod targets;
/// Token usage and its cost.
mod usage;

use std::path::PathBuf;

use duolog::{Batch, Home, Store, StoreAddress, StoreOptions};
use duolog_testkit::engines::Place;
use tempfile::TempDir;

/// A separate home whose state is elsewhere.
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

/// Returns the last lines of a log, as text.
fn lines(store: &Store, session: &duolog::SessionId) -> Vec<String> {
    let lines = store.log(session).last(100).expect("reads");
    lines.into_iter().map(|line| String::from_utf8(line).expect("UTF-8")).collect()
}
