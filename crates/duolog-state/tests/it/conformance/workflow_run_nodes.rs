use duolog_state::ConstraintKind;
use duolog_state::owned::workflow_run_nodes;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{is_constraint, run_id, with_run};

on_both_engines!(a_node_has_its_last_status);

fn a_node_has_its_last_status(place: &Place) {
    with_run(place, |tx| {
        let run = run_id("r");
        assert_eq!(workflow_run_nodes::put(tx, &run, "n", "\"running\"")?, 10);
        assert_eq!(workflow_run_nodes::put(tx, &run, "n", "\"done\"")?, -3);
        workflow_run_nodes::put(tx, &run, "m", "{}")?;
        let pair = |node: &str, status: &str| (node.to_owned(), status.to_owned());
        assert_eq!(workflow_run_nodes::all(tx, &run)?, [pair("m", "{}"), pair("n", "\"done\"")]);
        let refused = tx.savepoint(|tx| workflow_run_nodes::put(tx, &run, "", "1"));
        assert!(is_constraint(&refused, ConstraintKind::Check));
        Ok(())
    });
}
