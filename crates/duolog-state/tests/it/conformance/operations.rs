use duolog_state::ConstraintKind;
use duolog_state::owned::operations::{self, OperationRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{Epoch, OperationId, Position};

use super::{is_constraint, with_session};
use crate::{at, home, id};

on_both_engines!(an_operation_is_found_by_its_retry);

fn an_operation_is_found_by_its_retry(place: &Place) {
    with_session(place, |tx| {
        let operation = OperationId::parse("op/1").expect("an id");
        let row = OperationRow {
            session_id: id("s"),
            operation_id: operation.clone(),
            home_id: home(),
            content_hash: [9; 32],
            lines: 4,
            done_lines: 0,
            epoch: Epoch(0),
            position: Position(0),
            created_at: at(1),
            updated_at: at(1),
        };
        assert_eq!(operations::find(tx, &id("s"), &operation)?, None);
        operations::insert(tx, &row)?;
        assert!(is_constraint(&tx.savepoint(|tx| operations::insert(tx, &row)), ConstraintKind::Unique));
        let placed =
            OperationRow { epoch: Epoch(1), position: Position(8), done_lines: 4, updated_at: at(2), ..row.clone() };
        assert!(operations::place(tx, &row, &placed)?);
        assert_eq!(operations::find(tx, &id("s"), &operation)?, Some(placed.clone()));
        assert!(!operations::place(tx, &row, &row)?, "another placed it since");
        assert_eq!(operations::find(tx, &id("s"), &operation)?, Some(placed.clone()));
        let none = OperationId::parse("none").expect("an id");
        assert!(!operations::place(tx, &placed, &OperationRow { operation_id: none, ..row })?);
        Ok(())
    });
}
