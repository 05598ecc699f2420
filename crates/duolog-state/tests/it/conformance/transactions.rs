use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use duolog_state::owned::sessions as table;
use duolog_state::{ConstraintKind, Error, Tx, params};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::Durability::{Power, Process};
use duolog_types::{Position, SessionId};

use super::{is_constraint, with_session};
use crate::{add, at, count, id, session};

on_both_engines!(
    a_number_too_large_for_a_column_is_refused,
    text_with_a_nul_is_refused,
    a_failed_statement_blocks_its_transaction,
    a_savepoint_undoes_what_failed_in_it,
    a_panic_undoes_its_transaction_alone,
    a_panic_inside_savepoints_undoes_its_whole_request,
    a_panic_that_the_request_catches_undoes_its_savepoint,
    an_error_that_was_swallowed_inside_a_savepoint_undoes_it,
    a_read_is_one_snapshot_and_changes_nothing,
    concurrent_changes_of_one_row_lose_nothing,
    one_of_several_equal_inserts_wins,
    a_state_that_is_opened_concurrently_is_created_once,
    rows_come_in_the_order_of_their_bytes,
    a_read_only_state_can_be_read,
);

fn a_number_too_large_for_a_column_is_refused(place: &Place) {
    with_session(place, |tx| {
        let answer = tx.savepoint(|tx| tx.execute("UPDATE sessions SET log_base = ?1", params![Position(u64::MAX)]));
        assert!(matches!(answer, Err(Error::OutOfRange { value: u64::MAX })), "{answer:?}");
        Ok(())
    });
}

fn text_with_a_nul_is_refused(place: &Place) {
    with_session(place, |tx| {
        let answer = tx.savepoint(|tx| table::rename(tx, &id("s"), "a\0b", at(2)));
        assert!(matches!(answer, Err(Error::Nul)), "{answer:?}");
        Ok(())
    });
}

fn a_failed_statement_blocks_its_transaction(place: &Place) {
    let state = place.open();
    add(&state, "a").expect("writes");
    let swallowed = state.write(Power, |tx| {
        table::insert(tx, &session("b"))?;
        let twice = table::SessionRow { id: id("a"), ..session("c") };
        assert!(is_constraint(&table::insert(tx, &twice), ConstraintKind::Unique));
        // No other statement runs, and nothing is committed although the request returns Ok.
        assert!(is_constraint(&table::find(tx, &id("a")), ConstraintKind::Unique));
        Ok::<_, Error>(())
    });
    assert!(is_constraint(&swallowed, ConstraintKind::Unique), "{swallowed:?}");
    assert_eq!(count(&state), 1);
    add(&state, "b").expect("the next write runs");
}

fn a_savepoint_undoes_what_failed_in_it(place: &Place) {
    let state = place.open();
    let written = state.write(Power, |tx| {
        table::insert(tx, &session("a"))?;
        let inner = tx.savepoint(|tx| {
            table::insert(tx, &session("b"))?;
            tx.savepoint(|tx| table::insert(tx, &session("c")))?;
            let twice = table::SessionRow { id: id("a"), ..session("d") };
            table::insert(tx, &twice)
        });
        assert!(is_constraint(&inner, ConstraintKind::Unique));
        tx.savepoint(|tx| table::insert(tx, &session("e")))?;
        Ok::<_, Error>(())
    });
    written.expect("commits");
    let found = state.read(|tx| table::starting_with(tx, "", 9)).expect("reads");
    assert_eq!(found, [id("a"), id("e")]);
}

fn a_panic_undoes_its_transaction_alone(place: &Place) {
    let state = place.open();
    let answer = state.write(Process, |tx| {
        table::insert(tx, &session("a"))?;
        assert_ne!(count_in(tx)?, 1, "on purpose");
        Ok::<_, Error>(())
    });
    assert!(matches!(answer, Err(Error::Panicked { message }) if message.contains("on purpose")));
    let read = thread::scope(|scope| {
        let reads = || state.read(|_| -> Result<(), Error> { panic!("on purpose") });
        scope.spawn(reads).join()
    });
    assert!(read.is_err(), "a panic in a read reaches the caller");
    assert_eq!(count(&state), 0);
    add(&state, "a").expect("the state can still be used");
}

/// Several concurrent callers, so that some requests are members of another caller's group.
fn a_panic_inside_savepoints_undoes_its_whole_request(place: &Place) {
    let state = place.open();
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for worker in 0..8 {
            let (state, start) = (&state, &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..20 {
                    let rows = ["outer", "middle", "inner"].map(|part| session(&format!("s{worker}-{number}-{part}")));
                    let answer = state.write(Process, move |tx| {
                        table::insert(tx, &rows[0])?;
                        tx.savepoint(|tx| {
                            table::insert(tx, &rows[1])?;
                            tx.savepoint(|tx| {
                                table::insert(tx, &rows[2])?;
                                if number % 2 == 1 { panic!("on purpose") } else { Ok(()) }
                            })
                        })
                    });
                    match number % 2 {
                        0 => answer.expect("writes"),
                        _ => assert!(matches!(answer, Err(Error::Panicked { .. })), "{answer:?}"),
                    }
                }
            });
        }
    });
    let found = state.read(|tx| table::starting_with(tx, "", 999)).expect("reads");
    let odd =
        |id: &SessionId| id.as_str().split('-').nth(1).is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n % 2 == 1));
    let left: Vec<_> = found.iter().filter(|id| odd(id)).collect();
    assert!(left.is_empty(), "panicked and committed: {left:?}");
    assert_eq!(found.len(), 8 * 10 * 3);
}

fn a_panic_that_the_request_catches_undoes_its_savepoint(place: &Place) {
    let state = place.open();
    let written = state.write(Power, |tx| {
        table::insert(tx, &session("a"))?;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            tx.savepoint(|tx| -> Result<(), Error> {
                table::insert(tx, &session("b"))?;
                tx.savepoint(|tx| table::insert(tx, &session("c")))?;
                panic!("on purpose")
            })
        }));
        assert!(caught.is_err(), "the panic reaches the request");
        tx.savepoint(|tx| table::insert(tx, &session("d")))
    });
    written.expect("commits");
    let found = state.read(|tx| table::starting_with(tx, "", 9)).expect("reads");
    assert_eq!(found, [id("a"), id("d")]);
}

fn an_error_that_was_swallowed_inside_a_savepoint_undoes_it(place: &Place) {
    let state = place.open();
    let written = state.write(Power, |tx| {
        table::insert(tx, &session("a"))?;
        let outer = tx.savepoint(|tx| {
            table::insert(tx, &session("b"))?;
            tx.savepoint(|tx| {
                let twice = table::SessionRow { id: id("a"), ..session("c") };
                assert!(is_constraint(&table::insert(tx, &twice), ConstraintKind::Unique));
                Ok(())
            })
        });
        assert!(is_constraint(&outer, ConstraintKind::Unique), "{outer:?}");
        table::insert(tx, &session("d"))
    });
    written.expect("commits");
    let found = state.read(|tx| table::starting_with(tx, "", 9)).expect("reads");
    assert_eq!(found, [id("a"), id("d")]);
}

fn count_in(tx: &mut Tx<'_>) -> Result<u64, Error> {
    Ok(tx.find("SELECT COUNT(*) FROM sessions", &[], |row| row.get(0))?.unwrap_or_default())
}

fn a_read_is_one_snapshot_and_changes_nothing(place: &Place) {
    let state = place.open();
    add(&state, "a").expect("writes");
    let (before, after) = state
        .read(|tx| {
            let before = count_in(tx)?;
            add(&state, "b")?;
            Ok::<_, Error>((before, count_in(tx)?))
        })
        .expect("reads");
    assert_eq!((before, after, count(&state)), (1, 1, 2));
    let written = state.read(|tx| tx.execute("DELETE FROM sessions", &[]));
    assert!(matches!(written, Err(Error::ReadOnly)), "{written:?}");
    assert_eq!(count(&state), 2);
}

/// Each thread reads a number and writes the next one: an overwritten update would be missing in the end.
fn concurrent_changes_of_one_row_lose_nothing(place: &Place) {
    let state = place.open();
    add(&state, "s").expect("writes");
    let start = Barrier::new(6);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..20 {
                    let raised = state.write(Process, |tx| {
                        let read = "SELECT log_base FROM sessions WHERE id = 's'";
                        let base: u64 = tx.find(read, &[], |row| row.get(0))?.unwrap_or_default();
                        tx.execute("UPDATE sessions SET log_base = ?1 WHERE id = 's'", params![base + 1])
                    });
                    assert_eq!(raised.expect("writes"), 1);
                }
            });
        }
    });
    let row = state.read(|tx| table::find(tx, &id("s"))).expect("reads").expect("is there");
    assert_eq!(row.log_base, Position(120));
}

fn one_of_several_equal_inserts_wins(place: &Place) {
    let state = place.open();
    for round in 0..10 {
        let start = Barrier::new(4);
        let won: usize = thread::scope(|scope| {
            let racers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        add(&state, &format!("s{round}"))
                    })
                })
                .collect();
            let answers: Vec<_> = racers.into_iter().map(|racer| racer.join().expect("ends")).collect();
            let lost = answers.iter().filter(|answer| is_constraint(answer, ConstraintKind::Unique)).count();
            assert_eq!(lost, 3, "{answers:?}");
            answers.iter().filter(|answer| answer.is_ok()).count()
        });
        assert_eq!(won, 1, "round {round}");
    }
    assert_eq!(count(&state), 10);
}

fn a_state_that_is_opened_concurrently_is_created_once(place: &Place) {
    let start = Barrier::new(8);
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..8 {
            let (start, failed) = (&start, &failed);
            scope.spawn(move || {
                start.wait();
                let state = place.open();
                let added = add(&state, &format!("s{number}"));
                failed.fetch_or(added.is_err(), Ordering::SeqCst);
            });
        }
    });
    assert!(!failed.load(Ordering::SeqCst));
    assert_eq!(count(&place.open()), 8);
}

/// Whatever the collation of the database: upper case before lower case, and nothing is skipped.
fn rows_come_in_the_order_of_their_bytes(place: &Place) {
    let state = place.open();
    for name in ["b", "a-b", "Z", "a_c", "a", "ab", "Y", "a.b", "_"] {
        add(&state, name).expect("writes");
    }
    let found = state.read(|tx| table::starting_with(tx, "", 99)).expect("reads");
    let found: Vec<_> = found.iter().map(|id| id.as_str().to_owned()).collect();
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!(found, sorted);
    assert_eq!(found.len(), 9);
}

fn a_read_only_state_can_be_read(place: &Place) {
    let none = duolog_state::State::open(place.options().read_only()).map(drop);
    assert!(matches!(none, Err(Error::Missing { .. })), "{none:?}");
    let state = place.open();
    add(&state, "a").expect("writes");
    let reader = duolog_state::State::open(place.options().read_only()).expect("opens");
    assert_eq!(count(&reader), 1);
    let ran = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ran);
    let written = reader.write(Process, move |_| {
        flag.store(true, Ordering::SeqCst);
        Ok::<_, Error>(())
    });
    assert!(matches!(written, Err(Error::ReadOnly)), "{written:?}");
    assert!(!ran.load(Ordering::SeqCst));
    assert!(matches!(reader.vacuum(), Err(Error::ReadOnly)));
    assert!(reader.integrity().expect("checks").is_empty());
}
