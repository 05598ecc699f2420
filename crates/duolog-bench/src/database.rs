//! Databases with their bare drivers.

use std::path::Path;
use std::sync::Arc;

use duolog::{Durability, MessageId};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Statement};

/// The environment variable with the address of a server; its user must be allowed to create databases.
pub const SERVER: &str = "DUOLOG_TEST_POSTGRES";

/// Reads a page of sessions, in the syntax of both engines once its parameter is numbered.
pub const LIST_SESSIONS: &str = "SELECT s.id, s.home_id, s.created_at, s.user_id, s.name, s.scope, s.log_path, s.log_epoch, s.cwd, s.agent_name, \
     s.invocation_kind, s.source_kind, s.status, s.started_at, s.updated_at, s.ended_at, c.events, c.bytes, c.last_at \
     FROM sessions s LEFT JOIN catalog c ON c.session_id = s.id WHERE s.deleted_at IS NULL \
     ORDER BY s.updated_at DESC, s.id DESC LIMIT 21";

/// Inserts the line about a transition of a run into the outbox.
pub const TELL: &str = "INSERT INTO outbox_lines (home_id, session_id, seq, uuid, epoch, floor, created_at, line) \
    SELECT s.home_id, s.id, COALESCE((SELECT o.seq + 1 FROM outbox_lines o \
    WHERE o.home_id = s.home_id AND o.session_id = s.id ORDER BY o.seq DESC LIMIT 1), 0), ?2, s.log_epoch, \
    CASE WHEN c.epoch = s.log_epoch THEN c.position ELSE 0 END, ?3, ?4 \
    FROM sessions s LEFT JOIN catalog c ON c.session_id = s.id WHERE s.id = ?1 AND s.deleted_at IS NULL";

/// Returns a new id as text.
pub fn new_id() -> String {
    MessageId::new().to_string()
}

/// The pages by which the write-ahead log grows before a checkpoint, and from which on the writer makes it itself.
const CHECKPOINT_PAGES: i32 = 2000;
const LOG_PAGES_MAX: i32 = 2 * CHECKPOINT_PAGES;

/// The settings of our connections.
pub const PRAGMAS: &str = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; \
     PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0";

/// Opens a database with the settings of ours and the same checkpoint policy: a thread makes the checkpoints.
pub fn open(path: &Path, durability: Durability) -> Connection {
    let mut connection = Connection::open(path).expect("opens");
    let level = if durability == Durability::Power { "FULL" } else { "NORMAL" };
    connection.execute_batch(&format!("{PRAGMAS}; PRAGMA synchronous={level}")).expect("set");
    // Otherwise statements are prepared again whenever a parameter is, or was, 0 or 1.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).expect("set");
    let (ask, asked) = std::sync::mpsc::sync_channel::<()>(1);
    let beside = Connection::open(path).expect("opens");
    std::thread::spawn(move || {
        while asked.recv().is_ok() {
            // A reader or a writer may block the checkpoint; the next growth tries again.
            let _ = beside.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    });
    let mut moved = 0;
    let hook = move |wal: &mut Wal, pages: i32| {
        if pages < moved {
            moved = 0;
        }
        if pages - moved >= CHECKPOINT_PAGES {
            moved = pages;
            if pages >= LOG_PAGES_MAX {
                wal.checkpoint()?;
            } else {
                // A pending checkpoint includes these pages.
                let _ = ask.try_send(());
            }
        }
        Ok(())
    };
    connection.wal_hook(Some(hook)).expect("set");
    connection
}

/// Runs a statement with parameters.
pub fn run(connection: &Connection, sql: &str, values: impl rusqlite::Params) -> usize {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).expect("runs")
}

/// A database on a PostgreSQL server, dropped at the end.
pub struct Server {
    runtime: Runtime,
    keeper: Client,
    name: String,
    /// Its address.
    pub url: String,
}

impl Server {
    /// Creates a database. Returns an error if there is no server.
    pub fn start() -> Result<Arc<Self>, String> {
        let server = std::env::var(SERVER)
            .map_err(|_| format!("{SERVER} is not set: use duolog-postgres run -- duolog-bench …"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let keeper = connect(&runtime, &server.parse().expect("the address of a server"));
        let name = format!("duolog_bench_{}", new_id().replace('-', ""));
        runtime.block_on(keeper.batch_execute(&format!("CREATE DATABASE {name}"))).expect("a database");
        let (host, rest) = server.split_once("://").and_then(|(_, rest)| rest.split_once('/')).expect("a database");
        let query = rest.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
        let url = format!("postgres://{host}/{name}{query}");
        Ok(Arc::new(Self { runtime, keeper, name, url }))
    }

    /// Connects to the database.
    pub fn driver(self: &Arc<Self>) -> Driver {
        Driver { client: connect(&self.runtime, &self.url.parse().expect("an address")), server: Arc::clone(self) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        if let Err(error) = self.runtime.block_on(self.keeper.batch_execute(&drop)) {
            eprintln!("duolog-bench: cannot drop {} on the server: {error}", self.name);
        }
    }
}

fn connect(runtime: &Runtime, config: &Config) -> Client {
    runtime.block_on(async {
        let (client, connection) = config.connect(NoTls).await.expect("connects");
        tokio::spawn(connection);
        client
    })
}

/// A connection with the bare driver.
pub struct Driver {
    client: Client,
    server: Arc<Server>,
}

impl Driver {
    /// Prepares a statement with parameters such as `?1`.
    pub fn prepare(&self, text: &str) -> Statement {
        self.server.runtime.block_on(self.client.prepare(&text.replace('?', "$"))).expect("prepares")
    }

    /// Runs a statement in its own transaction: one round trip.
    pub fn execute(&self, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> u64 {
        self.server.runtime.block_on(self.client.execute(statement, values)).expect("runs")
    }

    /// Reads rows: one round trip.
    pub fn query(&self, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> Vec<tokio_postgres::Row> {
        self.server.runtime.block_on(self.client.query(statement, values)).expect("runs")
    }
}
