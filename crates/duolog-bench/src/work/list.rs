//! A page of sessions: what it costs may not depend on how many there are, nor on how deep it is.

use duolog::HomeId;
use duolog_state::owned::sessions::{self, SessionFilter};
use duolog_state::{OpenState, Page, PageToken, State};
use tempfile::TempDir;

use super::rows;
use crate::bench::Bench;
use crate::measure::{Figure, Target, in_turns};

const PAGE: u32 = 20;

struct Table {
    state: State,
    count: usize,
    _room: TempDir,
}

/// A large table against a small one: the first page, and one from the middle.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let large = Table::of(bench, bench.size(1_000_000, 10_000));
    let small = Table::of(bench, bench.size(1_000, 100));
    let rounds = bench.size(1001, 5);
    let (many, few) = (large.count, small.count);
    let figure = |name, which, page: fn(&Table) -> Page, first: fn(&Table) -> usize| {
        let (large_page, small_page) = (page(&large), page(&small));
        let pairs = in_turns(
            rounds,
            (1, 1),
            || large.list(&large_page, first(&large)),
            || small.list(&small_page, first(&small)),
        );
        pairs.cost(name, &format!("the {which} 20 of {many} sessions / of {few}"), Target::AtMost(2.0))
    };
    vec![
        figure("list/first", "first", |_| Page::new(PAGE, None), |table| table.count - 1),
        figure("list/middle", "middle", Table::middle, |table| table.count / 2 - 1),
    ]
}

impl Table {
    fn of(bench: &Bench, count: usize) -> Self {
        let room = bench.room();
        let state = State::open(OpenState::at(room.path())).expect("a state");
        rows::fill(&state, HomeId::new(), count);
        Self { state, count, _room: room }
    }

    fn middle(&self) -> Page {
        let number = self.count / 2;
        Page::new(
            PAGE,
            Some(PageToken::after(SessionFilter::default().list(), rows::updated_at(number), &rows::id_of(number))),
        )
    }

    /// Reads a page and looks whether it begins with the session of this number.
    fn list(&self, page: &Page, first: usize) {
        let filter = SessionFilter::default();
        let (found, next) = self.state.read(|tx| sessions::list_page(tx, &filter, page)).expect("a page");
        assert!(found.len() == PAGE as usize && found[0].id == rows::id_of(first) && next.is_some());
    }
}
