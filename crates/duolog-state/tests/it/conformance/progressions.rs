use duolog_state::owned::branches::{self, BranchRow, ForkPoint};
use duolog_state::owned::progressions::{self, Fresh, ProgressionRow, Segment};
use duolog_state::owned::{messages, progression_items, sessions};
use duolog_state::{Error, Tx, params};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{BranchId, MessageId};

use super::{branch_of, insert_message, message, remove_session, with_session};
use crate::{at, id, session};

on_both_engines!(
    a_history_has_its_parents_items_and_its_own,
    a_message_occurs_once_in_a_history,
    a_cut_changes_no_other_history,
    a_cut_before_the_fork_leaves_the_parent_alone,
    items_that_no_history_sees_are_removed,
    a_session_is_removed_with_its_messages
);

fn head(tx: &mut Tx<'_>, branch: &BranchRow) -> Result<ProgressionRow, Error> {
    let row = branches::find(tx, &branch.id)?.expect("a branch");
    progressions::get(tx, &row.progression_id)
}

/// Returns the progressions of the session, page by page.
fn of_session(tx: &mut Tx<'_>, limit: u32) -> Result<Vec<ProgressionRow>, Error> {
    let mut all: Vec<ProgressionRow> = Vec::new();
    loop {
        let after = all.last().map(|last| (last.base_ord, last.id.clone()));
        let after = after.as_ref().map(|(base_ord, id)| (*base_ord, id));
        let page = progressions::of_session(tx, &id("s"), after, limit)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Returns the full history as text.
fn history_text(tx: &mut Tx<'_>, branch: &BranchRow) -> Result<String, Error> {
    let head = head(tx, branch)?;
    let mut all = String::new();
    for Segment { progression, from, to } in progressions::segments(tx, &head, 0, u64::MAX)? {
        for row in progression_items::oldest(tx, &progression, from, to, 99)? {
            assert_eq!(row.ord, all.len() as u64, "positions are dense");
            all += row.message_id.as_str();
        }
    }
    assert_eq!(head.end, all.len() as u64);
    Ok(all)
}

fn add(tx: &mut Tx<'_>, branch: &BranchRow, text: &str) -> Result<(), Error> {
    let mut head = head(tx, branch)?;
    for letter in text.chars() {
        let said = insert_message(tx, &letter.to_string())?;
        progressions::append(tx, &mut head, &said, Fresh::Yes)?;
    }
    Ok(())
}

fn fork(tx: &mut Tx<'_>, parent: &BranchRow, at_ord: u64, name: &str) -> Result<BranchRow, Error> {
    let head = head(tx, parent)?;
    let forked = progressions::fork(tx, &head, at_ord, at(2))?;
    let row = BranchRow {
        id: BranchId::parse(name).expect("an id"),
        progression_id: forked.id,
        forked: Some(ForkPoint { parent: parent.id.clone(), at_ord, at_seq: 0 }),
        ..parent.clone()
    };
    branches::insert(tx, &row)?;
    Ok(row)
}

fn cut(tx: &mut Tx<'_>, branch: &BranchRow, to: u64) -> Result<(), Error> {
    let head = head(tx, branch)?;
    let next = progressions::cut(tx, &head, to, None, at(3))?;
    assert_eq!(branches::find(tx, &branch.id)?.expect("there").progression_id, next);
    Ok(())
}

fn count(tx: &mut Tx<'_>, table: &str) -> Result<u64, Error> {
    Ok(tx.find(&format!("SELECT COUNT(*) FROM {table}"), &[], |row| row.get(0))?.unwrap_or_default())
}

fn a_history_has_its_parents_items_and_its_own(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a", "b", "c"])?;
        let rows = count(tx, "progression_items")?;
        let side = fork(tx, &main, 2, "side")?;
        let empty = fork(tx, &main, 0, "empty")?;
        let late = fork(tx, &side, 2, "late")?;
        assert_eq!(count(tx, "progression_items")?, rows, "a fork copies nothing");
        add(tx, &main, "d")?;
        add(tx, &side, "s")?;
        add(tx, &late, "l")?;
        add(tx, &empty, "e")?;
        let texts: Result<Vec<String>, Error> =
            [&main, &side, &late, &empty].map(|branch| history_text(tx, branch)).into_iter().collect();
        assert_eq!(texts?, ["abcd", "abs", "abl", "e"]);
        // The parent of a fork of an empty fork is the nearest progression with items.
        assert_eq!(head(tx, &late)?.parent_id, Some(main.progression_id.clone()));
        let side_head = head(tx, &side)?;
        let part = progressions::segments(tx, &side_head, 1, 3)?;
        let parts: Vec<_> = part.iter().map(|part| (&part.progression, part.from, part.to)).collect();
        assert_eq!(parts, [(&main.progression_id, 1, 2), (&side.progression_id, 2, 3)]);
        assert_eq!(progressions::segments(tx, &side_head, 3, 9)?, []);
        let all = of_session(tx, 9)?;
        let bases: Vec<u64> = all.iter().map(|row| row.base_ord).collect();
        assert_eq!(bases, [0, 0, 2, 2], "each comes after its parent");
        assert!(all.contains(&side_head));
        assert_eq!(of_session(tx, 1)?, all);
        Ok(())
    });
}

fn a_message_occurs_once_in_a_history(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a", "b", "c"])?;
        let side = fork(tx, &main, 1, "side")?;
        let other = branch_of(tx, "other", &[])?;
        let mut many = head(tx, &other)?;
        let letters: Vec<MessageId> = ["b", "c"].map(message).into();
        progressions::append_new(tx, &mut many, &letters)?;
        assert_eq!((history_text(tx, &other)?.as_str(), many.end), ("bc", 2));
        let mut end = head(tx, &side)?;
        assert_eq!(progressions::append(tx, &mut end, &message("a"), Fresh::No)?, 0, "the parent's item is found");
        assert_eq!(
            progressions::append(tx, &mut end, &message("c"), Fresh::No)?,
            1,
            "a message that is not there is appended"
        );
        assert_eq!(progressions::append(tx, &mut end, &message("c"), Fresh::No)?, 1);
        assert_eq!((history_text(tx, &side)?, history_text(tx, &main)?), ("ac".to_owned(), "abc".to_owned()));
        assert_eq!(progressions::place_of(tx, &end, &message("b"))?, None);
        assert_eq!(progressions::place_of(tx, &end, &message("none"))?, None);
        assert_eq!(progressions::find(tx, &duolog_types::ProgressionId::new())?, None);
        Ok(())
    });
}

fn a_cut_changes_no_other_history(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a", "b", "c", "d"])?;
        let side = fork(tx, &main, 3, "side")?;
        cut(tx, &main, 3)?;
        assert_eq!(
            branches::find(tx, &main.id)?.expect("there").progression_id,
            main.progression_id,
            "no other history saw d"
        );
        cut(tx, &main, 1)?;
        assert_ne!(branches::find(tx, &main.id)?.expect("there").progression_id, main.progression_id);
        add(tx, &main, "m")?;
        add(tx, &side, "s")?;
        assert_eq!((history_text(tx, &main)?, history_text(tx, &side)?), ("am".to_owned(), "abcs".to_owned()));
        cut(tx, &main, 0)?;
        cut(tx, &main, 0)?;
        add(tx, &main, "n")?;
        assert_eq!((history_text(tx, &main)?, history_text(tx, &side)?), ("n".to_owned(), "abcs".to_owned()));
        Ok(())
    });
}

fn a_cut_before_the_fork_leaves_the_parent_alone(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a", "b", "c"])?;
        let side = fork(tx, &main, 3, "side")?;
        add(tx, &side, "s")?;
        let leaf = fork(tx, &side, 4, "leaf")?;
        cut(tx, &side, 1)?;
        add(tx, &side, "t")?;
        assert_eq!(
            (history_text(tx, &main)?, history_text(tx, &side)?, history_text(tx, &leaf)?),
            ("abc".into(), "at".into(), "abcs".into())
        );
        cut(tx, &leaf, 2)?;
        add(tx, &leaf, "l")?;
        assert_eq!((history_text(tx, &main)?, history_text(tx, &leaf)?), ("abc".into(), "abl".into()));
        assert_eq!(messages::find(tx, &message("s"))?, None, "no history sees it any more");
        cut(tx, &main, 1)?;
        assert_eq!(
            (history_text(tx, &main)?, history_text(tx, &side)?, history_text(tx, &leaf)?),
            ("a".into(), "at".into(), "abl".into())
        );
        Ok(())
    });
}

fn items_that_no_history_sees_are_removed(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a", "b", "c", "d"])?;
        let side = fork(tx, &main, 2, "side")?;
        cut(tx, &main, 1)?;
        // The fork sees b; no other history saw c and d.
        assert_eq!((count(tx, "messages")?, count(tx, "progression_items")?), (2, 2));
        cut(tx, &side, 0)?;
        cut(tx, &main, 0)?;
        assert_eq!((count(tx, "messages")?, count(tx, "progression_items")?), (0, 0));
        assert_eq!(count(tx, "progressions")?, 2, "one for each branch");
        Ok(())
    });
}

fn a_session_is_removed_with_its_messages(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a", "b", "c"])?;
        let side = fork(tx, &main, 2, "side")?;
        add(tx, &side, "s")?;
        let pool = ProgressionRow::new(Some(&id("s")), at(1));
        progressions::insert(tx, &pool)?;
        sessions::set_pool(tx, &id("s"), &pool.id)?;
        for name in ["a", "b", "c", "s"] {
            progression_items::push(tx, &pool.id, &message(name))?;
        }
        // Another session has one of them too.
        sessions::insert(tx, &session("t"))?;
        let other = ProgressionRow::new(Some(&id("t")), at(1));
        progressions::insert(tx, &other)?;
        progression_items::push(tx, &other.id, &message("b"))?;
        progressions::remove_of(tx, &id("none"))?;
        assert!(remove_session(tx, &id("s"))?);
        let left: Vec<MessageId> = tx.all("SELECT id FROM messages", params![], |row| row.get(0))?;
        assert_eq!(left, [message("b")]);
        assert_eq!((count(tx, "branches")?, count(tx, "progressions")?), (0, 1));
        Ok(())
    });
}
