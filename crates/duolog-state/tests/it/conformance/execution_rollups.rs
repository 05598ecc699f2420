use duolog_state::owned::execution_rollups::{self, RollupRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::ExecutionId;

use super::with_session;
use crate::at;

on_both_engines!(counts_are_added_up, executions_of_one_workflow_share_a_quarter);

fn execution(name: &str) -> ExecutionId {
    ExecutionId::parse(name).expect("an execution id")
}

fn counts_are_added_up(place: &Place) {
    with_session(place, |tx| {
        let one = RollupRow { started: 1, cost_picos: 5, output_tokens: 7, ..RollupRow::default() };
        let other = RollupRow { failed: 1, duration_ms: 3, cost_picos: 1, ..RollupRow::default() };
        for (bucket, workflow, row) in [(0, "a", &one), (0, "a", &other), (900, "b", &one), (1800, "a", &one)] {
            execution_rollups::add(tx, at(bucket), workflow, &execution("e"), row)?;
        }
        let mut seen = Vec::new();
        execution_rollups::between(tx, at(0), at(1800), None, &mut |bucket, row| seen.push((bucket, row)))?;
        let both = RollupRow { failed: 1, duration_ms: 3, cost_picos: 6, ..one };
        assert_eq!(seen, [(at(0), both), (at(900), one)]);
        seen.clear();
        execution_rollups::between(tx, at(1), at(9999), Some("a"), &mut |bucket, row| seen.push((bucket, row)))?;
        assert_eq!(seen, [(at(1800), one)]);
        Ok(())
    });
}

fn executions_of_one_workflow_share_a_quarter(place: &Place) {
    with_session(place, |tx| {
        let one = RollupRow { started: 1, ..RollupRow::default() };
        for number in 0..200 {
            execution_rollups::add(tx, at(0), "a", &execution(&format!("e-{number}")), &one)?;
        }
        let (mut rows, mut started) = (0, 0);
        execution_rollups::between(tx, at(0), at(900), Some("a"), &mut |_, row| {
            (rows, started) = (rows + 1, started + row.started);
        })?;
        assert_eq!(started, 200);
        assert_eq!(rows == 1, tx.has_one_writer(), "{rows} rows");
        Ok(())
    });
}
