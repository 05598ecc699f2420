use std::io::Cursor;

use duolog::errors::{Conflict, Invalid};
use duolog::sessions::{AddOptions, BranchRef, HistoryView, NewFork, NewSession};
use duolog::{Durability, Error, SessionId, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::Apart;

/// Processes that are killed while they change branches.
mod killed;
/// The steps on branches, and their expected result.
mod model;

on_both_engines!(any_interleaving_equals_a_model_in_memory, concurrent_changes_keep_every_history_complete);

const DURABILITY: Durability = Durability::Process;

fn rows_of(store: &Store, table: &str) -> u64 {
    let rows = store.state().stats().expect("figures").state.rows;
    rows.into_iter().find(|(name, _)| name == table).expect("a table").1
}

/// Checks that nothing is left of the conversations of a deleted session.
fn check_nothing_is_left(store: &Store) {
    for table in ["messages", "progressions", "progression_items", "pool_segments", "branches", "compactions"] {
        assert_eq!(rows_of(store, table), 0, "{table}");
    }
}

fn any_interleaving_equals_a_model_in_memory(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let cases = if place.database().is_some() { 16 } else { 400 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    // From time to time the test continues with a copy from a document.
    let step = prop_oneof![24 => model::step().prop_map(Some), 1 => Just(None)];
    let ran = runner.run(&prop::collection::vec(step, 1..40), |steps| {
        let session = store.sessions().create(&NewSession::default()).expect("made").id;
        let mut model = model::Model::default();
        for step in &steps {
            let Some((at, step)) = step else {
                move_by_document(&store, &session);
                assert_eq!(model::messages(&store, &session), model.messages());
                continue;
            };
            let outcome = model.ask(&store, &session, *at, step);
            assert_eq!(outcome, model.apply(*at, step));
            // All branches are compared after each step.
            assert_eq!(model::shown(&store, &session), model.shown());
            model.check_parts(&store, &session);
        }
        let kept = model.messages();
        assert_eq!(rows_of(&store, "messages"), kept.len() as u64);
        assert_eq!(model::messages(&store, &session), kept);
        store.sessions().delete(&session).expect("deleted");
        check_nothing_is_left(&store);
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
}

fn move_by_document(store: &Store, session: &SessionId) {
    let mut document = Vec::new();
    store.sessions().export(session, &mut document).expect("exported");
    store.sessions().delete(session).expect("deleted");
    check_nothing_is_left(store);
    store.sessions().import(Cursor::new(document.clone())).expect("imported");
    let mut again = Vec::new();
    store.sessions().export(session, &mut again).expect("exported");
    // The log of the deleted session had its own epoch, which no other log may have.
    let ((before, document), (after, again)) = (without_epoch(&document), without_epoch(&again));
    assert_eq!(again, document);
    assert!(after > before, "epoch {after} after {before}");
}

/// The epoch of the log in a session's document, and the document without it.
fn without_epoch(document: &[u8]) -> (u64, String) {
    let document = String::from_utf8(document.to_vec()).expect("UTF-8");
    let (head, rest) = document.split_once("\"log_epoch\":").expect("an epoch");
    let (epoch, tail) = rest.split_once(',').expect("more members");
    (epoch.parse().expect("a number"), format!("{head}{tail}"))
}

/// Forks while others add, cut and summarise: a later change sees the earlier ones.
fn concurrent_changes_keep_every_history_complete(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().create(&NewSession::default()).expect("made").id;
    let add = |branch: &BranchRef, item: &str| {
        let options = AddOptions { durability: DURABILITY, ..AddOptions::default() };
        store.sessions().items(&session).on(branch.clone()).add(&[item, item, item], &options).expect("added");
    };
    add(&BranchRef::Default, "0");
    let work = |number: usize| {
        let sessions = store.sessions();
        let mut branch = BranchRef::Default;
        for round in 0..12 {
            let items = sessions.items(&session).on(branch.clone());
            match (number + round) % 4 {
                0 => add(&branch, &format!("[{number},{round}]")),
                1 => drop(items.pop(DURABILITY).expect("popped")),
                2 => {
                    let new = NewFork { from: branch.clone(), ..NewFork::default() };
                    let forked = sessions.branches(&session).fork(new, DURABILITY).expect("forked").id;
                    branch = if round % 3 == 0 { BranchRef::Default } else { (&forked).into() };
                }
                _ => {
                    // Another thread may have cut or summarised the range since it was chosen.
                    let made = sessions.compaction(&session, branch.clone()).compact(Some(0..2), "\"s\"", DURABILITY);
                    let is_refused = matches!(
                        made,
                        Err(Error::Invalid(Invalid::PastEnd { .. }) | Error::Conflict(Conflict::RangeCrosses { .. }))
                    );
                    assert!(made.is_ok() || is_refused, "{made:?}");
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || work(number));
        }
    });
    let branches = store.sessions().branches(&session).list(None, 200).expect("lists");
    assert!(branches.len() > 8, "{}", branches.len());
    for branch in branches {
        let items = store.sessions().items(&session).on((&branch.id).into());
        let list = items.latest(1000, HistoryView::Full).expect("reads");
        assert!(list.broken.is_empty(), "{:?}", list.broken);
        let ords: Vec<u64> = list.items.iter().filter_map(|item| item.ord).collect();
        assert_eq!(ords, (0..branch.items).collect::<Vec<_>>(), "ordinals have no gaps");
        assert!(items.latest(1000, HistoryView::Context).expect("reads").broken.is_empty());
    }
    store.sessions().delete(&session).expect("deleted");
    assert_eq!((rows_of(&store, "messages"), rows_of(&store, "progressions")), (0, 0));
}
