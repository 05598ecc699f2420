//! SQLite by its bare driver, on the database that ours is open on.

use duolog::HomeId;
use duolog_state::{OpenState, State};
use duolog_types::{OutboxId, ProcessId};
use rusqlite::{Connection, params};

use super::{ADVANCE, Bare, CLEAR, EXTEND, LINE, LIST, MARK, PAGE, RENAME, STATEMENTS, TELL, THEIRS};
use super::{at, blocks, hash, position};
use crate::bench::Bench;
use crate::measure::Figure;
use crate::work::rows;

struct Driver {
    connection: Connection,
    home: String,
    process: String,
}

/// Makes a database of so many sessions, and opens it both ways.
pub fn with(
    bench: &Bench,
    home: HomeId,
    count: usize,
    run: &mut dyn FnMut(&State, &mut dyn Bare) -> Vec<Figure>,
) -> Vec<Figure> {
    let room = bench.room();
    let state = State::open(OpenState::at(room.path())).expect("a state");
    rows::fill(&state, home, count);
    let connection = Connection::open(room.path().join("state.db")).expect("opens");
    connection.execute_batch("PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=1000").expect("set");
    let mut driver = Driver { connection, home: home.to_string(), process: ProcessId::new().to_string() };
    run(&state, &mut driver)
}

impl Driver {
    fn begin(&self, synchronous: &str) {
        self.connection.execute_batch(&format!("PRAGMA synchronous={synchronous}")).expect("set");
        self.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([])).expect("begins");
    }

    fn end(&self, how: &str) {
        self.connection.prepare_cached(how).and_then(|mut end| end.execute([])).expect("ends");
    }

    fn execute(&self, statement: usize, values: impl rusqlite::Params) {
        let mut statement = self.connection.prepare_cached(STATEMENTS[statement]).expect("prepares");
        assert_eq!(statement.execute(values).expect("runs"), 1);
    }

    /// Reads every column of every row; answers how many rows came.
    fn query(&self, statement: usize, values: impl rusqlite::Params) -> usize {
        let mut statement = self.connection.prepare_cached(STATEMENTS[statement]).expect("prepares");
        let columns = statement.column_count();
        let mut rows = statement.query(values).expect("runs");
        let mut count = 0;
        while let Some(row) = rows.next().expect("reads") {
            for column in 0..columns {
                std::hint::black_box(row.get::<_, rusqlite::types::Value>(column).expect("a value"));
            }
            count += 1;
        }
        count
    }
}

impl Bare for Driver {
    fn fold(&mut self, step: u64) {
        let (id, now, count) = (rows::id_of(THEIRS).to_string(), at(step).to_string(), step.cast_signed());
        let generation = count + 1;
        self.begin("NORMAL");
        self.execute(MARK, params![id, self.process, self.home, generation, 1, now]);
        let (next, last) = (position(step + 1).0.cast_signed(), position(step).0.cast_signed());
        let (first, none) = (at(0).to_string(), None::<String>);
        let advanced =
            params![id, 0, next, hash(step), count, count * 100, 0, first, now, none, none, none, 0, last, 0];
        self.execute(ADVANCE, advanced);
        self.execute(EXTEND, params![id, 0, 0, next, hash(step + 1), now, last, hash(step), blocks()]);
        self.execute(CLEAR, params![id, self.process, generation]);
        self.end("COMMIT");
    }

    fn transition(&mut self, step: u64) {
        let (id, now) = (rows::id_of(THEIRS).to_string(), at(step).to_string());
        self.begin("FULL");
        self.execute(RENAME, params![id, format!("name {step}"), now]);
        let uuid = OutboxId::new().to_string();
        let seq = i64::try_from(step).expect("a small number");
        self.execute(TELL, params![self.home, id, seq, uuid, 0, 0, now, LINE]);
        self.end("COMMIT");
    }

    fn list(&mut self) -> usize {
        self.connection.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([])).expect("begins");
        let count = self.query(LIST, params![PAGE + 1]);
        self.end("ROLLBACK");
        count
    }
}
