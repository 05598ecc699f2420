use duolog_state::owned::inbox_cursors;
use duolog_state::owned::inboxes::Address;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::with_session;
use crate::at;

on_both_engines!(a_reader_only_moves_forward);

fn a_reader_only_moves_forward(place: &Place) {
    with_session(place, |tx| {
        let [ada, topic] = [Address::Id, Address::Topic].map(|address| address("ada".to_owned()));
        assert_eq!(inbox_cursors::get(tx, &ada, "", "r")?, 0);
        assert!(inbox_cursors::advance(tx, &ada, "", "r", 3, at(1))?);
        for not in [3, 2, 0] {
            assert!(!inbox_cursors::advance(tx, &ada, "", "r", not, at(2))?, "{not}");
        }
        assert_eq!(inbox_cursors::get(tx, &ada, "", "r")?, 3);
        assert!(inbox_cursors::advance(tx, &ada, "", "r", 4, at(2))?);
        assert_eq!((inbox_cursors::get(tx, &ada, "", "r")?, inbox_cursors::get(tx, &ada, "", "other")?), (4, 0));
        assert_eq!(inbox_cursors::get(tx, &ada, "news", "r")?, 0);
        assert_eq!(inbox_cursors::get(tx, &topic, "", "r")?, 0);
        assert!(inbox_cursors::advance(tx, &topic, "", "r", 1, at(1))?);
        assert_eq!(inbox_cursors::get(tx, &ada, "", "r")?, 4);
        Ok(())
    });
}
