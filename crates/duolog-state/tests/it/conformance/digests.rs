use duolog_state::derived::digests::{self, DigestRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{Epoch, Position};

use super::{is_constraint, with_session};
use crate::id;
use duolog_state::ConstraintKind;
use duolog_types::limits::DIGEST_BYTES_MAX;

on_both_engines!(the_last_digest_is_stored_and_is_bounded);

fn the_last_digest_is_stored_and_is_bounded(place: &Place) {
    with_session(place, |tx| {
        let row = |position: u64, bytes: usize| DigestRow {
            session_id: id("s"),
            epoch: Epoch(1),
            position: Position(position),
            digest: vec![0xff; bytes],
        };
        assert_eq!(digests::get(tx, &id("s"))?, None);
        digests::put(tx, &row(10, 0))?;
        digests::put(tx, &row(20, DIGEST_BYTES_MAX))?;
        assert_eq!(digests::get(tx, &id("s"))?, Some(row(20, DIGEST_BYTES_MAX)));
        let larger = tx.savepoint(|tx| digests::put(tx, &row(30, DIGEST_BYTES_MAX + 1)));
        assert!(is_constraint(&larger, ConstraintKind::Check));
        assert_eq!(digests::dump(tx)?, [row(20, DIGEST_BYTES_MAX)]);
        Ok(())
    });
}
