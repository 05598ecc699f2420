use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use duolog_state::owned::sessions;
use duolog_state::{ConstraintKind, Error, OpenState, Reading, State, params};
use duolog_types::Durability::{Power, Process};
use rustix::process::{Pid, Signal, kill_process};

use super::{add, children, count, home, id, open, session};

#[test]
fn every_request_of_a_group_happens_exactly_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let start = Barrier::new(16);
    thread::scope(|scope| {
        for worker in 0..16 {
            let (state, start) = (&state, &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..50 {
                    let row = session(&format!("s{worker}-{number}"));
                    state.write(Power, move |tx| sessions::insert(tx, &row)).expect("writes");
                }
            });
        }
    });
    assert_eq!(count(&state), 800);
    let counters = state.counters();
    assert_eq!(counters.transactions, 800);
    assert!(counters.commits < 800, "{counters:?}");
    assert_eq!(counters.power_commits, counters.commits);
}

#[test]
fn a_request_that_fails_or_panics_is_rolled_back_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let start = Barrier::new(12);
    thread::scope(|scope| {
        for worker in 0..12 {
            let (state, start) = (&state, &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..20 {
                    let row = session(&format!("s{worker}-{number}"));
                    let answer = state.write(Process, move |tx| {
                        sessions::insert(tx, &row)?;
                        match number % 4 {
                            1 => sessions::insert(tx, &row),
                            2 => panic!("on purpose"),
                            _ => Ok(()),
                        }
                    });
                    match number % 4 {
                        1 => assert!(matches!(answer, Err(Error::Constraint { kind: ConstraintKind::Unique, .. }))),
                        2 => assert!(matches!(answer, Err(Error::Panicked { message }) if message == "on purpose")),
                        _ => answer.expect("writes"),
                    }
                }
            });
        }
    });
    assert_eq!(count(&state), 12 * 10);
    add(&state, "after").expect("the store is not poisoned");
}

#[test]
fn a_request_that_was_never_begun_is_withdrawn_at_its_deadline() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = State::open(OpenState::at(dir.path()).busy_timeout(Duration::from_millis(50))).expect("opens");
    let (entered, inside) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let ran = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let leader = scope.spawn(|| {
            let row = session("leader");
            state.write(Process, move |tx| {
                entered.send(()).expect("the test waits");
                released.recv().expect("the test answers");
                sessions::insert(tx, &row)
            })
        });
        inside.recv().expect("the leader is inside");
        let flag = Arc::clone(&ran);
        let late = state.write(Process, move |_| {
            flag.store(true, Ordering::SeqCst);
            Ok::<_, Error>(())
        });
        assert!(matches!(late, Err(Error::Busy { .. })), "{late:?}");
        let care = state.checkpoint();
        assert!(matches!(care, Err(Error::Busy { .. })), "{care:?}");
        release.send(()).expect("the leader waits");
        leader.join().expect("ends").expect("writes");
    });
    add(&state, "next").expect("writes");
    assert!(!ran.load(Ordering::SeqCst), "a withdrawn request never runs");
    assert_eq!(count(&state), 2);
}

#[test]
fn one_member_with_power_makes_its_group_sync() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    add(&state, "a").expect("writes");
    assert_eq!(state.counters().power_commits, 0);
    let (entered, inside) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let state = &state;
        let leader = scope.spawn(move || {
            state.write(Process, move |_| {
                entered.send(()).expect("the test waits");
                released.recv().map_err(|_| Error::ReadOnly)
            })
        });
        inside.recv().expect("the leader is inside");
        let followers = [Process, Power, Process]
            .map(|durability| scope.spawn(move || state.write(durability, |_| Ok::<_, Error>(()))));
        release.send(()).expect("the leader waits");
        leader.join().expect("ends").expect("writes");
        for follower in followers {
            follower.join().expect("ends").expect("writes");
        }
    });
    assert!(state.counters().power_commits >= 1);
}

#[test]
fn an_error_leaves_no_transaction_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let answer = state.write(Process, |tx| tx.execute("INSERT INTO nowhere VALUES (1)", &[]));
    assert!(matches!(answer, Err(Error::Engine { .. })), "{answer:?}");
    let answer = state.read(|tx| tx.execute("DELETE FROM sessions", &[]));
    assert!(matches!(answer, Err(Error::ReadOnly)), "{answer:?}");
    let fell = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        state.read(|_| -> Result<(), Error> { panic!("on purpose") })
    }));
    assert!(fell.is_err());
    add(&state, "a").expect("writes");
    assert_eq!(count(&state), 1, "after a panic in a read, new rows are visible");
}

#[test]
fn a_savepoint_rolls_back_only_its_part() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let (first, second) = (session("first"), session("second"));
    state
        .write(Process, move |tx| {
            sessions::insert(tx, &first)?;
            let part = tx.savepoint(|tx| {
                sessions::insert(tx, &second)?;
                tx.savepoint(|tx| sessions::insert(tx, &first))
            });
            assert!(matches!(part, Err(Error::Constraint { .. })), "{part:?}");
            tx.execute("UPDATE sessions SET agent_name = ?1", params!["kept"]).map(drop)
        })
        .expect("writes");
    let row = state.read(|tx| sessions::find(tx, &id("first"))).expect("reads").expect("is there");
    assert_eq!(row.agent_name.as_deref(), Some("kept"));
    assert_eq!(count(&state), 1);
}

#[test]
fn two_handles_and_another_process_share_one_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, two) = (open(dir.path()), open(dir.path()));
    let mut child = children::start("add_fifty", dir.path(), "child");
    thread::scope(|scope| {
        for (number, state) in [&one, &two, &one, &two].into_iter().enumerate() {
            scope.spawn(move || (0..50).for_each(|row| add(state, &format!("t{number}-{row}")).expect("writes")));
        }
    });
    assert!(child.wait().expect("ends").success());
    assert_eq!((count(&one), count(&two)), (250, 250));
}

#[test]
fn the_error_names_a_stopped_lock_holder() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = State::open(OpenState::at(dir.path()).busy_timeout(Duration::from_millis(100))).expect("opens");
    add(&state, "a").expect("writes");
    let mut child = children::start("hold_the_lock", dir.path(), "");
    children::wait_until_ready(&mut child);
    kill_process(Pid::from_child(&child), Signal::STOP).expect("stops");
    let answer = add(&state, "b");
    assert!(matches!(answer, Err(Error::Busy { holder: Some(pid), .. }) if pid == child.id()), "{answer:?}");
    let answer = State::open(OpenState::at(dir.path()).busy_timeout(Duration::from_millis(20))).map(drop);
    assert!(matches!(answer, Err(Error::Busy { holder: Some(pid), .. }) if pid == child.id()), "{answer:?}");
    assert_eq!(state.lock_holder().expect("asks"), Some(child.id()));
    assert_eq!(count(&state), 1, "readers are not blocked");
    child.kill().expect("ends");
    child.wait().expect("ends");
    add(&state, "b").expect("the lock of a dead holder is free");
    assert_eq!(state.lock_holder().expect("asks"), None);
}

#[test]
fn readers_are_bounded_and_the_wait_for_one_is_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut options = OpenState::at(dir.path()).busy_timeout(Duration::from_millis(20));
    options.connections_max = 1;
    let state = State::open(options).expect("opens");
    let answer = state.read(|_| state.read(|_| Ok::<_, Error>(())));
    assert!(matches!(answer, Err(Error::Busy { .. })), "{answer:?}");
    assert_eq!(count(&state), 0);
}

#[test]
fn a_read_is_one_snapshot() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    add(&state, "a").expect("writes");
    state
        .read(|tx| {
            let before = sessions::logs(tx, &home(), None, 10)?;
            add(&state, "b")?;
            assert_eq!(sessions::logs(tx, &home(), None, 10)?, before);
            Ok::<_, Error>(())
        })
        .expect("reads");
    assert_eq!(count(&state), 2);
}

#[test]
fn the_hook_sees_each_commit_before_its_caller_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let copies = tempfile::tempdir().expect("a directory");
    let (made, target) = (Arc::new(AtomicUsize::new(0)), copies.path().to_owned());
    let mut options = OpenState::at(dir.path());
    let number = Arc::clone(&made);
    options.on_commit = Some(Arc::new(move |state, durability| {
        assert_eq!(durability, Power);
        let nth = number.fetch_add(1, Ordering::SeqCst);
        state.backup_to(&target.join(format!("{nth}.db"))).expect("copies");
    }));
    let state = State::open(options).expect("opens");
    for name in ["a", "b", "c"] {
        let row = session(name);
        state.write(Power, move |tx| sessions::insert(tx, &row)).expect("writes");
    }
    assert_eq!(made.load(Ordering::SeqCst), 3);
    for nth in 0..3_u32 {
        let copy = rusqlite::Connection::open(copies.path().join(format!("{nth}.db"))).expect("opens");
        let rows: u32 = copy.query_row("SELECT COUNT(*) FROM sessions", [], |row| row.get(0)).expect("reads");
        assert_eq!(rows, nth + 1);
    }
}

#[test]
fn a_read_on_the_writer_connection_leaves_no_transaction_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let state =
        State::open(OpenState { reading: Reading::WriterConnection, ..OpenState::at(dir.path()) }).expect("opens");
    add(&state, "a").expect("added");
    assert_eq!(count(&state), 1);
    let failed = state.read(|tx| tx.find("SELECT nothing", &[], |row| row.get::<i64>(0)));
    assert!(failed.is_err());
    let wrote = state.read(|tx| tx.execute("DELETE FROM sessions", &[]));
    assert_eq!(count(&state), 1, "changes of a read are rolled back: {wrote:?}");
    add(&state, "b").expect("the next write has its own transaction");
    std::thread::scope(|scope| {
        for n in 0..8 {
            let state = &state;
            scope.spawn(move || {
                for m in 0..20 {
                    add(state, &format!("s{n}-{m}")).expect("added");
                    assert!(count(state) > 0);
                }
            });
        }
    });
    assert_eq!(count(&state), 162);
}
