use duolog_state::derived::responses::{self, ResponseClaim};
use duolog_state::owned::sessions;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{remove_session, with_session};
use crate::{id, session};

on_both_engines!(a_response_is_counted_by_one_session, the_larger_claim_wins_then_the_smaller_id);

fn claims(keys: &[u64], weight: u64) -> Vec<ResponseClaim> {
    keys.iter().map(|key| ResponseClaim { response: *key, weight }).collect()
}

fn a_response_is_counted_by_one_session(place: &Place) {
    with_session(place, |tx| {
        sessions::insert(tx, &session("t"))?;
        // Keys of every size, more than fit into one statement, and not a multiple of it.
        let keys: Vec<u64> = (0..150).map(|at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).chain([u64::MAX]).collect();
        assert!(responses::owners(tx, &keys)?.is_empty() && responses::owners(tx, &[])?.is_empty());
        responses::claim(tx, &id("t"), &claims(&keys, 7))?;
        responses::claim(tx, &id("t"), &[])?;
        let owners = responses::owners(tx, &keys)?;
        assert!(
            owners.len() == keys.len()
                && keys.iter().all(|key| owners[key].session_id == id("t") && owners[key].weight == 7)
        );
        // The other session takes some of them; a repeated claim changes nothing.
        responses::claim(tx, &id("s"), &claims(&keys[..70], 5))?;
        responses::claim(tx, &id("s"), &claims(&keys[..70], 5))?;
        let owners = responses::owners(tx, &keys)?;
        assert!(keys.iter().enumerate().all(|(at, key)| owners[key].session_id == id(if at < 70 { "s" } else { "t" })));
        assert!(responses::confirm(tx, &id("s"), keys[0])? && !responses::confirm(tx, &id("t"), keys[0])?);
        assert!(!responses::confirm(tx, &id("s"), 12345)?, "no session counts it");
        assert_eq!(responses::dump(tx)?.len(), keys.len());
        responses::forget(tx, &id("s"))?;
        assert_eq!(responses::owners(tx, &keys)?.len(), keys.len() - 70);
        remove_session(tx, &id("t"))?;
        assert_eq!(responses::dump(tx)?, [], "rows are deleted with their session");
        Ok(())
    });
}

fn the_larger_claim_wins_then_the_smaller_id(place: &Place) {
    with_session(place, |tx| {
        sessions::insert(tx, &session("t"))?;
        responses::claim(tx, &id("s"), &claims(&[1], 9))?;
        responses::claim(tx, &id("s"), &claims(&[1], 4))?;
        let owner = responses::owners(tx, &[1])?.remove(&1).expect("claimed");
        assert_eq!(owner.weight, 9, "a smaller claim of its own changes nothing");
        assert!(owner.holds_against(&id("r"), 8) && !owner.holds_against(&id("t"), 10));
        assert!(
            owner.holds_against(&id("t"), 9) && !owner.holds_against(&id("r"), 9),
            "of equal claims the smaller id wins"
        );
        assert!(!owner.holds_against(&id("s"), 1), "a session does not compete with itself");
        responses::claim(tx, &id("t"), &claims(&[1], 4))?;
        assert_eq!(responses::owners(tx, &[1])?[&1].weight, 4, "another session's claim sets its own weight");
        Ok(())
    });
}
