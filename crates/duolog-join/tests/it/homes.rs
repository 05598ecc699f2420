use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use duolog_join::{Error, Join, prepare};
use duolog_state::owned::repairs;
use duolog_state::{Access, OpenState};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{HomeId, OperationId};

use crate::kit::{PROCESS, batch, join, limits, lines, open, open_at, put, rename, session};

on_both_engines!(
    only_its_home_uses_a_log_and_transitions_work_from_any_home,
    a_home_open_for_reading_repairs_and_folds_nothing
);

fn only_its_home_uses_a_log_and_transitions_work_from_any_home(place: &Place) {
    let owner = open(place);
    let id = session(&owner, "s");
    put(&owner, &id, "{}");
    // Another home that shares the state, like hosts that share a server.
    let disk = prepare(place.home()).unwrap().disk;
    let guest = join(place.options(), disk, HomeId::new(), limits()).unwrap();
    for refused in [guest.append(&id, &batch(&["{}"]), &PROCESS).map(drop), guest.fold(&id, u64::MAX).map(drop)] {
        let refused = refused.expect_err("not its log");
        assert!(matches!(&refused, Error::OtherHome { owner: named, .. } if *named == owner.home()), "{refused}");
        assert!(refused.to_string().contains(&owner.home().to_string()));
    }
    rename(&guest, &id, "from-afar").unwrap();
    assert_eq!(lines(&owner, &id).len(), 1, "the line stays in the outbox for its home");
    assert_eq!(owner.drain(&id).unwrap(), 1);
    assert!(lines(&owner, &id)[1].contains("from-afar"));
}

fn a_home_open_for_reading_repairs_and_folds_nothing(place: &Place) {
    let writer = open(place);
    let id = session(&writer, "s");
    put(&writer, &id, "{}");
    let file = place.home().join("sessions/threads/s.jsonl");
    let mut torn = std::fs::read(&file).unwrap();
    torn.extend_from_slice(b"{\"torn");
    std::fs::write(&file, &torn).unwrap();
    let prepared = prepare(place.home()).unwrap();
    let state = OpenState { access: Access::ReadOnly, ..place.options() };
    let reader = join(state, prepared.disk, prepared.id, limits()).unwrap();
    assert_eq!(lines(&reader, &id), ["{}"]);
    assert_eq!(reader.catch_up(u64::MAX).unwrap().bytes_behind, torn.len() as u64);
    assert!(matches!(reader.append(&id, &batch(&["{}"]), &PROCESS), Err(Error::ReadOnly)));
    assert!(matches!(reader.repair(&id), Err(Error::ReadOnly)));
    assert_eq!(std::fs::read(&file).unwrap(), torn);
    assert_eq!(writer.state().read(repairs::count).unwrap(), 0);
}

#[test]
fn a_backup_under_writers_has_everything_that_rows_name() {
    let dir = tempfile::tempdir().unwrap();
    let (home, copy) = (dir.path().join("home"), dir.path().join("copy"));
    let writer = open_at(&home);
    let ids: Vec<_> = (0..3).map(|n| session(&writer, &format!("s{n}"))).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..300 {
                for id in &ids {
                    put(&writer, id, &format!("{{\"n\":{n}}}"));
                }
                if n % 50 == 0 {
                    writer.catch_up(u64::MAX).unwrap();
                    rename(&writer, &ids[0], &format!("r{n}")).unwrap();
                }
            }
        });
        let prepared = duolog_join::prepare_copy(&copy, &home).unwrap();
        let done = open_at(&home).backup(&copy, &prepared.disk, |_| {}).unwrap();
        assert!(done.failed.is_empty(), "{done:?}");
    });
    let copied = open_at(&copy);
    assert_eq!(copied.catch_up(u64::MAX).unwrap().bytes_behind, 0);
    for id in &ids {
        assert_eq!(copied.standing_of(id).unwrap(), duolog_log::LogIdentity::Same);
        let verified = copied.verify(id, |_, _| {}).unwrap();
        assert_eq!((verified.damaged, verified.unsynced), (0, 0));
        put(&copied, id, "{\"after\":1}");
    }
    assert!(copied.state().integrity().unwrap().is_empty());
}

/// Whatever part of an operation's lines a backup has, it knows their operation.
#[test]
pub(crate) fn operations_retried_in_a_backup_are_done_once() {
    let dir = tempfile::tempdir().unwrap();
    let (home, copy) = (dir.path().join("home"), dir.path().join("copy"));
    let writer = open_at(&home);
    let id = session(&writer, "s");
    let append = |join: &Join, n: u32| {
        let operation = OperationId::parse(&format!("op-{n}")).unwrap();
        join.append_once(&id, &operation, &batch(&[&format!("{{\"n\":{n}}}")]), &PROCESS).unwrap();
    };
    let (count, copied) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !copied.load(Ordering::SeqCst) {
                append(&writer, count.fetch_add(1, Ordering::SeqCst));
            }
        });
        while count.load(Ordering::SeqCst) < 20 {
            std::thread::yield_now();
        }
        let prepared = duolog_join::prepare_copy(&copy, &home).unwrap();
        let done = open_at(&home).backup(&copy, &prepared.disk, |_| {}).unwrap();
        copied.store(true, Ordering::SeqCst);
        assert!(done.failed.is_empty(), "{done:?}");
    });
    let (copied, count) = (open_at(&copy), count.into_inner());
    (0..count).for_each(|n| append(&copied, n));
    let mut there = lines(&copied, &id);
    assert_eq!(there.len(), count as usize, "every line once");
    there.sort_unstable();
    there.dedup();
    assert_eq!(there.len(), count as usize, "every line once");
}
