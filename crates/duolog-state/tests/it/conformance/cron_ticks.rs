use duolog_state::owned::cron_ticks::{self, TickRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::Durability;

use crate::at;

on_both_engines!(a_tick_moves_back_only_by_set_back);

fn a_tick_moves_back_only_by_set_back(place: &Place) {
    let done = place.open().write(Durability::Process, |tx| {
        let row = |ticked: i64, from: i64| Some(TickRow { ticked_at: at(ticked), from_at: Some(at(from)) });
        assert_eq!(cron_ticks::find(tx, "nightly")?, None);
        for (seconds, expected) in [(5, 5), (9, 9), (7, 9)] {
            cron_ticks::advance(tx, "nightly", at(seconds))?;
            assert_eq!(cron_ticks::find(tx, "nightly")?, row(expected, 5));
        }
        cron_ticks::set_back(tx, "nightly", at(7))?;
        assert_eq!(cron_ticks::find(tx, "nightly")?, row(7, 5));
        cron_ticks::restart(tx, "nightly", at(8))?;
        assert_eq!(cron_ticks::find(tx, "nightly")?, row(8, 8));
        cron_ticks::set_back(tx, "other", at(1))?;
        assert_eq!(cron_ticks::find(tx, "other")?, None);
        Ok::<_, duolog_state::Error>(())
    });
    done.expect("writes");
}
