//! A state on a server against the bare driver, which does each job in one round trip.

use std::rc::Rc;

use duolog::sessions::{AddOptions, SessionFilter};
use duolog::{Clock as _, Durability, Page, RunId, SessionId, Store, StoreAddress, SystemClock};
use tokio_postgres::Statement;

use super::conversations::ITEM;
use super::runs::{self, TURN};
use crate::bench::{Bench, options_in};
use crate::benchmark::Target;
use crate::database::{Driver, LIST_SESSIONS, Server, TELL, new_id};
use crate::events;
use crate::measure::{Case, in_turns, repeat};

/// Adds an item with one statement: its message, its position and the session's row.
const ADD: &str = "WITH message AS (INSERT INTO messages (id, created_at, content, role, lion_class, compactable) \
    VALUES (?1, ?2, ?3, 'assistant', 0, 1) RETURNING id), \
    place AS (INSERT INTO progression_items (progression_id, ord, message_id) SELECT ?4, \
    COALESCE((SELECT ord + 1 FROM progression_items WHERE progression_id = ?4 ORDER BY ord DESC LIMIT 1), 0), id \
    FROM message) UPDATE sessions SET last_msg_id = ?1, updated_at = ?2 WHERE id = ?5";

/// A transition, an item and a page.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let started = Server::start();
    let sides = started.as_ref().ok().map(|server| Rc::new(Sides::new(bench, server.driver(), &server.url)));
    let (rounds, each) = (bench.size(101, 3), 5);
    let case = |name: &str, what: &str, per_call: usize, ours: fn(&Sides), limit: fn(&Sides)| {
        let (sides, operations) = (sides.clone(), each * per_call);
        let case = Case::cost(&format!("postgres/{name}"), what, Target::AtMost(2.0), move || {
            let sides = sides.as_ref().expect("a server");
            in_turns(
                rounds,
                (operations, operations),
                || repeat(each, || ours(sides)),
                || repeat(each, || limit(sides)),
            )
        });
        case.needs(&started)
    };
    vec![
        case("transition", "a pause or a resume / the same rows with one statement", 2, Sides::turn, Sides::bare_turn),
        case("item", "an item / the same rows with one statement", 1, Sides::add, Sides::bare_add),
        case("list", "the first 20 sessions / the same rows with one statement", 1, Sides::list, Sides::bare_list),
    ]
}

/// A store on a server, and rows of the same kind that the bare driver changes.
struct Sides {
    store: Store,
    run: RunId,
    session: SessionId,
    driver: Driver,
    bare_run: RunId,
    bare_session: String,
    progression: String,
    turn: Statement,
    add: Statement,
    list: Statement,
}

impl Sides {
    fn new(bench: &Bench, driver: Driver, url: &str) -> Self {
        let address: StoreAddress = url.parse().expect("an address");
        let open = |trigger| {
            let store =
                Store::open(options_in(&bench.new_dir()).with_store(address.clone()).one_shot()).expect("a store");
            let session = store.sessions().open_thread("items").expect("a session").id;
            add(&store, &session);
            (runs::start(&store, trigger), session, store)
        };
        let (run, session, store) = open("ours");
        let (bare_run, bare_session, other) = open("bare");
        other.close().expect("closed");
        events::make_sessions(&store, bench.size(1_000, 50));
        store.catch_up(|_| {}).expect("caught up");
        let bare_session = bare_session.to_string();
        let statement = driver.prepare("SELECT progression_id FROM branches WHERE session_id = ?1");
        let progression = driver.query(&statement, &[&bare_session])[0].get(0);
        let tell = TELL.replace("?2", "?7").replace("?3", "?5").replace("?4", "?8");
        // The outbox line is inserted only if the run was changed.
        let turn = format!("WITH changed AS ({TURN} RETURNING id) {tell} AND EXISTS (SELECT 1 FROM changed)");
        let (turn, add, list) = (driver.prepare(&turn), driver.prepare(ADD), driver.prepare(LIST_SESSIONS));
        Self { store, run, session, driver, bare_run, bare_session, progression, turn, add, list }
    }

    fn turn(&self) {
        runs::turn(&self.store, &self.run);
    }

    fn bare_turn(&self) {
        for (before, after) in [("running", "paused"), ("paused", "running")] {
            let (now, id, run) = (SystemClock.now().to_string(), new_id(), self.bare_run.to_string());
            let (lease, rank) = ((after == "running").then_some(&now), i64::from(after == "paused"));
            let line = runs::line(&self.bare_run, &id, &now, before, after);
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
                [&run, &after, &rank, &lease, &now, &before, &id, &line];
            assert_eq!(self.driver.execute(&self.turn, &values), 1);
        }
    }

    fn add(&self) {
        add(&self.store, &self.session);
    }

    fn bare_add(&self) {
        let (now, id) = (SystemClock.now().to_string(), new_id());
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&id, &now, &ITEM, &self.progression, &self.bare_session];
        assert_eq!(self.driver.execute(&self.add, &values), 1);
    }

    fn list(&self) {
        let list = self.store.sessions().list(&SessionFilter::default(), &Page::new(20, None)).expect("a page");
        assert_eq!(list.sessions.len(), 20);
    }

    fn bare_list(&self) {
        assert_eq!(std::hint::black_box(self.driver.query(&self.list, &[])).len(), 21);
    }
}

fn add(store: &Store, session: &SessionId) {
    let options = AddOptions { durability: Durability::Process, ..AddOptions::default() };
    store.sessions().items(session).add(&[ITEM], &options).expect("added");
}
