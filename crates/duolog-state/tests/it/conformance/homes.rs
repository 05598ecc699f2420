use duolog_state::owned::homes;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::with_session;
use crate::home;

on_both_engines!(a_home_has_the_place_that_was_recorded_last);

fn a_home_has_the_place_that_was_recorded_last(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(homes::place(tx, &home())?, None);
        for at in ["here", "there"] {
            homes::put_place(tx, &home(), at)?;
            assert_eq!(homes::place(tx, &home())?.as_deref(), Some(at));
        }
        Ok(())
    });
}
