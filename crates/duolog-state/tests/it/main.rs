//! The state store from outside: opening, writing, reading, damage.

// Clippy takes only the test functions for tests, and not what they share.
#![allow(clippy::expect_used, clippy::panic, clippy::similar_names)]

/// Copies, checks, checkpoints and figures.
mod care;
/// Roles that this binary plays when a test starts it again as another process.
mod children;
/// What holds on either engine: transactions, and each table's functions.
mod conformance;
/// Damaged files, full disks, read-only mounts.
mod faults;
/// Group commit: who waits, who is rolled back, who is told what.
mod groups;
/// Whose database it is, and which version.
mod opening;
/// What a change of a run writes, and what a list of many runs reads.
mod runs;
/// The schema against the migrations, the limits and the vocabularies.
mod schema;
/// What only a server does.
mod server;
/// Failed syncs of SQLite's files, on a disk that forgets what was not synced.
mod syncs;

use std::path::Path;
use std::process::Command;

use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::{CheckpointReport, Error, OpenState, State, WalCheckpoint};
use duolog_types::{Durability, HomeId, SessionId, Timestamp};

/// An instant that many seconds after 1970.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).expect("a session id")
}

/// A home that is the same in every process.
fn home() -> HomeId {
    "019363f0-0000-7000-8000-000000000001".parse().expect("a home id")
}

/// A session whose log has its own name.
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

/// Moves the write-ahead log into the database.
fn checkpoint(state: &State) -> CheckpointReport {
    match state.checkpoint().expect("runs") {
        WalCheckpoint::Done(report) => report,
        WalCheckpoint::ManagedByServer => panic!("there is no server"),
    }
}

/// How many sessions there are.
fn count(state: &State) -> u64 {
    state.read(|tx| tx.find("SELECT COUNT(*) FROM sessions", &[], |row| row.get(0))).expect("reads").unwrap_or_default()
}

/// A mount that goes with the test. A machine that does not allow it fails the test: it would prove nothing.
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
