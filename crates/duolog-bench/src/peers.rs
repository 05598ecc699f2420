//! Our side of a comparison with other stores of conversations, one process per case, started by `bench/peers/`.
//!
//! The store is open and filled before the clock starts, as on the other sides. All sides start with the same objects,
//! and serialise or parse them while the clock runs.

use std::path::Path;

use duolog::sessions::{AddOptions, BranchRef, HistoryView, NewFork, RawItems};
use duolog::{Durability, SessionId, Store};
use serde_json::{Value, json};

use crate::bench::options_in;
use crate::measure;

/// The first argument of a process that is compared with a peer.
pub const CHILD: &str = "--beside-peers";

/// The number of items in a batch.
const BATCH: usize = 100;
/// The number of sessions that are written at the same time.
const SESSIONS: usize = 16;
/// How often all items are loaded.
const LOADS: usize = 5;
/// How often a fork is created.
const FORKS: usize = 20;

/// Runs one case on the items of a file, one per line, and prints the time per item, load or fork as JSON.
pub fn child(case: &str, directory: &Path, items: &Path) {
    let text = std::fs::read_to_string(items).expect("items");
    let items: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let store = Store::open(options_in(directory)).expect("a store");
    let session = store.sessions().open_thread("bench").expect("a session").id;
    let talk = Talk { store: &store, session };
    let took = match case {
        "one" => timed(items.len(), || items.chunks(1).for_each(|item| talk.add(item, Durability::Power))),
        "batches" => timed(items.len(), || items.chunks(BATCH).for_each(|some| talk.add(some, Durability::Power))),
        "sixteen" => talk.sixteen(&items),
        "load" => talk.load(&items),
        "fork" => talk.forks(&items, Durability::Power),
        "fork unsynced" => talk.forks(&items, Durability::Process),
        _ => panic!("unknown case {case}"),
    };
    println!("{took}");
    store.close().expect("closes");
}

struct Talk<'s> {
    store: &'s Store,
    session: SessionId,
}

impl Talk<'_> {
    fn add(&self, items: &[Value], durability: Durability) {
        let options = AddOptions { durability, ..AddOptions::default() };
        let texts: Vec<String> = items.iter().map(Value::to_string).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        self.store.sessions().items(&self.session).add(&texts, &options).expect("added");
    }

    /// Sixteen threads add items one by one, each to its own session.
    fn sixteen(&self, items: &[Value]) -> Value {
        let share = items.len() / SESSIONS;
        let session = |number: usize| self.store.sessions().open_thread(&format!("s-{number}")).expect("a session").id;
        let talks: Vec<Talk<'_>> =
            (0..SESSIONS).map(|number| Talk { store: self.store, session: session(number) }).collect();
        timed(share * SESSIONS, || {
            std::thread::scope(|scope| {
                for (talk, items) in talks.iter().zip(items.chunks(share)) {
                    scope.spawn(move || items.chunks(1).for_each(|item| talk.add(item, Durability::Power)));
                }
            });
        })
    }

    fn fill(&self, items: &[Value]) {
        items.chunks(BATCH).for_each(|some| self.add(some, Durability::Process));
    }

    /// Loads and parses all items.
    fn load(&self, items: &[Value]) -> Value {
        self.fill(items);
        let mut list = RawItems::default();
        let mut load = || {
            let all = self.store.sessions().items(&self.session);
            all.latest_raw_into(items.len(), HistoryView::Full, &mut list).expect("reads");
            assert_eq!((list.len(), list.broken.len()), (items.len(), 0));
            let parsed: Vec<Value> =
                list.iter().map(|item| serde_json::from_slice(item.content).expect("JSON")).collect();
            std::hint::black_box(parsed);
        };
        load();
        timed(LOADS, || (0..LOADS).for_each(|_| load()))
    }

    /// Forks after the last item.
    fn forks(&self, items: &[Value], durability: Durability) -> Value {
        self.fill(items);
        let branches = self.store.sessions().branches(&self.session);
        let fork = || branches.fork(NewFork { from: BranchRef::Default, ..NewFork::default() }, durability);
        fork().expect("forked");
        timed(FORKS, || (0..FORKS).for_each(|_| assert_eq!(fork().expect("forked").items, items.len() as u64)))
    }
}

/// Returns the seconds per operation.
fn timed(operations: usize, work: impl FnOnce()) -> Value {
    let (nanoseconds, ()) = measure::timed(work);
    json!({"seconds": nanoseconds / 1e9 / operations as f64})
}
