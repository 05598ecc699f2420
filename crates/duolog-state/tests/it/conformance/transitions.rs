use duolog_state::ConstraintKind;
use duolog_state::owned::transitions::{self, TransitionRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::OperationId;
use duolog_types::limits::METADATA_BYTES_MAX;

use super::{is_constraint, with_session};
use crate::at;

on_both_engines!(a_transition_is_found_by_its_retry);

fn a_transition_is_found_by_its_retry(place: &Place) {
    with_session(place, |tx| {
        let operation = OperationId::parse("op/1").expect("an id");
        let row = TransitionRow {
            operation_id: operation.clone(),
            content_hash: [9; 32],
            answer: "x".repeat(METADATA_BYTES_MAX),
            created_at: at(1),
        };
        assert_eq!(transitions::find(tx, &operation)?, None);
        transitions::insert(tx, &row)?;
        assert!(is_constraint(&tx.savepoint(|tx| transitions::insert(tx, &row)), ConstraintKind::Unique));
        assert_eq!(transitions::find(tx, &operation)?, Some(row.clone()));
        let other = OperationId::parse("op/2").expect("an id");
        let long = TransitionRow { operation_id: other, answer: "x".repeat(METADATA_BYTES_MAX + 1), ..row };
        assert!(is_constraint(&tx.savepoint(|tx| transitions::insert(tx, &long)), ConstraintKind::Check));
        Ok(())
    });
}
