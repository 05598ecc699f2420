use duolog_state::ConstraintKind;
use duolog_state::owned::workflow_run_scratch;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::SCRATCH_VALUE_BYTES_MAX;

use super::{is_constraint, run_id, with_run};

on_both_engines!(a_key_has_its_last_value_and_the_growth_is_returned);

fn a_key_has_its_last_value_and_the_growth_is_returned(place: &Place) {
    with_run(place, |tx| {
        let run = run_id("r");
        assert_eq!(workflow_run_scratch::put(tx, &run, "b", "1234")?, 5);
        assert_eq!(workflow_run_scratch::put(tx, &run, "a", "\"ü\"")?, 5);
        assert_eq!(workflow_run_scratch::put(tx, &run, "b", "1")?, -3);
        assert_eq!(workflow_run_scratch::get(tx, &run, "b")?.as_deref(), Some("1"));
        assert_eq!(workflow_run_scratch::get(tx, &run, "none")?, None);
        let all: Vec<_> = workflow_run_scratch::all(tx, &run)?.into_iter().map(|(key, _)| key).collect();
        assert_eq!(all, ["a", "b"]);
        let large = "1".repeat(SCRATCH_VALUE_BYTES_MAX + 1);
        let refused = tx.savepoint(|tx| workflow_run_scratch::put(tx, &run, "c", &large));
        assert!(is_constraint(&refused, ConstraintKind::Check));
        Ok(())
    });
}
