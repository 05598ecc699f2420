//! Opening and closing a home: what that costs may not depend on how much is in it.

use std::path::Path;

use duolog::sessions::SessionFilter;
use duolog::{CaughtUp, Store};
use duolog_state::{OpenState, Page, State};

use super::rows;
use crate::bench::{Bench, options_in};
use crate::measure::{Figure, Target, in_turns};

/// A home with many sessions against one with few.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let (many, few) = (bench.room(), bench.room());
    let count = bench.size(10_000, 200);
    make_home(many.path(), count);
    make_home(few.path(), 10);
    let open = |dir: &Path| Store::open(options_in(dir).one_shot()).expect("a store").close().expect("closed");
    let pairs = in_turns(bench.size(301, 3), (1, 1), || open(many.path()), || open(few.path()));
    let what = format!("open and close a home of {count} sessions / of 10");
    vec![pairs.cost("open/many", &what, Target::AtMost(3.0))]
}

fn make_home(dir: &Path, count: usize) {
    let store = Store::open(options_in(dir).one_shot()).expect("a store");
    let (home, state_dir) = (store.home_id(), store.home().state.clone());
    store.close().expect("closed");
    rows::make_logs(&state_dir, count);
    rows::fill(&State::open(OpenState::at(&state_dir)).expect("a state"), home, count);
    let store = Store::open(options_in(dir).one_shot()).expect("a store");
    store.catch_up(|_| {}).expect("caught up");
    let list = store.sessions().list(&SessionFilter::default(), &Page::new(10, None)).expect("a list");
    assert_eq!(list.behind, CaughtUp::default(), "rows and logs agree");
    assert_eq!(list.sessions[0].id, rows::id_of(count - 1));
    assert_eq!(store.log(&rows::id_of(0)).last(1).expect("a log"), [rows::LINE]);
}
