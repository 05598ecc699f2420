use duolog_state::ConstraintKind;
use duolog_state::owned::compactions::{self, CompactionEntry, CompactionRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{branch_of, insert_message, is_constraint, message, with_session};
use crate::at;

on_both_engines!(compactions_of_a_branch_are_listed_newest_first);

fn compactions_of_a_branch_are_listed_newest_first(place: &Place) {
    with_session(place, |tx| {
        let branch = branch_of(tx, "b", &["x", "y"])?.id;
        insert_message(tx, "summary")?;
        assert_eq!(compactions::last_seq(tx, &branch)?, 0);
        let row = |seq, from_ord, to_ord, entry| CompactionRow {
            branch_id: branch.clone(),
            seq,
            from_ord,
            to_ord,
            entry,
            created_at: at(1),
        };
        let summary = |covers_all| CompactionEntry::Summary { message: message("summary"), covers_all };
        let undone = CompactionEntry::Undone { branch: branch.clone(), seq: 1 };
        let rows = [row(1, 0, 2, summary(true)), row(2, 0, 1, summary(false)), row(3, 0, 2, undone)];
        for row in &rows {
            compactions::insert(tx, row)?;
        }
        let [first, second, third] = rows;
        assert_eq!(compactions::last_seq(tx, &branch)?, 3);
        assert_eq!(compactions::oldest(tx, &branch, 0, 9)?, [first.clone(), second.clone(), third.clone()]);
        assert_eq!(compactions::oldest(tx, &branch, 1, 1)?, std::slice::from_ref(&second));
        assert_eq!(compactions::find(tx, &branch, 3)?, Some(third.clone()));
        assert_eq!(compactions::find(tx, &branch, 4)?, None);
        assert_eq!(compactions::newest(tx, &branch, 9, 9, 2)?, [third, second.clone()]);
        assert_eq!(compactions::newest(tx, &branch, 2, 9, 9)?, [second.clone(), first.clone()]);
        assert_eq!(compactions::newest(tx, &branch, 9, 1, 9)?, [second], "rows that end after it are left out");
        let wrong = [
            (first, ConstraintKind::Unique),
            (row(4, 1, 1, summary(true)), ConstraintKind::Check),
            (row(0, 0, 1, summary(true)), ConstraintKind::Check),
            (
                row(4, 0, 1, CompactionEntry::Summary { message: message("none"), covers_all: true }),
                ConstraintKind::ForeignKey,
            ),
        ];
        for (row, kind) in wrong {
            let refused = tx.savepoint(|tx| compactions::insert(tx, &row));
            assert!(is_constraint(&refused, kind), "{refused:?}");
        }
        Ok(())
    });
}
