//! Homes with a thousand and a hundred thousand sessions: the cost of a call depends on its answer, not on the total.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use duolog::doctor::{Depth, Verdict};
use duolog::search::{Query, SearchRequest};
use duolog::sessions::SessionFilter;
use duolog::{Durability, Page, Store};

use crate::bench::{Bench, database_in, store_in};
use crate::benchmark::Target;
use crate::database::{self, LIST_SESSIONS};
use crate::events;
use crate::measure::{Case, in_turns, repeat, timed};

const PAGE: u32 = 20;

/// The maximum time of the statistics.
const STATS_MS: f64 = 500.0;

/// A home whose rows and index are up to date.
struct Sessions {
    store: Store,
    middle: Page,
    directory: PathBuf,
}

/// Every call in the large home against the same call in the small one; and a page against its statement.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let (many, few) = (bench.size(100_000, 1_000), bench.size(1_000, 200));
    let (large, small) = (Rc::new(Sessions::of(bench, many)), Rc::new(Sessions::of(bench, few)));
    let (often, seldom) = (bench.size(101, 1), bench.size(7, 1));
    let growth = |name: &str, what: &str, most: f64, rounds: usize, call: fn(&Sessions)| {
        let (large, small) = (Rc::clone(&large), Rc::clone(&small));
        let what = format!("{what} with {many} sessions / with {few}");
        Case::growth(name, &what, Target::AtMost(most), move || {
            in_turns(rounds, (1, 1), || call(&large), || call(&small))
        })
    };
    let mut cases = vec![
        growth("sessions/open", "open and close", 3.0, often, |home| open(&home.directory)),
        growth("sessions/first page", "the first 20", 2.0, often, |home| home.list(&Page::new(PAGE, None))),
        growth("sessions/middle page", "20 in the middle", 2.0, often, |home| home.list(&home.middle)),
        growth("sessions/search", "a search without hit", 3.0, seldom, Sessions::search),
        growth("sessions/doctor", "the quick doctor", 3.0, seldom, Sessions::examine),
    ];
    let home = Rc::clone(&large);
    cases.push(Case::bound("sessions/stats", &format!("statistics with {many} sessions"), STATS_MS, move || {
        let stats = || timed(|| home.store.state().stats().expect("statistics"));
        (0..seldom)
            .map(|_| {
                let (took, stats) = stats();
                assert_eq!(stats.logs.files, many as u64);
                took
            })
            .collect()
    }));
    let bare = database::open(&database_in(&small.directory), Durability::Process);
    let what = format!("the first 20 of {few} sessions / their statement with the bare driver");
    cases.push(Case::cost("sessions/list", &what, Target::AtMost(2.0), move || {
        let page = Page::new(PAGE, None);
        let statement = || {
            let mut list = bare.prepare_cached(LIST_SESSIONS).expect("prepared");
            let (columns, mut rows) = (list.column_count(), list.query([]).expect("rows"));
            while let Some(row) = rows.next().expect("a row") {
                (0..columns).for_each(|column| _ = std::hint::black_box(row.get_ref(column).expect("a value")));
            }
        };
        in_turns(often, (10, 10), || repeat(10, || small.list(&page)), || repeat(10, statement))
    }));
    cases
}

impl Sessions {
    fn of(bench: &Bench, count: usize) -> Self {
        let directory = bench.new_dir();
        let store = store_in(&directory);
        events::make_sessions(&store, count);
        store.catch_up(|_| {}).expect("caught up");
        let (mut page, mut listed) = (Page::new(200, None), 0);
        while listed < count / 2 {
            let list = store.sessions().list(&SessionFilter::default(), &page).expect("a page");
            listed += list.sessions.len();
            page = Page::new(200, list.next);
        }
        let middle = Page::new(PAGE, page.after().cloned());
        let home = Self { store, middle, directory };
        home.search();
        home
    }

    fn list(&self, page: &Page) {
        let list = self.store.sessions().list(&SessionFilter::default(), page).expect("a page");
        assert!(list.sessions.len() == PAGE as usize && list.next.is_some());
    }

    fn search(&self) {
        let request = SearchRequest::new(Query::parse("nowhere").expect("a query"));
        assert!(self.store.search().find(&request, |_| {}).expect("found").hits.is_empty());
    }

    fn examine(&self) {
        let report = self.store.doctor().examine(Depth::Quick, |_| {}).expect("a report");
        assert!(report.verdict != Verdict::Damaged, "{:?}", report.checks);
    }
}

fn open(directory: &Path) {
    store_in(directory).close().expect("closed");
}
