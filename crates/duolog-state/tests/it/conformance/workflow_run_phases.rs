use duolog_state::ConstraintKind;
use duolog_state::owned::workflow_run_phases;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{is_constraint, run_id, with_run};

on_both_engines!(entries_are_in_order);

fn entries_are_in_order(place: &Place) {
    with_run(place, |tx| {
        let run = run_id("r");
        for ord in [1, 0, 2] {
            workflow_run_phases::insert(tx, &run, ord, &format!("{{\"n\":{ord}}}"))?;
        }
        assert_eq!(workflow_run_phases::all(tx, &run)?, ["{\"n\":0}", "{\"n\":1}", "{\"n\":2}"]);
        let taken = tx.savepoint(|tx| workflow_run_phases::insert(tx, &run, 1, "{}"));
        assert!(is_constraint(&taken, ConstraintKind::Unique));
        Ok(())
    });
}
