use duolog_state::owned::pool_segments::{self, PoolSegmentRow};
use duolog_state::owned::progressions::{self, ProgressionRow, Segment};
use duolog_state::owned::{messages, progression_items, sessions};
use duolog_state::{ConstraintKind, Error, Tx};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{MessageId, ProgressionId};

use super::{branch_of, is_constraint, message, with_session};
use crate::{at, id};

on_both_engines!(
    a_pool_is_its_segments_in_order,
    the_last_segment_grows_with_its_progression,
    removed_items_leave_the_pool,
    shared_messages_keep_their_place_in_the_pool
);

fn row(ord: u64, at: &ProgressionId, from_ord: u64, to_ord: Option<u64>) -> PoolSegmentRow {
    PoolSegmentRow { ord, progression_id: at.clone(), from_ord, to_ord }
}

/// Creates the session's own progression with these messages.
fn own(tx: &mut Tx<'_>, names: &[&str]) -> Result<ProgressionId, Error> {
    let own = ProgressionRow::new(Some(&id("s")), at(1));
    progressions::insert(tx, &own)?;
    sessions::set_pool(tx, &id("s"), &own.id)?;
    for name in names {
        super::insert_message(tx, name)?;
        progression_items::push(tx, &own.id, &message(name))?;
    }
    Ok(own.id)
}

/// Returns the contents of the pool as text.
fn pool_text(tx: &mut Tx<'_>) -> Result<String, Error> {
    let mut all = String::new();
    for Segment { progression, from, to } in pool_segments::segments(tx, &id("s"))? {
        let ids = progression_items::ids(tx, &progression, from, to)?;
        all.extend(ids.iter().map(MessageId::as_str));
    }
    assert_eq!(pool_segments::count(tx, &id("s"))?, all.len() as u64);
    let bookmark = |letter: Option<char>| letter.map(|letter| message(&letter.to_string()));
    let (first, last) = (all.chars().next(), all.chars().last());
    assert_eq!(pool_segments::bookmarks(tx, &id("s"))?, (bookmark(first), bookmark(last)), "{all}");
    Ok(all)
}

fn a_pool_is_its_segments_in_order(place: &Place) {
    with_session(place, |tx| {
        assert_eq!((pool_text(tx)?.as_str(), pool_segments::last(tx, &id("s"))?), ("", None));
        let main = branch_of(tx, "main", &["a", "b", "d"])?.progression_id;
        let own = own(tx, &["c"])?;
        let rows = [row(0, &main, 0, Some(2)), row(2, &own, 0, Some(1)), row(3, &main, 2, Some(3))];
        for row in &rows {
            pool_segments::insert(tx, &id("s"), row)?;
        }
        assert_eq!(pool_text(tx)?, "abcd");
        assert_eq!(pool_segments::list(tx, &id("s"), None, 9)?, rows);
        assert_eq!(pool_segments::list(tx, &id("s"), Some(0), 1)?, rows[1..2]);
        assert_eq!(pool_segments::list(tx, &id("s"), Some(3), 9)?, []);
        assert_eq!(pool_segments::last(tx, &id("s"))?.as_ref(), rows.last());
        assert_eq!((pool_segments::end_in(tx, &main)?, pool_segments::end_in(tx, &own)?), (3, 1));
        assert_eq!(pool_segments::end_in(tx, &ProgressionId::new())?, 0);
        for (name, has) in [("a", true), ("c", true), ("e", false)] {
            assert_eq!(pool_segments::has(tx, &id("s"), &message(name))?, has, "{name}");
        }
        assert!(!pool_segments::has(tx, &id("none"), &message("a"))?);
        for (taken, kind) in [
            (row(3, &own, 1, None), ConstraintKind::Unique),
            (row(9, &main, 2, None), ConstraintKind::Unique),
            (row(9, &main, 3, Some(3)), ConstraintKind::Check),
            (row(9, &ProgressionId::new(), 0, None), ConstraintKind::ForeignKey),
        ] {
            let refused = tx.savepoint(|tx| pool_segments::insert(tx, &id("s"), &taken));
            assert!(is_constraint(&refused, kind), "{taken:?}");
        }
        pool_segments::remove_of(tx, &id("s"))?;
        assert_eq!(pool_text(tx)?, "");
        Ok(())
    });
}

fn the_last_segment_grows_with_its_progression(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a", "b"])?.progression_id;
        let open = row(0, &main, 0, None);
        pool_segments::insert(tx, &id("s"), &open)?;
        assert!(open.grows_with(&main) && !open.grows_with(&ProgressionId::new()));
        assert_eq!(pool_text(tx)?, "ab");
        super::insert_message(tx, "c")?;
        progression_items::push(tx, &main, &message("c"))?;
        assert_eq!(pool_text(tx)?, "abc");
        pool_segments::end(tx, &id("s"), 0, 2)?;
        assert_eq!(pool_text(tx)?, "ab");
        assert!(!row(0, &main, 0, Some(2)).grows_with(&main));
        Ok(())
    });
}

/// Deletes the items of a progression from a position on, and the messages that nothing else references.
fn cut(tx: &mut Tx<'_>, at: &ProgressionId, own: &ProgressionId, to: u64) -> Result<(), Error> {
    let mut taken = progression_items::from(tx, at, to, 99)?;
    let before = pool_segments::beyond(tx, at, to)?.expect("stretches");
    progression_items::delete_from(tx, at, to)?;
    let ids: Vec<MessageId> = taken.iter().map(|(_, id)| id.clone()).collect();
    messages::remove_unreferenced(tx, &ids, Some(own))?;
    let left = messages::existing(tx, &ids)?;
    taken.retain(|(_, id)| left.contains(id));
    pool_segments::follow(tx, &before, to, (own, &taken))
}

fn removed_items_leave_the_pool(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a", "b", "d", "e", "f"])?.progression_id;
        let own = own(tx, &["c"])?;
        for row in [row(0, &main, 0, Some(2)), row(2, &own, 0, Some(1)), row(3, &main, 2, None)] {
            pool_segments::insert(tx, &id("s"), &row)?;
        }
        assert_eq!(pool_text(tx)?, "abcdef");
        assert_eq!(pool_segments::beyond(tx, &own, 1)?, None);
        cut(tx, &main, &own, 4)?;
        assert_eq!(pool_text(tx)?, "abcde");
        assert!(pool_segments::last(tx, &id("s"))?.expect("one").grows_with(&main), "it grows from there");
        cut(tx, &main, &own, 2)?;
        assert_eq!((pool_text(tx)?.as_str(), pool_segments::list(tx, &id("s"), None, 9)?.len()), ("abc", 2));
        cut(tx, &main, &own, 1)?;
        assert_eq!(pool_text(tx)?, "ac");
        assert_eq!(pool_segments::list(tx, &id("s"), None, 1)?, [row(0, &main, 0, Some(1))]);
        cut(tx, &main, &own, 0)?;
        assert_eq!(pool_text(tx)?, "c");
        Ok(())
    });
}

fn shared_messages_keep_their_place_in_the_pool(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a", "b", "c", "d"])?.progression_id;
        let side = branch_of(tx, "side", &["e"])?.progression_id;
        progression_items::push(tx, &side, &message("c"))?;
        progression_items::push(tx, &side, &message("b"))?;
        let own = own(tx, &[])?;
        for row in [row(0, &main, 0, Some(4)), row(4, &side, 0, Some(1))] {
            pool_segments::insert(tx, &id("s"), &row)?;
        }
        assert_eq!(pool_text(tx)?, "abcde");
        cut(tx, &main, &own, 1)?;
        assert_eq!(pool_text(tx)?, "abce");
        let rows = pool_segments::list(tx, &id("s"), None, 9)?;
        let expected =
            [row(0, &main, 0, Some(1)), row(1, &own, 0, Some(1)), row(2, &own, 1, Some(2)), row(4, &side, 0, Some(1))];
        assert_eq!(rows, expected);
        // Nothing references them any more, and their empty segment is skipped.
        progression_items::delete_from(tx, &side, 0)?;
        messages::remove_unreferenced(tx, &["b", "c", "e"].map(message), Some(&own))?;
        assert_eq!(pool_text(tx)?, "a");
        assert_eq!(pool_segments::end_in(tx, &own)?, 2, "no position is used twice");
        Ok(())
    });
}
