use duolog_state::owned::session_owners::{self, SessionOwnerRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{remove_session, with_session};
use crate::{at, id};

on_both_engines!(one_process_runs_a_session);

fn one_process_runs_a_session(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(session_owners::find(tx, &id("s"))?, None);
        let first = SessionOwnerRow {
            session_id: id("s"),
            pid: 7,
            process_started: Some("1234".to_owned()),
            host: Some("here".to_owned()),
            boot_id: Some("boot".to_owned()),
            since: at(1),
        };
        session_owners::put(tx, &first)?;
        assert_eq!(session_owners::find(tx, &id("s"))?, Some(first.clone()));
        let second =
            SessionOwnerRow { pid: 8, process_started: None, host: None, boot_id: None, since: at(2), ..first };
        session_owners::put(tx, &second)?;
        assert_eq!(session_owners::find(tx, &id("s"))?, Some(second.clone()));
        assert!(session_owners::remove(tx, &id("s"))? && !session_owners::remove(tx, &id("s"))?);
        session_owners::put(tx, &second)?;
        remove_session(tx, &id("s"))?;
        assert_eq!(session_owners::find(tx, &id("s"))?, None, "it is deleted with its session");
        Ok(())
    });
}
