//! One process that appends to ten thousand sessions in turn.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::rc::Rc;

use duolog::sessions::SessionFilter;
use duolog::{Durability, Page, SessionId, Store, limits};

use super::backup;
use crate::bench::{Bench, store_in};
use crate::benchmark::Target;
use crate::events::{self, LINE};
use crate::measure::{Case, in_turns, timed};

/// The maximum time of a list in addition to its wait for the fold.
const BEYOND_WAIT_MS: f64 = 50.0;

/// An append to each in turn, the first list after it, and the backup.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let count = bench.size(10_000, 300);
    let directory = bench.new_dir();
    let store = store_in(&directory);
    events::make_sessions(&store, count);
    store.catch_up(|_| {}).expect("caught up");
    let ids = Rc::new(ids_of(&store));
    assert_eq!(ids.len(), count);

    let bare: Vec<_> = (0..count).map(|number| directory.join(format!("bare-{number}.jsonl"))).collect();
    let line = [LINE, b"\n"].concat();
    for path in &bare {
        fs::write(path, &line).expect("written");
    }
    let (appending, rounds) = (Writer::new(&store, &ids), bench.size(2, 1));
    let what = format!("an event to each of {count} sessions in turn / open, write, close");
    let round_robin = Case::cost("many/round-robin", &what, Target::AtMost(5.0), move || {
        let write = |path| OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(&line));
        in_turns(
            rounds,
            (count, count),
            || appending.append_to_all(),
            || bare.iter().for_each(|path| write(path).expect("written")),
        )
    });

    let appending = Writer::new(&store, &ids);
    let wait = limits::CATCH_UP_BEFORE_LIST.as_secs_f64() * 1e3;
    let what = format!("open and list while {count} sessions are behind / the wait of a list ({wait} ms) and 50 ms");
    let list = Case::bound("many/first list", &what, wait + BEYOND_WAIT_MS, move || {
        appending.append_to_all();
        let (took, list) = timed(|| {
            let store = store_in(&directory);
            store.sessions().list(&SessionFilter::default(), &Page::new(20, None)).expect("a list")
        });
        assert_eq!(list.sessions.len(), 20);
        appending.store.catch_up(|_| {}).expect("caught up");
        vec![took]
    });
    let copy = backup::case(bench, "many/backup", &format!("{count} sessions"), &store);
    vec![round_robin, list, copy]
}

/// Appends to all sessions.
struct Writer {
    store: Store,
    ids: Rc<Vec<SessionId>>,
}

impl Writer {
    fn new(store: &Store, ids: &Rc<Vec<SessionId>>) -> Self {
        Self { store: store.clone(), ids: Rc::clone(ids) }
    }

    fn append_to_all(&self) {
        let batch = events::batch_of(LINE);
        for id in &*self.ids {
            self.store.log(id).append(&batch, Durability::Process).expect("appended");
        }
    }
}

/// Returns the ids of all sessions, page by page.
fn ids_of(store: &Store) -> Vec<SessionId> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let list = store.sessions().list(&SessionFilter::default(), &Page::new(200, after)).expect("a page");
        ids.extend(list.sessions.into_iter().map(|session| session.id));
        after = list.next;
        if after.is_none() {
            return ids;
        }
    }
}
