//! Conversations: what an item, a fork or the last items cost may not depend on how long the history is, and an item is
//! held against its rows by the bare driver.

use duolog::sessions::{AddOptions, BranchRef, View};
use duolog::{BranchId, Clock as _, Durability, MessageId, SessionId, Store, SystemClock};
use duolog_state::owned::branches::{self, BranchRow, Forked};
use duolog_state::owned::progressions;
use duolog_state::{Error, OpenState, State};
use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::bench::{Bench, store_in};
use crate::measure::{Figure, Target, in_turns};

/// Not synced, where a sync would hide what is measured.
const OPTIONS: AddOptions = AddOptions {
    operation: None,
    durability: Durability::Process,
    system: None,
    embeddings: Vec::new(),
    about: Vec::new(),
};
/// An item as agents have them.
const ITEM: &str = concat!(
    r#"{"type":"message","role":"assistant","content":"The plan is to read the file, "#,
    r#"change the two functions that use it, and run the tests again."}"#
);
/// The items of a batch.
const BATCH: usize = 100;
/// The forks whose bytes are counted: fewer than fill the write-ahead log.
const FORKS: usize = 50;
/// The items that are read from the end.
const LAST: usize = 50;

/// Long histories against short ones, and items against bare rows.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let (many, few) = (bench.size(100_000, 1_000), 100);
    let (long, short) = (Talk::of(bench, many), Talk::of(bench, few));
    let (rounds, each) = (bench.size(101, 3), 5);
    let last = in_turns(rounds, (each, each), || repeat(each, || long.last()), || repeat(each, || short.last()));
    let append = in_turns(rounds, (each, each), || repeat(each, || long.add(1)), || repeat(each, || short.add(1)));
    let (state, main) = long.state();
    let fork = in_turns(
        rounds,
        (each, each),
        || repeat(each, || fork(&state, &main, many as u64)),
        || repeat(each, || fork(&state, &main, 10)),
    );
    let grown = few + (rounds + 1) * each;
    let mut figures = vec![
        append.cost(
            "conversations/append",
            &format!("an item onto {many} / onto {few} to {grown}"),
            Target::AtMost(1.3),
        ),
        fork.cost("conversations/fork", &format!("the rows of a fork at {many} / at 10"), Target::AtMost(1.3)),
        last.cost("conversations/last", &format!("the last {LAST} of {many} items / of {few}"), Target::AtMost(2.0)),
    ];
    figures.push(bytes_of_forks(&long, (&state, &main), many as u64));
    for durability in [Durability::Process, Durability::Power] {
        figures.extend(beside_rows(bench, durability, (rounds, each)));
    }
    figures
}

/// Items against their rows by the bare driver, which syncs as we do.
fn beside_rows(bench: &Bench, durability: Durability, (rounds, each): (usize, usize)) -> [Figure; 2] {
    let few = 100;
    let (ours, bare) = (Talk::of(bench, few), Rows::of(bench, few, durability));
    let add = |count| ours.add_to_survive(count, durability);
    let one = in_turns(rounds, (each, each), || repeat(each, || add(1)), || repeat(each, || bare.add(1)));
    let batch = in_turns(rounds, (BATCH, BATCH), || add(BATCH), || bare.add(BATCH));
    assert_eq!(ours.len(), (few + (rounds + 1) * (each + BATCH)) as u64, "as many as were added");
    assert_eq!(rows_in(&ours.database()), rows_in(&bare.connection), "both have the same rows");
    let mode = durability.as_str();
    let (alone, together) = (format!("conversations/one, {mode}"), format!("conversations/batch, {mode}"));
    [
        one.cost(&alone, "an item / its rows by the bare driver", Target::AtMost(1.5)),
        batch.cost(&together, &format!("{BATCH} items at once / their rows by the bare driver"), Target::AtMost(1.2)),
    ]
}

/// What forks write to the database: the pages in its write-ahead log.
fn bytes_of_forks(long: &Talk, (state, main): (&State, &BranchRow), many: u64) -> Figure {
    let written = |at_ord: u64| {
        let connection = long.database();
        let busy = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        // The store may be moving pages itself; who comes second is turned away.
        while connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], busy).expect("moved") != 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        repeat(FORKS, || fork(state, main, at_ord));
        let path = long.room.path().join("home/state/state.db-wal");
        std::fs::metadata(path).expect("a write-ahead log").len() as f64 / FORKS as f64
    };
    let what = format!("bytes that a fork at {many} writes / at 10, of {FORKS} each");
    let (late, early) = (written(many), written(10));
    Figure::counted("conversations/fork bytes", &what, late, early, Target::AtMost(1.1))
}

/// How many messages and places there are, and how many bytes they hold.
fn rows_in(connection: &Connection) -> Vec<(i64, i64)> {
    let messages =
        "SELECT COUNT(*), SUM(length(id) + length(created_at) + length(content) + length(role)) FROM messages";
    let items = "SELECT COUNT(*), SUM(ord + length(progression_id) + length(message_id)) FROM progression_items";
    let sessions = "SELECT COUNT(*), SUM(length(last_msg_id) + length(updated_at)) FROM sessions";
    let read = |sql| connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("counts");
    [messages, items, sessions].map(read).to_vec()
}

fn repeat(times: usize, mut work: impl FnMut()) {
    for _ in 0..times {
        work();
    }
}

/// A session with so many items.
struct Talk {
    store: Store,
    session: SessionId,
    room: TempDir,
}

impl Talk {
    fn of(bench: &Bench, count: usize) -> Self {
        let room = bench.room();
        let (store, session) = store_in(room.path());
        let talk = Self { store, session: session.id, room };
        for from in (0..count).step_by(BATCH) {
            talk.add(BATCH.min(count - from));
        }
        talk
    }

    fn add(&self, count: usize) {
        self.add_to_survive(count, Durability::Process);
    }

    fn add_to_survive(&self, count: usize, durability: Durability) {
        let options = AddOptions { durability, ..OPTIONS };
        self.store.sessions().items(&self.session).add(&vec![ITEM; count], &options).expect("added");
    }

    /// The database, by the bare driver.
    fn database(&self) -> Connection {
        Connection::open(self.room.path().join("home/state/state.db")).expect("opens")
    }

    fn last(&self) {
        let list = self.store.sessions().items(&self.session).latest(LAST, View::Context).expect("reads");
        assert_eq!((list.items.len(), list.broken.len()), (LAST, 0));
    }

    fn len(&self) -> u64 {
        self.branch().items
    }

    fn branch(&self) -> duolog::sessions::Branch {
        let branch = self.store.sessions().branches(&self.session).get(&BranchRef::Default).expect("found");
        branch.expect("a branch")
    }

    /// The rows beneath, and the branch.
    fn state(&self) -> (State, BranchRow) {
        let state = State::open(OpenState::at(self.room.path().join("home/state"))).expect("opens");
        let id = self.branch().id;
        let row = state.read(|tx| branches::find(tx, &id)).expect("reads").expect("a branch");
        (state, row)
    }
}

/// Forks without a line in the log: that would be synced.
fn fork(state: &State, main: &BranchRow, at_ord: u64) {
    let (main, id, now) = (main.clone(), BranchId::new(), SystemClock.now());
    let forked = state.write(Durability::Process, move |tx| {
        let head = progressions::get(tx, &main.progression_id)?;
        let progression_id = progressions::fork(tx, &head, at_ord, now)?.id;
        let forked = Some(Forked { parent: main.id.clone(), at_ord, at_seq: 0 });
        let row = BranchRow { id: id.clone(), progression_id, forked, is_default: false, ..main.clone() };
        branches::insert(tx, &row)?;
        Ok::<_, Error>(head.end)
    });
    assert!(forked.expect("forked") >= at_ord);
}

/// The same rows by the bare driver, on a database of the same kind.
struct Rows {
    connection: Connection,
    session: String,
    progression: String,
    _talk: Talk,
}

impl Rows {
    fn of(bench: &Bench, count: usize, durability: Durability) -> Self {
        let talk = Talk::of(bench, count);
        let connection = talk.database();
        let level = if durability == Durability::Power { "FULL" } else { "NORMAL" };
        let pragmas = format!("PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=1000; PRAGMA synchronous={level}");
        connection.execute_batch(&pragmas).expect("set");
        let read = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).expect("reads");
        let session = talk.session.to_string();
        let progression = read("SELECT progression_id FROM branches");
        Self { connection, session, progression, _talk: talk }
    }

    fn run(&self, sql: &str, values: impl rusqlite::Params) {
        self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).expect("runs");
    }

    fn add(&self, count: usize) {
        let now = SystemClock.now().to_string();
        let item = "INSERT INTO progression_items (progression_id, ord, message_id) VALUES (?1, ?2, ?3)";
        self.run("BEGIN IMMEDIATE", []);
        let end = "SELECT ord + 1 FROM progression_items WHERE progression_id = ?1 ORDER BY ord DESC LIMIT 1";
        let end: i64 = self
            .connection
            .prepare_cached(end)
            .and_then(|mut statement| statement.query_row([&self.progression], |row| row.get(0)))
            .expect("reads");
        let mut last = String::new();
        for ord in (end..).take(count) {
            let id = MessageId::new().to_string();
            let message = "INSERT INTO messages (id, created_at, content, role, lion_class, compactable) \
                           VALUES (?1, ?2, ?3, 'assistant', 0, 1)";
            self.run(message, params![id, now, ITEM]);
            self.run(item, params![self.progression, ord, id]);
            last = id;
        }
        let session = "UPDATE sessions SET last_msg_id = ?2, updated_at = ?3 WHERE id = ?1";
        self.run(session, params![self.session, last, now]);
        self.run("COMMIT", []);
    }
}
