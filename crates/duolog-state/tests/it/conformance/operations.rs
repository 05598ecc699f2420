use duolog_state::owned::operations::{self, ClaimedPlace, OperationRow};
use duolog_state::{ConstraintKind, Tx};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{Epoch, OperationId, Position};

use super::{is_constraint, remove_session, with_session};
use crate::{at, id};

on_both_engines!(
    an_operation_is_found_by_its_retry,
    a_place_belongs_to_one_operation,
    an_unused_claim_is_released,
    operations_expire_oldest_first,
    finished_appends_outlive_their_session,
);

fn row(operation: &str) -> OperationRow {
    OperationRow {
        scope: "sessions".to_owned(),
        operation_id: OperationId::parse(operation).expect("an id"),
        request_hash: [9; 32],
        answer: Some("{\"id\":1}".to_owned()),
        created_at: at(1),
        session_id: None,
        lines_done: 0,
        place: None,
    }
}

fn append(operation: &str, from: u64, to: u64) -> OperationRow {
    let place = ClaimedPlace { epoch: Epoch(1), from: Position(from), to: Position(to) };
    OperationRow {
        scope: "log/s".to_owned(),
        answer: None,
        session_id: Some(id("s")),
        place: Some(place),
        ..row(operation)
    }
}

fn an_operation_is_found_by_its_retry(place: &Place) {
    with_session(place, |tx| {
        let row = row("op/1");
        assert_eq!(operations::find(tx, "sessions", &row.operation_id)?, None);
        operations::insert(tx, &row)?;
        assert!(is_constraint(&tx.savepoint(|tx| operations::insert(tx, &row)), ConstraintKind::Unique));
        assert_eq!(operations::find(tx, "sessions", &row.operation_id)?, Some(row.clone()));
        assert_eq!(operations::find(tx, "runs", &row.operation_id)?, None, "another scope");
        Ok(())
    });
}

fn finished_appends_outlive_their_session(place: &Place) {
    with_session(place, |tx| {
        let (done, begun) = (append("o/1", 0, 10), OperationRow { place: None, lines_done: 1, ..append("p/1", 0, 1) });
        operations::insert(tx, &done)?;
        operations::insert(tx, &begun)?;
        operations::retire(tx, &id("s"), "name/x", "\"other\"")?;
        operations::retire(tx, &id("s"), "name/x", "\"s\"")?;
        remove_session(tx, &id("s"))?;
        for row in [&done, &begun] {
            assert_eq!(operations::find(tx, "log/s", &row.operation_id)?, None);
            let kept = operations::find(tx, "name/x", &row.operation_id)?.expect("kept");
            assert_eq!((kept.request_hash, kept.session_id, kept.place), (row.request_hash, None, None));
            assert_eq!(kept.answer.as_deref(), Some("\"s\""), "the last holds");
        }
        let below = |tx: &mut Tx<'_>, operation: &str| {
            let operation = OperationId::parse(operation).expect("an id");
            Ok::<_, duolog_state::Error>(operations::first_below(tx, "name/x", &operation)?.map(|row| row.operation_id))
        };
        assert_eq!(below(tx, "o")?, Some(done.operation_id));
        assert_eq!(below(tx, "p")?, Some(begun.operation_id));
        assert_eq!((below(tx, "o/1")?, below(tx, "a")?), (None, None));
        Ok(())
    });
}

fn a_place_belongs_to_one_operation(place: &Place) {
    with_session(place, |tx| {
        let (first, second) = (append("a", 0, 10), append("b", 0, 10));
        assert_eq!(operations::claimed_to(tx, &id("s"), Epoch(1))?, Position(0));
        operations::insert(tx, &first)?;
        assert!(is_constraint(&tx.savepoint(|tx| operations::insert(tx, &second)), ConstraintKind::Unique));
        operations::insert(tx, &OperationRow { place: None, ..second.clone() })?;
        let next = ClaimedPlace { epoch: Epoch(1), from: Position(10), to: Position(20) };
        assert!(operations::claim(tx, "log/s", &second.operation_id, next)?);
        assert!(!operations::claim(tx, "log/s", &second.operation_id, next)?, "it has a place already");
        assert_eq!(operations::claimed_to(tx, &id("s"), Epoch(1))?, Position(20));
        assert_eq!(operations::claimed_to(tx, &id("s"), Epoch(0))?, Position(0));
        let beyond = operations::beyond(tx, &id("s"), Epoch(1), Position(10))?;
        assert_eq!(beyond, [OperationRow { place: Some(next), ..second }]);
        Ok(())
    });
}

fn an_unused_claim_is_released(place: &Place) {
    with_session(place, |tx| {
        let (none, part) = (append("none", 0, 10), append("part", 10, 20));
        operations::insert(tx, &none)?;
        operations::insert(tx, &part)?;
        assert!(operations::unclaim(tx, &none, 0)?);
        assert!(!operations::unclaim(tx, &none, 0)?, "it is deleted");
        assert_eq!(operations::find(tx, "log/s", &none.operation_id)?, None);
        assert!(operations::unclaim(tx, &part, 2)?);
        let left = OperationRow { place: None, lines_done: 2, ..part.clone() };
        assert_eq!(operations::find(tx, "log/s", &part.operation_id)?, Some(left));
        assert!(!operations::unclaim(tx, &part, 3)?, "it no longer has the place");
        operations::forget(tx, "log/s", &part.operation_id)?;
        assert_eq!(operations::find(tx, "log/s", &part.operation_id)?, None);
        Ok(())
    });
}

fn operations_expire_oldest_first(place: &Place) {
    with_session(place, |tx| {
        for (operation, created_at) in [("b", at(1)), ("c", at(2)), ("a", at(3)), ("d", at(0))] {
            operations::insert(tx, &OperationRow { created_at, ..row(operation) })?;
        }
        assert!(operations::any_before(tx, at(2))? && !operations::any_before(tx, at(1))?);
        let late = operations::find(tx, "sessions", &row("d").operation_id)?;
        assert_eq!(late.map(|row| row.created_at), Some(at(3)), "the timestamp does not move back");
        assert_eq!(operations::expire(tx, at(9), 5, 9)?, 0, "there are fewer");
        assert_eq!(operations::expire(tx, at(9), 3, 1)?, 1);
        assert_eq!(operations::find(tx, "sessions", &row("b").operation_id)?, None);
        assert_eq!(operations::expire(tx, at(9), 3, 9)?, 0, "the newest are kept");
        assert_eq!(operations::expire(tx, at(3), 1, 9)?, 1);
        assert_eq!(operations::expire(tx, at(9), 1, 9)?, 0, "rows with equal timestamps are kept");
        assert!(operations::find(tx, "sessions", &row("a").operation_id)?.is_some());
        Ok(())
    });
}
