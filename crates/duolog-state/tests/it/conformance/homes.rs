use duolog_state::owned::homes;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::with_session;
use crate::home;

on_both_engines!(the_last_location_of_a_home_is_returned);

fn the_last_location_of_a_home_is_returned(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(homes::place(tx, &home())?, None);
        for at in ["here", "there"] {
            homes::put_place(tx, &home(), at)?;
            assert_eq!(homes::place(tx, &home())?.as_deref(), Some(at));
        }
        Ok(())
    });
}
