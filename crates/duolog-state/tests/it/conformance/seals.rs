use duolog_state::ConstraintKind;
use duolog_state::owned::seals::{self, SealExtension, SealRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::SEAL_BLOCKS_BYTES_MAX;
use duolog_types::{Epoch, Position};

use super::{is_constraint, with_session};
use crate::{at, home, id};

on_both_engines!(a_seal_is_extended_only_if_unchanged);

fn a_seal_is_extended_only_if_unchanged(place: &Place) {
    with_session(place, |tx| {
        let seal = SealRow {
            session_id: id("s"),
            epoch: Epoch(0),
            ord: 0,
            home_id: home(),
            from_position: Position(0),
            to_position: Position(10),
            hash: [1; 32],
            sealed_at: at(1),
            blocks: None,
        };
        assert_eq!(seals::last(tx, &id("s"), Epoch(0))?, None);
        seals::insert(tx, &seal)?;
        assert!(is_constraint(&tx.savepoint(|tx| seals::insert(tx, &seal)), ConstraintKind::Unique));
        let empty = SealRow { ord: 1, from_position: Position(10), ..seal.clone() };
        assert!(is_constraint(&tx.savepoint(|tx| seals::insert(tx, &empty)), ConstraintKind::Check));
        let to = |to: u64, byte: u8| SealExtension {
            to_position: Position(to),
            hash: [byte; 32],
            blocks: vec![byte; SEAL_BLOCKS_BYTES_MAX],
            sealed_at: at(i64::from(byte)),
        };
        assert!(seals::extend(tx, &seal, &to(20, 2))?);
        assert!(!seals::extend(tx, &seal, &to(30, 3))?, "another process was faster");
        let blocks = Some(vec![2; SEAL_BLOCKS_BYTES_MAX]);
        let extended = SealRow { to_position: Position(20), hash: [2; 32], sealed_at: at(2), blocks, ..seal.clone() };
        let long = Some(vec![2; SEAL_BLOCKS_BYTES_MAX + 1]);
        let next = SealRow { ord: 1, from_position: Position(20), to_position: Position(30), ..seal };
        let unbounded = SealRow { blocks: long, ..next.clone() };
        assert!(is_constraint(&tx.savepoint(|tx| seals::insert(tx, &unbounded)), ConstraintKind::Check));
        seals::insert(tx, &next)?;
        assert_eq!(seals::last(tx, &id("s"), Epoch(0))?, Some(next.clone()));
        assert_eq!(seals::page(tx, &id("s"), Epoch(0), 0, 9)?, [extended, next.clone()]);
        assert_eq!(seals::page(tx, &id("s"), Epoch(0), 1, 9)?, [next]);
        assert_eq!(seals::last(tx, &id("s"), Epoch(1))?, None);
        Ok(())
    });
}
