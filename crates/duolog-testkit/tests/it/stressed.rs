use std::time::{SystemTime, UNIX_EPOCH};

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_testkit::stress::{Options, Tally, run};

on_both_engines!(threads_that_append_delete_panic_and_drop_lose_nothing, a_disk_that_is_sometimes_full_loses_nothing);

/// The seed is random and is in the message; `duolog-crash stress --seed SEED` repeats the run.
fn stressed(place: &Place, faults: bool) -> Tally {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let steps = if place.database().is_some() { 60 } else { 150 };
    let options = Options { seed, threads: 8, steps, faults };
    run(place, options).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"))
}

fn threads_that_append_delete_panic_and_drop_lose_nothing(place: &Place) {
    let tally = stressed(place, false);
    assert!(tally.lines > 0 && tally.operations > 0 && tally.panics > 0 && tally.sessions > 3, "{tally:?}");
}

fn a_disk_that_is_sometimes_full_loses_nothing(place: &Place) {
    let tally = stressed(place, true);
    assert!(tally.lines > 0 && tally.refused > 0, "{tally:?}");
}
