use duolog_state::ConstraintKind;
use duolog_state::owned::outbox::{self, NewOutbox};
use duolog_state::owned::sessions;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::{OUTBOX_LINE_BYTES_MAX, REASON_BYTES_MAX};
use duolog_types::{Epoch, HomeId, OutboxId, Position};

use super::{is_constraint, with_session};
use crate::{at, home, id};

on_both_engines!(the_outbox_gives_lines_back_in_order_until_deleted);

fn the_outbox_gives_lines_back_in_order_until_deleted(place: &Place) {
    with_session(place, |tx| {
        let line = |text: &str| NewOutbox {
            uuid: OutboxId::new(),
            session_id: id("s"),
            home_id: home(),
            epoch: Epoch(1),
            floor: Position(7),
            line: text.to_owned(),
            created_at: at(1),
        };
        let longest = "x".repeat(OUTBOX_LINE_BYTES_MAX);
        let ids =
            [outbox::insert(tx, &line("a"))?, outbox::insert(tx, &line("b"))?, outbox::insert(tx, &line(&longest))?];
        assert!(is_constraint(
            &tx.savepoint(|tx| outbox::insert(tx, &line(&format!("{longest}x")))),
            ConstraintKind::Check
        ));
        let orphan = NewOutbox { session_id: id("none"), ..line("a") };
        assert!(is_constraint(&tx.savepoint(|tx| outbox::insert(tx, &orphan)), ConstraintKind::ForeignKey));
        outbox::note_failure(tx, ids[0], &"é".repeat(REASON_BYTES_MAX))?;
        let rows = outbox::pending(tx, &id("s"), &home(), 2)?;
        assert_eq!(rows.iter().map(|row| row.line.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((rows[0].attempts, rows[0].floor, rows[0].epoch), (1, Position(7), Epoch(1)));
        assert_eq!(rows[0].last_error.as_ref().map(String::len), Some(REASON_BYTES_MAX));
        assert_eq!(outbox::pending(tx, &id("s"), &HomeId::new(), 2)?, [], "another home's lines wait");
        assert_eq!(outbox::waiting(tx, &home(), 9)?, [(id("s"), 3)]);
        assert_eq!(outbox::delete(tx, &ids)?, 3);
        assert_eq!(outbox::delete(tx, &ids)?, 0);
        assert!(outbox::insert(tx, &line("c"))? > ids[2], "a number never comes again");
        sessions::remove(tx, &id("s"))?;
        assert_eq!(outbox::count(tx)?, 0);
        Ok(())
    });
}
