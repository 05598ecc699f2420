use duolog_state::ConstraintKind;
use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::owned::outbox::{self, NewOutbox, OutboxKey, OutboxRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::{OUTBOX_LINE_BYTES_MAX, REASON_BYTES_MAX};
use duolog_types::{Epoch, HomeId, OutboxId, Position, SessionId};

use super::{is_constraint, remove_session, with_session};
use crate::{at, home, id};

on_both_engines!(
    the_outbox_returns_lines_in_order_until_deleted,
    the_floor_of_a_line_is_the_fold_checkpoint,
    a_line_with_a_reused_number_is_not_deleted,
);

fn line<'l>(session: &'l SessionId, text: &'l str) -> NewOutbox<'l> {
    NewOutbox { uuid: OutboxId::new(), session_id: session, line: text, created_at: at(1) }
}

fn keys(rows: &[OutboxRow]) -> Vec<OutboxKey> {
    rows.iter().map(OutboxKey::from).collect()
}

fn the_outbox_returns_lines_in_order_until_deleted(place: &Place) {
    with_session(place, |tx| {
        let (s, longest) = (id("s"), "x".repeat(OUTBOX_LINE_BYTES_MAX));
        for text in ["a", "b", &longest] {
            assert!(outbox::insert(tx, &line(&s, text))?);
        }
        let longer = format!("{longest}x");
        assert!(is_constraint(&tx.savepoint(|tx| outbox::insert(tx, &line(&s, &longer))), ConstraintKind::Check));
        assert!(!outbox::insert(tx, &line(&id("none"), "a"))?, "the session does not exist");
        let rows = outbox::pending(tx, &s, &home(), 3)?;
        outbox::note_failure(tx, &keys(&rows)[0], &"é".repeat(REASON_BYTES_MAX))?;
        let rows = outbox::pending(tx, &s, &home(), 2)?;
        assert_eq!(rows.iter().map(|row| row.line.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((rows[0].attempts, rows[0].floor, rows[0].epoch), (1, Position(0), Epoch(0)));
        assert_eq!(rows[0].last_error.as_ref().map(String::len), Some(REASON_BYTES_MAX));
        assert_eq!(outbox::pending(tx, &s, &HomeId::new(), 2)?, [], "the lines belong to another home");
        assert_eq!(outbox::waiting(tx, &home(), 9)?, [(s.clone(), 3)]);
        assert_eq!(outbox::delete(tx, &keys(&rows))?, 2);
        assert_eq!(outbox::delete(tx, &keys(&rows))?, 0);
        assert_eq!(outbox::pending(tx, &s, &home(), 9)?.len(), 1);
        assert!(outbox::insert(tx, &line(&s, "c"))?);
        assert_eq!((outbox::forget(tx, &s)?, outbox::forget(tx, &s)?), (2, 0));
        assert!(outbox::insert(tx, &line(&s, "d"))?);
        remove_session(tx, &s)?;
        assert_eq!(outbox::count(tx)?, 0);
        Ok(())
    });
}

fn the_floor_of_a_line_is_the_fold_checkpoint(place: &Place) {
    with_session(place, |tx| {
        let s = id("s");
        for (epoch, floor) in [(Epoch(1), Position(0)), (Epoch(0), Position(7))] {
            catalog::clear(tx)?;
            assert!(catalog::advance(tx, None, &CatalogRow::new(s.clone(), home(), epoch, Position(7)))?);
            assert!(outbox::insert(tx, &line(&s, "a"))?);
            let last = outbox::pending(tx, &s, &home(), 9)?.pop().expect("waits");
            assert_eq!((last.epoch, last.floor), (Epoch(0), floor), "folded in epoch {epoch:?}");
        }
        Ok(())
    });
}

fn a_line_with_a_reused_number_is_not_deleted(place: &Place) {
    with_session(place, |tx| {
        let s = id("s");
        outbox::insert(tx, &line(&s, "a"))?;
        let seen = keys(&outbox::pending(tx, &s, &home(), 9)?);
        // Another process appended it, and another line was inserted.
        assert_eq!(outbox::delete(tx, &seen)?, 1);
        outbox::insert(tx, &line(&s, "b"))?;
        outbox::note_failure(tx, &seen[0], "no")?;
        assert_eq!(outbox::delete(tx, &seen)?, 0);
        let left = outbox::pending(tx, &s, &home(), 9)?;
        assert_eq!(left.iter().map(|row| (row.line.as_str(), row.attempts)).collect::<Vec<_>>(), [("b", 0)]);
        Ok(())
    });
}
