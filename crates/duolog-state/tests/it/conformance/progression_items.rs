use duolog_state::owned::messages::{self, Content, MessageRow};
use duolog_state::owned::progression_items;
use duolog_state::{ConstraintKind, params};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::MessageId;

use super::{branch_of, insert_message, is_constraint, message, with_session};
use crate::at;

on_both_engines!(
    items_are_at_the_positions_where_they_were_inserted,
    many_items_are_inserted_at_consecutive_positions,
    an_unreadable_item_does_not_hide_others,
    the_last_items_are_found_by_the_primary_key
);

fn items_are_at_the_positions_where_they_were_inserted(place: &Place) {
    with_session(place, |tx| {
        let branch = branch_of(tx, "b", &["x", "y"])?;
        let at_b = &branch.progression_id;
        let other = branch_of(tx, "o", &[])?.progression_id;
        insert_message(tx, "z")?;
        assert_eq!(progression_items::push(tx, at_b, &message("z"))?, 2);
        assert_eq!(progression_items::push(tx, at_b, &message("z"))?, 2, "a message is added once");
        assert_eq!(progression_items::push(tx, &other, &message("z"))?, 0);
        let taken = tx.savepoint(|tx| progression_items::insert(tx, at_b, 0, &message("z")));
        assert!(is_constraint(&taken, ConstraintKind::Unique));
        let twice = tx.savepoint(|tx| progression_items::insert(tx, at_b, 9, &message("z")));
        assert!(is_constraint(&twice, ConstraintKind::Unique));
        let dangling = tx.savepoint(|tx| progression_items::insert(tx, at_b, 9, &message("none")));
        assert!(is_constraint(&dangling, ConstraintKind::ForeignKey));
        assert_eq!(progression_items::ord_of(tx, at_b, &message("y"))?, Some(1));
        assert_eq!(progression_items::ord_of(tx, &other, &message("y"))?, None);
        assert_eq!(progression_items::ids(tx, at_b, 1, 9)?, [message("y"), message("z")]);
        assert_eq!(progression_items::ids(tx, at_b, 3, 9)?, []);
        assert_eq!(progression_items::tail(tx, at_b, 1, 9)?, [(2, message("z")), (1, message("y"))]);
        assert_eq!(progression_items::tail(tx, at_b, 0, 1)?, [(2, message("z"))]);
        assert_eq!(progression_items::places(tx, &message("z"))?.len(), 2);
        let ords = |rows: Vec<progression_items::ItemRow>| rows.iter().map(|row| row.ord).collect::<Vec<_>>();
        assert_eq!(ords(progression_items::newest(tx, at_b, 0, 3, 2)?), [2, 1]);
        assert_eq!(ords(progression_items::newest(tx, at_b, 1, 2, 9)?), [1]);
        assert_eq!(ords(progression_items::oldest(tx, at_b, 1, 3, 9)?), [1, 2]);
        let mut lent = Vec::new();
        progression_items::each(tx, at_b, (1, 3), &mut |item| {
            lent.push((item.ord, item.message_id.to_owned(), item.content.is_ok()));
            Ok(())
        })?;
        assert_eq!(lent, [(1, "y".to_owned(), true), (2, "z".to_owned(), true)]);
        tx.execute("UPDATE messages SET compactable = 0 WHERE id = 'y'", &[])?;
        assert_eq!(progression_items::count_compactable(tx, at_b, 0, 3)?, 2);
        assert_eq!(progression_items::count_compactable(tx, at_b, 1, 2)?, 0);
        assert_eq!(progression_items::delete_from(tx, at_b, 1)?, 2);
        assert_eq!(progression_items::tail(tx, at_b, 0, 9)?, [(0, message("x"))]);
        Ok(())
    });
}

fn many_items_are_inserted_at_consecutive_positions(place: &Place) {
    with_session(place, |tx| {
        let branch = branch_of(tx, "b", &["x"])?.progression_id;
        // More than fit into one statement, and not a multiple of it.
        let ids: Vec<MessageId> = (0..150).map(|number| message(&format!("m-{number}"))).collect();
        let row = |id: &MessageId| MessageRow::new(id.clone(), "user", Content::Text("1".to_owned()), at(1));
        let rows: Vec<MessageRow> = ids.iter().map(row).collect();
        messages::add(tx, &rows)?;
        messages::add(tx, &[])?;
        progression_items::insert_all(tx, &branch, 1, &ids)?;
        progression_items::insert_all(tx, &branch, 151, &[])?;
        assert_eq!(progression_items::ids(tx, &branch, 1, 999)?, ids);
        assert_eq!(progression_items::from(tx, &branch, 149, 1)?, [(149, ids[148].clone())]);
        assert_eq!(progression_items::from(tx, &branch, 150, 9)?, [(150, ids[149].clone())]);
        assert_eq!(messages::find(tx, &ids[149])?.as_ref(), rows.last());
        let taken = tx.savepoint(|tx| messages::add(tx, &rows[..20]));
        assert!(is_constraint(&taken, ConstraintKind::Unique));
        Ok(())
    });
}

fn an_unreadable_item_does_not_hide_others(place: &Place) {
    with_session(place, |tx| {
        let branch = branch_of(tx, "b", &["x", "y", "z"])?;
        // A blob with an invalid home id: the length is right, the characters are not.
        let sql = "UPDATE messages SET content = NULL, content_blob = ?2, home_id = ?3 WHERE id = ?1";
        tx.execute(sql, params![&message("y"), "g".repeat(64), "g".repeat(36)])?;
        let rows = progression_items::newest(tx, &branch.progression_id, 0, 3, 9)?;
        let read: Vec<_> = rows.iter().map(|row| (row.ord, row.content.is_ok())).collect();
        assert_eq!(read, [(2, true), (1, false), (0, true)]);
        assert!(rows[1].content.as_ref().is_err_and(|detail| detail.contains("home_id")), "{:?}", rows[1]);
        Ok(())
    });
}

fn the_last_items_are_found_by_the_primary_key(place: &Place) {
    with_session(place, |tx| {
        let branch = branch_of(tx, "b", &["x"])?;
        let plan = progression_items::explain_newest(tx, &branch.progression_id)?.join("\n");
        // SQLite names the index in its plan; a server may scan a table this small.
        let by_key = plan.contains("PRIMARY KEY (progression_id=? AND ord>? AND ord<?)");
        assert!(by_key || plan.contains("progression_items"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        Ok(())
    });
}
