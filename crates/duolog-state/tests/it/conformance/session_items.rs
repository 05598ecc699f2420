use duolog_state::owned::branches::{self, BranchRow, ForkPoint};
use duolog_state::owned::progressions::{self, ProgressionRow};
use duolog_state::owned::{progression_items, sessions};
use duolog_state::{Error, Tx};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{BranchId, Timestamp};

use super::{branch_of, insert_message, log_of, with_session};
use crate::{at, id, session};

on_both_engines!(the_view_shows_the_items_of_default_branches);

/// A position, the name of its session, and the message there.
type ItemOfView = (u64, Option<String>, Option<String>);

/// Returns the rows of the view for a session, in its own order.
fn view_rows(tx: &mut Tx<'_>) -> Result<Vec<ItemOfView>, Error> {
    let sql = "SELECT id, session_name, item_json FROM session_items ORDER BY session_name, id";
    tx.all(sql, &[], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

fn the_view_shows_the_items_of_default_branches(place: &Place) {
    with_session(place, |tx| {
        tx.execute("UPDATE sessions SET user_id = 'ada@example.com', name = 'plan' WHERE id = 's'", &[])?;
        let other = branch_of(tx, "other", &["a", "b", "c"])?;
        assert_eq!(view_rows(tx)?, [], "only default branches are shown");
        // The default branch continues a part of another branch: its history goes through two parents.
        let parent = progressions::get(tx, &other.progression_id)?;
        let middle = progressions::fork(tx, &parent, 2, at(2))?;
        let said = insert_message(tx, "m")?;
        progression_items::insert(tx, &middle.id, 2, &said)?;
        let mut middle: ProgressionRow = progressions::get(tx, &middle.id)?;
        let unseen = insert_message(tx, "n")?;
        progressions::append_new(tx, &mut middle, &[unseen])?;
        let head = progressions::fork(tx, &middle, 3, at(2))?;
        let last = insert_message(tx, "z")?;
        progression_items::insert(tx, &head.id, 3, &last)?;
        let row = BranchRow {
            id: BranchId::new(),
            progression_id: head.id,
            is_default: true,
            forked: Some(ForkPoint { parent: other.id.clone(), at_ord: 2, at_seq: 0 }),
            ..other
        };
        branches::insert(tx, &row)?;
        let plan = |ord, text: &str| (ord, Some("plan".to_owned()), Some(format!("{text:?}")));
        assert_eq!(view_rows(tx)?, [plan(0, "a"), plan(1, "b"), plan(2, "m"), plan(3, "z")]);
        let when = Timestamp::from_micros(1_748_376_662_839_999);
        tx.execute("UPDATE messages SET created_at = ?1 WHERE id = 'a'", duolog_state::params![when])?;
        let sql = "SELECT user_id, created_at FROM session_items WHERE id = 0";
        let first: Option<(String, i64)> = tx.find(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
        assert_eq!(first, Some(("ada@example.com".to_owned(), 1_748_376_662_839)));
        sessions::insert(tx, &session("t"))?;
        sessions::tombstone(tx, &id("s"), &log_of(&id("s")), at(9))?;
        assert_eq!(view_rows(tx)?, [], "a deleted session is not shown");
        Ok(())
    });
}
