use duolog_state::owned::workflow_queue;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::with_session;

on_both_engines!(queue_numbers_are_given_in_order);

fn queue_numbers_are_given_in_order(place: &Place) {
    with_session(place, |tx| {
        assert_eq!([workflow_queue::enter(tx)?, workflow_queue::enter(tx)?, workflow_queue::enter(tx)?], [0, 1, 2]);
        Ok(())
    });
}
