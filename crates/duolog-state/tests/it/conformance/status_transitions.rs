use duolog_state::ConstraintKind;
use duolog_state::owned::status_transitions::{self, StatusTransitionRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::SessionStatus;
use duolog_types::limits::METADATA_BYTES_MAX;

use super::{is_constraint, with_session};
use crate::{at, id};

on_both_engines!(status_transitions_are_kept_in_order);

fn status_transitions_are_kept_in_order(place: &Place) {
    with_session(place, |tx| {
        let first = StatusTransitionRow {
            session_id: id("s"),
            previous_status: None,
            status: SessionStatus::Running,
            reason_code: None,
            reason: None,
            actor: None,
            evidence: None,
            created_at: at(2),
        };
        let second = StatusTransitionRow {
            previous_status: Some(SessionStatus::Running),
            status: SessionStatus::TimedOut,
            reason_code: Some("run.timed_out.deadline".to_owned()),
            reason: Some("it took too long".to_owned()),
            actor: Some("ada".to_owned()),
            evidence: Some("{\"seconds\":90}".to_owned()),
            // A clock that was set back does not change the order.
            created_at: at(1),
            ..first.clone()
        };
        status_transitions::insert(tx, &first)?;
        status_transitions::insert(tx, &second)?;
        let oldest = status_transitions::oldest(tx, &id("s"), 0, 9)?;
        assert_eq!(oldest.iter().map(|(_, row)| row).collect::<Vec<_>>(), [&first, &second]);
        let rest = status_transitions::oldest(tx, &id("s"), oldest[0].0, 9)?;
        assert_eq!(rest, oldest[1..]);
        assert_eq!(status_transitions::newest(tx, &id("s"), 9)?, [second.clone(), first]);
        assert_eq!(status_transitions::newest(tx, &id("s"), 1)?, std::slice::from_ref(&second));
        let large = StatusTransitionRow { evidence: Some("x".repeat(METADATA_BYTES_MAX + 1)), ..second.clone() };
        assert!(is_constraint(&tx.savepoint(|tx| status_transitions::insert(tx, &large)), ConstraintKind::Check));
        let orphan = StatusTransitionRow { session_id: id("none"), ..second };
        assert!(is_constraint(&tx.savepoint(|tx| status_transitions::insert(tx, &orphan)), ConstraintKind::ForeignKey));
        Ok(())
    });
}
