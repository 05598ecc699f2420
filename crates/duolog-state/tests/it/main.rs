//! The state store from outside: opening, writing, reading, damage.

// Clippy recognises only the test functions as tests, not their helpers.
#![allow(clippy::expect_used, clippy::panic, clippy::similar_names)]

/// Roles of this binary when a test starts it again as another process.
mod children;
/// Tests on both engines: transactions, and the functions of each table.
mod conformance;
/// Damaged files, full disks, read-only mounts.
mod faults;
/// Group commit: waiting, rollback, and the result for each caller.
mod groups;
/// Copies, checks, checkpoints and statistics.
mod maintenance;
/// The identity and the version of a database.
mod opening;
/// What a change of a run writes, and what a list of many runs reads.
mod runs;
/// The schema against the migrations, the limits and the vocabularies.
mod schema;
/// Tests of a server only.
mod server;
/// Failed syncs of SQLite's files, on a disk that loses unsynced writes.
mod syncs;

use std::path::Path;
use std::process::Command;

use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::{CheckpointReport, Error, OpenState, State, WalCheckpoint};
use duolog_types::{Durability, HomeId, SessionId, Timestamp};

/// Returns the timestamp that many seconds after 1970.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).expect("a session id")
}

/// Returns a home id that is the same in every process.
fn home() -> HomeId {
    "019363f0-0000-7000-8000-000000000001".parse().expect("a home id")
}

/// Returns a session whose log is named after it.
fn session(name: &str) -> SessionRow {
    SessionRow::new(id(name), home(), "threads", &format!("sessions/threads/{name}.jsonl"), at(1))
}

fn open(dir: &Path) -> State {
    State::open(OpenState::at(dir)).expect("opens")
}

fn add(state: &State, name: &str) -> Result<(), Error> {
    let row = session(name);
    state.write(Durability::Process, move |tx| sessions::insert(tx, &row))
}

/// Moves the pages of the write-ahead log into the database.
fn checkpoint(state: &State) -> CheckpointReport {
    match state.checkpoint().expect("runs") {
        WalCheckpoint::Done(report) => report,
        WalCheckpoint::ManagedByServer => panic!("there is no server"),
    }
}

/// Returns the number of sessions.
fn count(state: &State) -> u64 {
    state.read(|tx| tx.find("SELECT COUNT(*) FROM sessions", &[], |row| row.get(0))).expect("reads").unwrap_or_default()
}

/// A mount that is removed with the test. If the machine does not allow mounts, the test fails: it would prove nothing.
struct Mount<'d>(&'d Path);

impl<'d> Mount<'d> {
    fn make(dir: &'d Path, args: &[&str]) -> Self {
        run("mount", &[args, &[path(dir)]].concat());
        Self(dir)
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        run("umount", &["-l", path(self.0)]);
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).output().expect("starts");
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}
