use duolog_state::owned::behind::{self, BehindRow};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{HomeId, ProcessId};

use super::with_session;
use crate::{at, home, id};

on_both_engines!(a_mark_is_cleared_only_by_the_burst_that_set_it);

fn a_mark_is_cleared_only_by_the_burst_that_set_it(place: &Place) {
    with_session(place, |tx| {
        let process = ProcessId::new();
        let mark = |generation| BehindRow {
            session_id: id("s"),
            process_id: process,
            home_id: home(),
            generation,
            pid: 7,
            marked_at: at(1),
        };
        behind::mark(tx, &mark(1))?;
        assert_eq!(behind::sessions_elsewhere(tx, &home())?, 0);
        assert_eq!(behind::sessions_elsewhere(tx, &HomeId::new())?, 1);
        behind::mark(tx, &mark(2))?;
        behind::mark(tx, &mark(1))?;
        assert_eq!(behind::of_session(tx, &id("s"))?, [mark(2)]);
        assert!(!behind::clear(tx, &id("s"), &process, 1)?);
        assert!(!behind::clear(tx, &id("s"), &ProcessId::new(), 2)?);
        assert_eq!(behind::of_home(tx, &home(), None, 9)?, [mark(2)]);
        assert_eq!(behind::of_home(tx, &home(), Some((&id("s"), &process)), 9)?, []);
        assert!(behind::clear(tx, &id("s"), &process, 2)?);
        // Given up twice: a fold that saw the first mark does not delete the second.
        for generation in [3, 4] {
            behind::mark(tx, &mark(generation))?;
            behind::hand_over(tx, &process, generation - 1)?;
            assert!(behind::is_marked(tx, &id("s"), &process)?, "a later burst");
            behind::hand_over(tx, &process, generation)?;
            assert!(!behind::is_marked(tx, &id("s"), &process)?);
        }
        let left = behind::of_session(tx, &id("s"))?;
        assert_eq!(
            left.iter().map(|row| (row.process_id, row.generation)).collect::<Vec<_>>(),
            [(ProcessId::NOBODY, 2)]
        );
        assert!(!behind::clear(tx, &id("s"), &ProcessId::NOBODY, 1)?);
        assert!(behind::clear(tx, &id("s"), &ProcessId::NOBODY, 2)?);
        for generation in [1, 2] {
            behind::mark_for_nobody(tx, &id("s"), &home(), at(3))?;
            let left = behind::of_session(tx, &id("s"))?;
            assert_eq!(left.iter().map(|row| row.generation).collect::<Vec<_>>(), [generation]);
        }
        behind::mark_all_for_nobody(tx, &home(), at(4))?;
        let left = behind::of_session(tx, &id("s"))?;
        assert_eq!(
            left.iter().map(|row| (row.process_id, row.generation)).collect::<Vec<_>>(),
            [(ProcessId::NOBODY, 3)]
        );
        assert_eq!(behind::sessions(tx, &home(), None)?, left.len() as u64);
        assert_eq!(behind::sessions(tx, &home(), Some(&id("s")))?, 0);
        assert_eq!(behind::sessions(tx, &HomeId::new(), None)?, 0);
        Ok(())
    });
}
