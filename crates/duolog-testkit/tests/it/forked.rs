use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use duolog_join::{Error, Join, NewLog, OpenJoin, Stem, prepare};
use duolog_log::{Append, Error as LogError, Item};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::{Error as StateError, OpenState, StoreAddress};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::Limits;
use duolog_types::mutant::{self, Mutant};
use duolog_types::{Batch, Durability, SessionId, SystemClock};
use rustix::process::{WaitOptions, wait};

on_both_engines!(a_forked_process_is_refused_and_destroys_nothing, without_the_rule_a_forked_process_appends);

const EXDEV: i32 = 18;
const THREADS: usize = 4;
const LINES: usize = 25;
const FORKS: usize = 6;

/// Runs the test `role` in a process that can fork.
fn play(place: &Place, with: Option<Mutant>) -> Output {
    let dir = tempfile::tempdir().expect("a directory");
    let library = dir.path().join("fork.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload/fork.c");
    let mut compiler = Command::new("cc");
    let made = compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).output().expect("cc");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let url = place.database().map_or_else(|| "sqlite:".to_owned(), duolog_testkit::postgres::Database::url);
    let mut child = Command::new(std::env::current_exe().expect("this binary"));
    child
        .args(["--exact", "forked::role", "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", library)
        .env("DUOLOG_TEST_FORK_HOME", place.home())
        .env("DUOLOG_TEST_FORK_STORE", url);
    if with.is_some() {
        child.env("DUOLOG_TEST_FORK_MUTANT", "1");
    }
    child.output().expect("starts")
}

fn a_forked_process_is_refused_and_destroys_nothing(place: &Place) {
    let output = play(place, None);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

fn without_the_rule_a_forked_process_appends(place: &Place) {
    let output = play(place, Some(Mutant::ForkedAppend));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("a fork of it was not refused"), "{said}");
}

fn append(join: &Join, session: &SessionId) -> Result<(), Error> {
    let mut batch = Batch::default();
    batch.push(b"{\"same\":1}").expect("a line");
    join.append(session, &batch, &Append { durability: Durability::Process, if_position: None }).map(drop)
}

/// Appends from several threads, forks in between, and compares the log with the acknowledgements.
#[test]
fn role() {
    let Some(home) = std::env::var_os("DUOLOG_TEST_FORK_HOME") else { return };
    if std::env::var_os("DUOLOG_TEST_FORK_MUTANT").is_some() {
        mutant::set(Some(Mutant::ForkedAppend));
    }
    let store: StoreAddress = std::env::var("DUOLOG_TEST_FORK_STORE").expect("a store").parse().expect("an address");
    let prepared = prepare(Path::new(&home)).expect("a home");
    let limits = Limits { busy_timeout: Duration::from_secs(20), ..Limits::default() };
    let state = OpenState::address(store.or_in(Path::new(&home)));
    let (clock, boot) = (Arc::new(SystemClock), "boot".to_owned());
    let open = OpenJoin { state, disk: prepared.disk, home: prepared.id, limits, clock, boot };
    let join = Join::open(open).expect("opens");
    let session = SessionId::parse("s").expect("a safe id");
    let row = SessionRow::new(session.clone(), join.home(), "threads", "", join.clock().now());
    let stem = Stem { scope: "threads".to_owned(), file: "s".to_owned(), name: "s".to_owned() };
    join.create(NewLog { row, stem }, Durability::Process).expect("made");
    for _ in 0..FORKS {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..LINES).for_each(|_| append(&join, &session).expect("appended")));
            }
        });
        let forked = File::open("/duolog-test/fork").expect_err("no such file").raw_os_error() == Some(EXDEV);
        if forked {
            std::process::exit(i32::from(!is_refused(&join, &session)));
        }
        // At the same time as the child.
        (0..LINES).for_each(|_| append(&join, &session).expect("appended"));
        let (_, status) = wait(WaitOptions::empty()).expect("a child").expect("it ended");
        assert_eq!(status.exit_status(), Some(0), "a fork of it was not refused");
    }
    let reader = join.reader(&session).expect("opens").expect("a log");
    let end = reader.stable_end(limits.busy_timeout).expect("an end");
    let (mut lines, mut count) = (reader.lines(reader.first(), end, usize::MAX).expect("lines"), 0);
    while let Some(item) = lines.next().expect("reads") {
        assert!(matches!(&item, Item::Line(line) if line.bytes == b"{\"same\":1}"), "a line that was never appended");
        count += 1;
    }
    assert_eq!(count, FORKS * (THREADS + 1) * LINES);
}

/// Returns true if appends, changes and reads through the inherited `Join` are all refused.
fn is_refused(join: &Join, session: &SessionId) -> bool {
    let of_state = |error: &Error| matches!(error, Error::State(StateError::Forked { .. }));
    let appended = append(join, session);
    let (id, at) = (session.clone(), join.clock().now());
    let changed = join.transact::<_, Error>(Durability::Process, move |tx| {
        sessions::rename(tx, &id, "forked", at)?;
        Ok(((), Vec::new()))
    });
    let read = join.state().read(|tx| Ok::<_, Error>(sessions::find(tx, session)?));
    let of_log = |error: &Error| matches!(error, Error::Log(LogError::Forked { .. })) || of_state(error);
    appended.is_err_and(|error| of_log(&error))
        && changed.is_err_and(|error| of_state(&error))
        && read.is_err_and(|error| of_state(&error))
}
