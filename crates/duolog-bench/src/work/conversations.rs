//! Conversations: items against rows with the bare driver, and long histories against short ones.

use std::path::PathBuf;
use std::rc::Rc;

use duolog::sessions::{AddOptions, BranchRef, HistoryView, NewFork};
use duolog::{Clock as _, Durability, SessionId, Store, SystemClock};
use rusqlite::{Connection, params};

use crate::bench::{Bench, database_in, store_in};
use crate::benchmark::Target;
use crate::database::{self, new_id};
use crate::measure::{Case, in_turns, repeat};

/// An item of an agent.
pub const ITEM: &str = concat!(
    r#"{"type":"message","role":"assistant","content":"The plan is to read the file, "#,
    r#"change the two functions that use it, and run the tests again."}"#
);
/// The number of items in a batch.
const BATCH: usize = 100;
/// The number of items that are read from the end.
const LAST: usize = 50;
/// The number of threads of a group commit.
const THREADS: usize = 16;
/// The number of items that both sides have before they are compared.
const FEW: usize = 100;

/// Items against bare rows: one, in batches and of several threads; long histories against short ones.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let mut cases = Vec::new();
    for durability in [Durability::Process, Durability::Power] {
        cases.extend(beside_rows(bench, durability));
    }
    cases.push(group(bench));
    cases.extend(growth(bench));
    cases
}

fn beside_rows(bench: &Bench, durability: Durability) -> [Case; 2] {
    let mode = durability.as_str();
    let case = |name: &str, what: &str, most: f64, count: usize, times: usize| {
        let (ours, bare) = (Talk::of(bench, FEW), Rows::of(bench, durability));
        let (rounds, operations) = (bench.size(101, 3), count * times);
        Case::cost(&format!("conversations/{name}, {mode}"), what, Target::AtMost(most), move || {
            let taken = in_turns(
                rounds,
                (operations, operations),
                || repeat(times, || ours.add(count, durability)),
                || repeat(times, || bare.add(count)),
            );
            assert_eq!(rows_in(&ours.database()), rows_in(&bare.connection), "both have the same rows");
            taken
        })
    };
    [
        case("one", "an item / its rows with the bare driver", 1.5, 1, 5),
        case("hundred", "100 items at once / their rows with the bare driver", 1.2, BATCH, 1),
    ]
}

/// Synced items of several threads against those of one bare connection: a file has one writer at a time.
fn group(bench: &Bench) -> Case {
    let (ours, bare) = (Talk::of(bench, FEW), Rows::of(bench, Durability::Power));
    let each = bench.size(25, 2);
    let open = |thread| ours.store.sessions().open_thread(&format!("thread-{thread}")).expect("a session").id;
    let sessions: Vec<SessionId> = (0..THREADS).map(open).collect();
    let rounds = bench.size(11, 1);
    let what = format!("synced items of {THREADS} threads / of one bare connection");
    Case::speed("conversations/group", &what, Target::AtLeast(2.0), move || {
        let together = || {
            std::thread::scope(|scope| {
                for session in &sessions {
                    let store = &ours.store;
                    scope.spawn(move || repeat(each, || add(store, session, 1, Durability::Power)));
                }
            });
        };
        in_turns(rounds, (THREADS * each, each), together, || repeat(each, || bare.add(1)))
    })
}

fn growth(bench: &Bench) -> Vec<Case> {
    let (many, few) = (bench.size(100_000, 1_000), bench.size(1_000, 100));
    let (long, short) = (Rc::new(Talk::of(bench, many)), Rc::new(Talk::of(bench, few)));
    let (rounds, each) = (bench.size(101, 3), 5);
    let case = |name: &str, what: &str, most: f64, call: fn(&Talk)| {
        let (long, short) = (Rc::clone(&long), Rc::clone(&short));
        let what = format!("{what} {many} items / {few}");
        Case::growth(&format!("conversations/{name}"), &what, Target::AtMost(most), move || {
            in_turns(rounds, (each, each), || repeat(each, || call(&long)), || repeat(each, || call(&short)))
        })
    };
    vec![
        case("add", "an item onto", 1.3, |talk| talk.add(1, Durability::Process)),
        case("fork", "a fork after", 1.3, Talk::fork),
        case("last", "the last 50 of", 2.0, Talk::last),
    ]
}

/// Returns the counts and sizes of messages, items and sessions.
fn rows_in(connection: &Connection) -> Vec<(i64, i64)> {
    let messages =
        "SELECT COUNT(*), SUM(length(id) + length(created_at) + length(content) + length(role)) FROM messages";
    let items = "SELECT COUNT(*), SUM(ord + length(progression_id) + length(message_id)) FROM progression_items";
    let sessions = "SELECT COUNT(*), SUM(length(last_msg_id) + length(updated_at)) FROM sessions";
    let read = |sql| connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("counts");
    [messages, items, sessions].map(read).to_vec()
}

fn add(store: &Store, session: &SessionId, count: usize, durability: Durability) {
    let options = AddOptions { durability, ..AddOptions::default() };
    store.sessions().items(session).add(&vec![ITEM; count], &options).expect("added");
}

/// A session with items.
struct Talk {
    store: Store,
    session: SessionId,
    directory: PathBuf,
}

impl Talk {
    fn of(bench: &Bench, count: usize) -> Self {
        let directory = bench.new_dir();
        let store = store_in(&directory);
        let session = store.sessions().open_thread("bench").expect("a session").id;
        let talk = Self { store, session, directory };
        for from in (0..count).step_by(BATCH) {
            talk.add(BATCH.min(count - from), Durability::Process);
        }
        talk
    }

    fn add(&self, count: usize, durability: Durability) {
        add(&self.store, &self.session, count, durability);
    }

    fn fork(&self) {
        let branches = self.store.sessions().branches(&self.session);
        let fork = NewFork { from: BranchRef::Default, ..NewFork::default() };
        assert!(branches.fork(fork, Durability::Process).expect("forked").items >= FEW as u64);
    }

    fn last(&self) {
        let list = self.store.sessions().items(&self.session).latest(LAST, HistoryView::Context).expect("items");
        assert_eq!((list.items.len(), list.broken.len()), (LAST, 0));
    }

    /// Opens the database with the bare driver.
    fn database(&self) -> Connection {
        Connection::open(database_in(&self.directory)).expect("opens")
    }
}

/// The same rows with the bare driver, in a database with the same schema.
struct Rows {
    connection: Connection,
    session: String,
    progression: String,
    _talk: Talk,
}

impl Rows {
    fn of(bench: &Bench, durability: Durability) -> Self {
        let talk = Talk::of(bench, FEW);
        let connection = database::open(&database_in(&talk.directory), durability);
        let read = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).expect("a value");
        let (session, progression) = (talk.session.to_string(), read("SELECT progression_id FROM branches"));
        Self { connection, session, progression, _talk: talk }
    }

    fn add(&self, count: usize) {
        let (connection, now) = (&self.connection, SystemClock.now().to_string());
        database::run(connection, "BEGIN IMMEDIATE", []);
        let end = "SELECT ord + 1 FROM progression_items WHERE progression_id = ?1 ORDER BY ord DESC LIMIT 1";
        let mut end = connection.prepare_cached(end).expect("prepared");
        let end: i64 = end.query_row([&self.progression], |row| row.get(0)).expect("a value");
        let mut last = String::new();
        for ord in (end..).take(count) {
            last = new_id();
            let message = "INSERT INTO messages (id, created_at, content, role, lion_class, compactable) \
                           VALUES (?1, ?2, ?3, 'assistant', 0, 1)";
            database::run(connection, message, params![last, now, ITEM]);
            let item = "INSERT INTO progression_items (progression_id, ord, message_id) VALUES (?1, ?2, ?3)";
            database::run(connection, item, params![self.progression, ord, last]);
        }
        let session = "UPDATE sessions SET last_msg_id = ?2, updated_at = ?3 WHERE id = ?1";
        assert_eq!(database::run(connection, session, params![self.session, last, now]), 1);
        database::run(connection, "COMMIT", []);
    }
}
