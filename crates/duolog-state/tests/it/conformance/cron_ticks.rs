use duolog_state::owned::cron_ticks;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::Durability;

use crate::at;

on_both_engines!(how_far_times_were_looked_at_is_what_was_said_last);

fn how_far_times_were_looked_at_is_what_was_said_last(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        assert_eq!(cron_ticks::find(tx, "nightly")?, None);
        for seconds in [5, 9, 7] {
            cron_ticks::put(tx, "nightly", at(seconds))?;
            assert_eq!(cron_ticks::find(tx, "nightly")?, Some(at(seconds)), "a clock that was ahead is set right");
        }
        assert_eq!(cron_ticks::find(tx, "other")?, None);
        Ok::<_, duolog_state::Error>(())
    });
    done.expect("writes");
}
