use duolog_state::ConstraintKind;
use duolog_state::owned::branches::{self, BranchRow, DefaultRow, ForkPoint};
use duolog_state::owned::pool_segments::{self, PoolSegmentRow};
use duolog_state::owned::progressions::{self, ProgressionRow};
use duolog_state::owned::sessions::{self, PoolRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::METADATA_BYTES_MAX;
use duolog_types::{BranchId, ProgressionId};

use super::{branch_of, insert_message, is_constraint, log_of, message, with_session};
use crate::{at, id};

on_both_engines!(a_branch_reads_back_as_inserted, a_session_has_one_default_branch);

fn a_branch_reads_back_as_inserted(place: &Place) {
    with_session(place, |tx| {
        let main = branch_of(tx, "main", &["a"])?;
        assert_eq!(branches::find(tx, &main.id)?, Some(main.clone()));
        let own = ProgressionRow::new(Some(&id("s")), at(1));
        progressions::insert(tx, &own)?;
        let side = BranchRow {
            id: BranchId::new(),
            created_at: at(2),
            node_metadata: Some("{\"model\":\"m\"}".to_owned()),
            user_id: Some("ada".to_owned()),
            name: Some("main".to_owned()),
            progression_id: own.id.clone(),
            forked: Some(ForkPoint { parent: main.id.clone(), at_ord: 1, at_seq: 2 }),
            ..main.clone()
        };
        branches::insert(tx, &side)?;
        assert_eq!(branches::find(tx, &side.id)?, Some(side.clone()));
        assert!(branches::describe(tx, &side.id, Some("other"), None, None)?);
        let other = BranchRow { name: Some("other".to_owned()), user_id: None, node_metadata: None, ..side.clone() };
        assert_eq!(branches::find(tx, &side.id)?, Some(other));
        assert!(branches::describe(tx, &side.id, Some("main"), Some("ada"), Some("{\"model\":\"m\"}"))?);
        assert!(!branches::describe(tx, &BranchId::new(), None, None, None)?);
        assert_eq!(branches::list(tx, &id("s"), None, 9)?, [side.clone(), main.clone()]);
        assert_eq!(branches::list(tx, &id("s"), Some(&side.id), 9)?, std::slice::from_ref(&main));
        assert_eq!(branches::forks(tx, &id("s"), None, None, 9)?, std::slice::from_ref(&main));
        assert_eq!(branches::forks(tx, &id("s"), Some(&main.id), None, 9)?, std::slice::from_ref(&side));
        assert_eq!(branches::forks(tx, &id("s"), Some(&main.id), Some(&side.id), 9)?, []);
        assert_eq!((branches::count(tx, &id("s"))?, branches::count(tx, &id("none"))?), (2, 0));
        let whole = side.id.to_string();
        assert_eq!(branches::starting_with(tx, None, &whole, 9)?, std::slice::from_ref(&side.id));
        assert_eq!(branches::starting_with(tx, Some(&id("s")), &whole, 9)?, std::slice::from_ref(&side.id));
        assert_eq!(branches::starting_with(tx, Some(&id("none")), &whole, 9)?, []);
        assert_eq!(branches::starting_with(tx, None, "%", 9)?, []);
        assert_eq!(branches::named(tx, &id("s"), "main", 9)?, [side.id.clone(), main.id.clone()]);
        assert_eq!(branches::named(tx, &id("s"), "none", 9)?, []);
        insert_message(tx, "system")?;
        assert!(branches::set_system(tx, &side.id, &message("system"))?);
        assert!(!branches::set_system(tx, &side.id, &message("a"))?, "it has a system message");
        assert_eq!(branches::find(tx, &side.id)?.and_then(|row| row.system_msg_id), Some(message("system")));
        let next = ProgressionRow::new(Some(&id("s")), at(1));
        progressions::insert(tx, &next)?;
        branches::follow(tx, &own.id, &next.id)?;
        assert!(branches::is_at(tx, &next.id)? && !branches::is_at(tx, &own.id)?);
        let wrong = [
            (BranchRow { progression_id: next.id.clone(), ..new(&main) }, ConstraintKind::Unique),
            (BranchRow { progression_id: ProgressionId::new(), ..new(&main) }, ConstraintKind::ForeignKey),
            (
                BranchRow { session_id: id("none"), progression_id: own.id.clone(), ..new(&main) },
                ConstraintKind::ForeignKey,
            ),
            (
                BranchRow {
                    node_metadata: Some("x".repeat(METADATA_BYTES_MAX + 1)),
                    progression_id: own.id.clone(),
                    ..new(&main)
                },
                ConstraintKind::Check,
            ),
        ];
        for (row, kind) in wrong {
            let refused = tx.savepoint(|tx| branches::insert(tx, &row));
            assert!(is_constraint(&refused, kind), "{refused:?}");
        }
        Ok(())
    });
}

fn new(like: &BranchRow) -> BranchRow {
    BranchRow { id: BranchId::new(), ..like.clone() }
}

fn a_session_has_one_default_branch(place: &Place) {
    with_session(place, |tx| {
        assert_eq!(branches::find_default(tx, &id("none"))?, None);
        let pool = PoolRow { deleted: false, progression_id: None };
        let nothing = DefaultRow { pool: pool.clone(), last: None, branch: None };
        assert_eq!(branches::find_default(tx, &id("s"))?, Some(nothing));
        let mut rows = Vec::new();
        for _ in 0..2 {
            let own = ProgressionRow::new(Some(&id("s")), at(1));
            progressions::insert(tx, &own)?;
            rows.push(BranchRow {
                progression_id: own.id,
                is_default: true,
                ..new(&branch_of(tx, BranchId::new().as_str(), &[])?)
            });
        }
        branches::insert(tx, &rows[0])?;
        let head = progressions::get(tx, &rows[0].progression_id)?;
        let branch = Some((rows[0].clone(), head));
        let found = DefaultRow { pool, last: None, branch: branch.clone() };
        assert_eq!(branches::find_default(tx, &id("s"))?, Some(found));
        let pool = branch_of(tx, "pool", &["a", "b"])?.progression_id;
        sessions::set_pool(tx, &id("s"), &pool)?;
        for (ord, to_ord) in [(0, Some(1)), (1, None)] {
            let row = PoolSegmentRow { ord, progression_id: pool.clone(), from_ord: ord, to_ord };
            pool_segments::insert(tx, &id("s"), &row)?;
        }
        let last = pool_segments::last(tx, &id("s"))?;
        assert!(last.is_some());
        sessions::tombstone(tx, &id("s"), &log_of(&id("s")), at(2))?;
        let pool = PoolRow { deleted: true, progression_id: Some(pool) };
        assert_eq!(branches::find_default(tx, &id("s"))?, Some(DefaultRow { pool, last, branch }));
        let second = tx.savepoint(|tx| branches::insert(tx, &rows[1]));
        assert!(is_constraint(&second, ConstraintKind::Unique));
        Ok(())
    });
}
