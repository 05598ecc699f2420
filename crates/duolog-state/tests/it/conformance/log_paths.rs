use duolog_state::owned::log_paths;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::with_session;
use crate::{home, id};

on_both_engines!(a_path_is_reserved_once);

fn a_path_is_reserved_once(place: &Place) {
    with_session(place, |tx| {
        assert!(log_paths::take(tx, &home(), "sessions/x/a.jsonl", &id("a"))?);
        assert!(!log_paths::take(tx, &home(), "sessions/x/a.jsonl", &id("a"))?);
        assert!(!log_paths::take(tx, &home(), "sessions/x/a.jsonl", &id("b"))?);
        assert!(log_paths::take(tx, &home(), "sessions/x/b.jsonl", &id("b"))?);
        Ok(())
    });
}
