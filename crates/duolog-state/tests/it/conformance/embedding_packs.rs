use duolog_state::owned::embedding_packs::{self, PackRow, Published};
use duolog_state::owned::message_embeddings::Horizon;
use duolog_state::{ConstraintKind, params};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{HomeId, PackId};

use super::{is_constraint, with_session};
use crate::{at, home};

on_both_engines!(a_pack_is_published_only_behind_the_last_one, what_is_said_of_a_pack_is_whole);

fn published(records: u64) -> Published {
    Published { pack_id: PackId::new(), chain: [7; 32], bytes: 64 + records, records, last_seq: 9 }
}

fn a_pack_is_published_only_behind_the_last_one(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(embedding_packs::find(tx, &home())?, None);
        let horizon = Some(Horizon { seq: 5, xid: 1 << 40 });
        let first = PackRow { home_id: home(), pack: None, horizon, packed_at: at(1) };
        assert!(embedding_packs::replace(tx, None, &first)?);
        assert_eq!(embedding_packs::find(tx, &home())?, Some(first.clone()));
        let second = PackRow { pack: Some(published(3)), horizon: None, packed_at: at(2), ..first.clone() };
        assert!(!embedding_packs::replace(tx, None, &second)?, "there is one");
        assert!(embedding_packs::replace(tx, Some(&first), &second)?);
        assert_eq!(embedding_packs::find(tx, &home())?, Some(second.clone()));
        let third = PackRow { pack: Some(published(8)), ..second.clone() };
        assert!(!embedding_packs::replace(tx, Some(&first), &third)?, "another was published meanwhile");
        // Each home has its own.
        let elsewhere = PackRow { home_id: HomeId::new(), ..third };
        assert!(!embedding_packs::replace(tx, Some(&second), &elsewhere)?, "what it goes on from is not there");
        assert!(embedding_packs::replace(tx, None, &elsewhere)?);
        assert_eq!(embedding_packs::find(tx, &home())?, Some(second));
        Ok(())
    });
}

fn what_is_said_of_a_pack_is_whole(place: &Place) {
    with_session(place, |tx| {
        let row = PackRow { home_id: home(), pack: Some(published(3)), horizon: None, packed_at: at(1) };
        assert!(embedding_packs::replace(tx, None, &row)?);
        for change in ["chain = NULL", "pack_id = NULL", "horizon_seq = 1", "bytes = -1", "last_seq = -1"] {
            let sql = format!("UPDATE embedding_packs SET {change}");
            let refused = tx.savepoint(|tx| tx.execute(&sql, params![]));
            assert!(is_constraint(&refused, ConstraintKind::Check), "{change}: {refused:?}");
        }
        Ok(())
    });
}
