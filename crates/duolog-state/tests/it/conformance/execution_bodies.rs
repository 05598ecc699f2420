use duolog_state::ConstraintKind;
use duolog_state::owned::execution_bodies::{self, OutputRow};
use duolog_state::owned::executions;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::HomeId;
use duolog_types::limits::OUTPUT_BYTES_MAX;

use super::{execution, is_constraint, with_run};
use crate::home;

on_both_engines!(the_last_output_is_stored);

fn the_last_output_is_stored(place: &Place) {
    with_run(place, |tx| {
        let row = execution("e", "plan", 1);
        executions::insert(tx, &row)?;
        assert_eq!(execution_bodies::find(tx, &row.id)?, None);
        let short = OutputRow { text: "x".to_owned(), bytes: 1, blob: None };
        execution_bodies::put(tx, &row.id, &short)?;
        assert_eq!(execution_bodies::find(tx, &row.id)?, Some(short));
        let blob = "ab".repeat(32);
        let long = OutputRow { text: "tail".to_owned(), bytes: 2 << 20, blob: Some((blob.clone(), home())) };
        execution_bodies::put(tx, &row.id, &long)?;
        assert_eq!(execution_bodies::find(tx, &row.id)?, Some(long));
        assert_eq!(execution_bodies::naming_blob(tx, &home(), &blob)?, 1);
        assert_eq!(execution_bodies::blobs(tx, &home(), "", 9)?, [blob.as_str()]);
        assert_eq!(execution_bodies::blobs(tx, &home(), &blob, 9)?, [""; 0]);
        assert_eq!(execution_bodies::naming_blob(tx, &HomeId::new(), &blob)?, 0);
        let large = OutputRow { text: "x".repeat(OUTPUT_BYTES_MAX + 1), bytes: 1, blob: None };
        let refused = tx.savepoint(|tx| execution_bodies::put(tx, &row.id, &large));
        assert!(is_constraint(&refused, ConstraintKind::Check));
        Ok(())
    });
}
