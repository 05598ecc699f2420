use duolog_state::owned::log_epochs;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::Epoch;

use super::with_session;

on_both_engines!(a_new_log_begins_above_deleted_epochs);

fn a_new_log_begins_above_deleted_epochs(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(log_epochs::next(tx)?, Epoch(0));
        log_epochs::retire(tx, Epoch(4))?;
        log_epochs::retire(tx, Epoch(2))?;
        assert_eq!(log_epochs::next(tx)?, Epoch(5));
        Ok(())
    });
}
