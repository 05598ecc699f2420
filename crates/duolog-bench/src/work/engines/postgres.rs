//! PostgreSQL by its bare driver, on the database that ours is open on.

use std::path::Path;

use duolog::HomeId;
use duolog_state::{OpenState, Said, State};
use duolog_types::{OutboxId, ProcessId};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::{ADVANCE, Bare, CLEAR, EXTEND, LINE, LIST, MARK, PAGE, RENAME, STATEMENTS, TELL, THEIRS};
use super::{at, blocks, hash, position};
use crate::measure::Figure;
use crate::work::rows;

/// Names the server to measure on, by the address of a user that may make databases.
pub const SERVER: &str = "DUOLOG_TEST_POSTGRES";

struct Driver {
    runtime: Runtime,
    client: Client,
    statements: Vec<Statement>,
    home: String,
    process: String,
}

/// Makes a database of so many sessions, and opens it both ways; nothing where no server is named.
pub(super) fn with(
    home: HomeId,
    count: usize,
    run: &mut dyn FnMut(&State, &mut dyn Bare) -> Vec<Figure>,
) -> Option<Vec<Figure>> {
    in_database(|url| {
        let address = url.parse::<Said>().expect("an address").or_in(Path::new("."));
        let state = State::open(OpenState::address(address)).expect("a state");
        let runtime = runtime();
        let client = connect(&runtime, &url.parse().expect("an address"));
        runtime.block_on(client.batch_execute(&fill(home, count))).expect("filled");
        let statements =
            STATEMENTS.map(|text| runtime.block_on(client.prepare(&text.replace('?', "$"))).expect("prepares"));
        let (home, process) = (home.to_string(), ProcessId::new().to_string());
        let mut driver = Driver { runtime, client, statements: statements.into(), home, process };
        run(&state, &mut driver)
    })
}

/// Makes a database, lends its address, and drops it; nothing where no server is named.
pub fn in_database<T>(run: impl FnOnce(&str) -> T) -> Option<T> {
    let server = std::env::var(SERVER).ok()?;
    let runtime = runtime();
    let name = format!("duolog_bench_{}", ProcessId::new().to_string().replace('-', ""));
    let keeper = connect(&runtime, &server.parse().expect("the address of a server"));
    runtime.block_on(keeper.batch_execute(&format!("CREATE DATABASE {name}"))).expect("a database");
    let done = run(&with_database(&server, &name));
    runtime.block_on(keeper.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))).expect("dropped");
    Some(done)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// The same server, another database.
fn with_database(url: &str, name: &str) -> String {
    let (server, rest) = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).expect("a database");
    let query = rest.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
    format!("postgres://{server}/{name}{query}")
}

fn connect(runtime: &Runtime, config: &Config) -> Client {
    runtime.block_on(async {
        let (client, connection) = config.connect(NoTls).await.expect("connects");
        tokio::spawn(connection);
        client
    })
}

/// What `rows::fill` puts, by one statement: a million round trips would take longer than all the rest.
fn fill(home: HomeId, count: usize) -> String {
    let line = rows::LINE.len() + 1;
    let at = "to_char(to_timestamp(1790000000 + n / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
    let id = "'s-' || lpad(n::text, 8, '0')";
    let all = format!("FROM generate_series(0, {}) n", count - 1);
    format!(
        "INSERT INTO sessions (id, home_id, created_at, addressed, scope, log_path, log_key, updated_at) \
         SELECT {id}, '{home}', {at}, 0, 'threads', 'sessions/threads/' || {id} || '.jsonl', \
         'sessions/threads/' || {id} || '.jsonl', {at} {all}; \
         INSERT INTO catalog (session_id, home_id, epoch, position, line_hash, events, bytes, damaged, first_at, \
         last_at) SELECT {id}, '{home}', 0, {line}, decode(repeat('07', 32), 'hex'), 1, {line}, 0, {at}, {at} {all}; \
         ANALYZE sessions; ANALYZE catalog"
    )
}

impl Driver {
    fn command(&self, text: &str) {
        self.runtime.block_on(self.client.batch_execute(text)).expect("runs");
    }

    fn execute(&self, statement: usize, values: &[&(dyn ToSql + Sync)]) {
        let changed = self.runtime.block_on(self.client.execute(&self.statements[statement], values)).expect("runs");
        assert_eq!(changed, 1);
    }

    /// How many rows came.
    fn query(&self, statement: usize, values: &[&(dyn ToSql + Sync)]) -> usize {
        let rows = self.runtime.block_on(self.client.query(&self.statements[statement], values)).expect("runs");
        std::hint::black_box(rows).len()
    }
}

impl Bare for Driver {
    fn fold(&mut self, step: u64) {
        let (id, now, generation) = (rows::id_of(THEIRS).to_string(), at(step).to_string(), step.cast_signed() + 1);
        let (next, last, step_number) =
            (position(step + 1).0.cast_signed(), position(step).0.cast_signed(), step.cast_signed());
        self.command("BEGIN ISOLATION LEVEL REPEATABLE READ");
        self.execute(MARK, &[&id, &self.process, &self.home, &generation, &1_i64, &now]);
        let (new, old): (&[u8], &[u8]) = (&hash(step + 1), &hash(step));
        let (bytes, none) = (step_number * 100, None::<String>);
        self.execute(
            ADVANCE,
            &[
                &id,
                &0_i64,
                &next,
                &old,
                &step_number,
                &bytes,
                &0_i64,
                &at(0).to_string(),
                &now,
                &none,
                &none,
                &none,
                &0_i64,
                &last,
                &0_i64,
            ],
        );
        self.execute(EXTEND, &[&id, &0_i64, &0_i64, &next, &new, &now, &last, &old, &blocks()]);
        self.execute(CLEAR, &[&id, &self.process, &generation]);
        self.command("COMMIT");
    }

    fn transition(&mut self, step: u64) {
        let (id, now) = (rows::id_of(THEIRS).to_string(), at(step).to_string());
        self.command("BEGIN ISOLATION LEVEL REPEATABLE READ");
        self.execute(RENAME, &[&id, &format!("name {step}"), &now]);
        let uuid = OutboxId::new().to_string();
        let seq = i64::try_from(step).expect("a small number");
        self.execute(TELL, &[&self.home, &id, &seq, &uuid, &0_i64, &0_i64, &now, &LINE]);
        self.command("COMMIT");
    }

    fn list(&mut self) -> usize {
        self.command("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let count = self.query(LIST, &[&(i64::from(PAGE) + 1)]);
        self.command("ROLLBACK");
        count
    }
}
