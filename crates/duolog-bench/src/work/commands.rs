//! Commands: the lifetime of a process, and the first use of a home.

use std::path::Path;
use std::process::Command;

use duolog::Durability;
use rusqlite::Connection;

use crate::bench::{Bench, database_in, finish, log_file, store_in, tool};
use crate::benchmark::Target;
use crate::database::PRAGMAS;
use crate::events::{self, LINE};
use crate::measure::{Case, in_turns, timed, timed_in_turns};

/// `duolog log append` against a shell, the start of a process, and the first append in a new home.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let (duolog, rounds) = (bench.duolog(), bench.size(101, 2));
    let directory = bench.new_dir();
    let store = store_in(&directory);
    let log = log_file(&store, &store.sessions().open_thread("bench").expect("a session"));
    store.close().expect("closed");
    let binary = duolog.clone().unwrap_or_default();
    let append = Case::cost(
        "commands/append",
        "duolog log append --line / sh -c 'printf >> file'",
        Target::AtMost(5.0),
        move || {
            let (home, bare) = (directory.join("home"), directory.join("bare.jsonl"));
            let line = std::str::from_utf8(LINE).expect("text");
            let append = || {
                let mut command = Command::new(&binary);
                finish(command.args(["log", "append", "--session", "bench", "--line", line]).env("DUOLOG_HOME", &home));
            };
            let print =
                || finish(Command::new("sh").args(["-c", r#"printf '%s\n' "$1" >> "$2""#, "sh", line]).arg(&bare));
            let taken = in_turns(rounds, (1, 1), append, print);
            assert_same(&log, &bare);
            taken
        },
    );
    let binary = duolog.clone().unwrap_or_default();
    let start = Case::cost("commands/start", "duolog --version / sh -c :", Target::Shown, move || {
        in_turns(
            rounds,
            (1, 1),
            || finish(Command::new(&binary).arg("--version")),
            || finish(Command::new("sh").args(["-c", ":"])),
        )
    });
    let shell = tool("sh");
    vec![append.needs(&duolog).needs(&shell), start.needs(&duolog).needs(&shell), new_home(bench)]
}

/// A synced append in a home that does not exist, against a database with the same schema.
fn new_home(bench: &Bench) -> Case {
    let (directory, rounds) = (bench.new_dir(), bench.size(21, 2));
    let first = tempfile::tempdir_in(&directory).expect("a directory");
    store_in(first.path()).close().expect("closed");
    let schema = schema_of(&database_in(first.path()));
    let what = "the first synced append in a new home / a SQLite file with the same schema";
    Case::cost("commands/new home", what, Target::AtMost(3.0), move || {
        let batch = events::batch_of(LINE);
        let ours = || {
            let home = tempfile::tempdir_in(&directory).expect("a directory");
            let (took, store) = timed(|| {
                let store = store_in(home.path());
                let session = store.sessions().open_thread("bench").expect("a session");
                store.log(&session.id).append(&batch, Durability::Power).expect("appended");
                store
            });
            store.close().expect("closed");
            took
        };
        let limit = || {
            let home = tempfile::tempdir_in(&directory).expect("a directory");
            timed(|| {
                let bare = Connection::open(home.path().join("state.db")).expect("opens");
                bare.execute_batch(&format!("{PRAGMAS}; BEGIN IMMEDIATE; {schema} COMMIT")).expect("created");
                bare
            })
            .0
        };
        timed_in_turns(rounds, ours, limit)
    })
}

/// The statements that create the tables and indexes of a database.
fn schema_of(path: &Path) -> String {
    let connection = Connection::open(path).expect("opens");
    let statements = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid";
    let mut statements = connection.prepare(statements).expect("prepared");
    let statements = statements.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    let schema: String = statements.map(|statement| statement.expect("a statement") + ";\n").collect();
    assert!(schema.contains("CREATE TABLE sessions"));
    schema
}

fn assert_same(log: &Path, bare: &Path) {
    let (log, bare) = (std::fs::read(log).expect("a log"), std::fs::read(bare).expect("a file"));
    assert!(log == bare && !log.is_empty(), "every line is there once");
}
