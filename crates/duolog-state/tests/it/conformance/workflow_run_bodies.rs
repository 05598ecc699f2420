use duolog_state::ConstraintKind;
use duolog_state::owned::workflow_run_bodies;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::CONTEXT_BYTES_MAX;

use super::{is_constraint, run_id, with_run};

on_both_engines!(a_context_is_stored_once);

fn a_context_is_stored_once(place: &Place) {
    with_run(place, |tx| {
        let large = "x".repeat(CONTEXT_BYTES_MAX + 1);
        let refused = tx.savepoint(|tx| workflow_run_bodies::insert(tx, &run_id("r"), Some(&large)));
        assert!(is_constraint(&refused, ConstraintKind::Check));
        assert_eq!(workflow_run_bodies::context(tx, &run_id("r"))?, None);
        workflow_run_bodies::insert(tx, &run_id("r"), Some("{\"a\":1}"))?;
        assert_eq!(workflow_run_bodies::context(tx, &run_id("r"))?.as_deref(), Some("{\"a\":1}"));
        let again = tx.savepoint(|tx| workflow_run_bodies::insert(tx, &run_id("r"), None));
        assert!(is_constraint(&again, ConstraintKind::Unique));
        let orphan = tx.savepoint(|tx| workflow_run_bodies::insert(tx, &run_id("none"), None));
        assert!(is_constraint(&orphan, ConstraintKind::ForeignKey));
        Ok(())
    });
}
