use duolog_state::ConstraintKind;
use duolog_state::owned::inboxes::{self, Address};
use duolog_state::owned::progressions::{self, ProgressionRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{is_constraint, with_session};
use crate::at;

on_both_engines!(an_inbox_is_one_recipient_on_one_channel);

fn an_inbox_is_one_recipient_on_one_channel(place: &Place) {
    with_session(place, |tx| {
        let [ada, bob] = ["ada", "bob"].map(|name| Address::Id(name.to_owned()));
        let mut rows = Vec::new();
        for _ in 0..4 {
            let row = ProgressionRow::new(None, at(1));
            progressions::insert(tx, &row)?;
            rows.push(row.id);
        }
        assert_eq!(inboxes::find(tx, &ada, "")?, None);
        inboxes::insert(tx, &ada, "", &rows[0])?;
        inboxes::insert(tx, &ada, "news", &rows[1])?;
        assert_eq!(inboxes::find(tx, &ada, "")?.as_ref(), Some(&rows[0]));
        assert_eq!(inboxes::find(tx, &ada, "news")?.as_ref(), Some(&rows[1]));
        assert_eq!(inboxes::enter(tx, &ada, "news")?.as_ref(), Some(&rows[1]));
        assert_eq!((inboxes::find(tx, &bob, "")?, inboxes::enter(tx, &bob, "")?), (None, None));
        assert_eq!(inboxes::channels(tx, &ada, None, 9)?, ["", "news"]);
        assert_eq!(inboxes::channels(tx, &ada, Some(""), 9)?, ["news"]);
        let twice = tx.savepoint(|tx| inboxes::insert(tx, &ada, "", &rows[2]));
        assert!(is_constraint(&twice, ConstraintKind::Unique));
        let nobody = tx.savepoint(|tx| inboxes::insert(tx, &Address::Id(String::new()), "", &rows[2]));
        assert!(is_constraint(&nobody, ConstraintKind::Check));
        let topic = Address::Topic("ada".to_owned());
        assert_eq!((inboxes::find(tx, &topic, "")?, inboxes::enter(tx, &topic, "")?), (None, None));
        inboxes::insert(tx, &topic, "", &rows[3])?;
        assert_eq!(inboxes::find(tx, &topic, "")?.as_ref(), Some(&rows[3]));
        assert_eq!(inboxes::channels(tx, &topic, None, 9)?, [""]);
        assert_eq!(inboxes::find(tx, &ada, "")?.as_ref(), Some(&rows[0]));
        Ok(())
    });
}
