use std::sync::{Arc, Barrier};

use duolog_join::{Error, Join, OpenJoin, prepare};
use duolog_state::derived::catalog;
use duolog_state::owned::operations::OperationRow;
use duolog_state::owned::{behind, operations, sessions};
use duolog_state::params;
use duolog_testkit::clock::FixedClock;
use duolog_testkit::engines::Place;
use duolog_testkit::{SimDisk, on_both_engines};
use duolog_types::limits::{Limits, OPERATIONS_KEPT_MIN};
use duolog_types::{Clock as _, Durability, HomeId, OperationId, SessionId, SystemClock};

use crate::kit::{PROCESS, batch, join, limits, lines, open, open_with, put, session};

on_both_engines!(
    open_logs_return_to_their_limit,
    a_closed_log_gives_up_its_mark,
    an_idle_fold_costs_the_same_for_any_number_of_logs,
    rows_of_a_log_over_the_budget_are_rebuilt_in_parts,
    operations_expire_after_thirty_days_in_bounded_numbers,
    a_wrong_clock_deletes_no_recent_operation,
    an_epoch_of_a_deleted_session_is_not_raised,
);

fn few_open() -> Limits {
    Limits { open_logs_max: 2, ..limits() }
}

fn marks_of(join: &Join) -> Vec<SessionId> {
    let marks = join.state().read(|tx| behind::of_home(tx, &join.home(), None, 999)).unwrap();
    marks.into_iter().filter(|mark| mark.process_id == join.process()).map(|mark| mark.session_id).collect()
}

/// Returns the number of logs that this process has open.
fn open_files(place: &Place) -> usize {
    let open =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let home = place.home().canonicalize().unwrap();
    open.filter(|path| path.starts_with(&home) && path.extension().is_some_and(|end| end == "jsonl")).count()
}

fn open_logs_return_to_their_limit(place: &Place) {
    let join = open_with(place, few_open());
    let ids: Vec<SessionId> = (0..12).map(|n| session(&join, &format!("s-{n}"))).collect();
    // All of them are in use at once, so none can be closed to make room for another.
    let start = Barrier::new(ids.len());
    std::thread::scope(|scope| {
        for id in &ids {
            let (join, start) = (&join, &start);
            scope.spawn(move || {
                start.wait();
                (0..20).for_each(|_| put(join, id, "{}"));
            });
        }
    });
    join.fold_own(u64::MAX).unwrap();
    assert!(open_files(place) <= 2, "{} logs are open", open_files(place));
    assert_eq!(marks_of(&join), [], "closed logs are folded too");
    for id in &ids {
        assert_eq!(lines(&join, id).len(), 20);
    }
}

fn a_closed_log_gives_up_its_mark(place: &Place) {
    let (join, other) = (open(place), open(place));
    let id = session(&join, "s");
    put(&join, &id, "{}");
    join.remove_log(&id, None).unwrap();
    join.fold_own(u64::MAX).unwrap();
    assert!(marks_of(&join).is_empty(), "{:?}", marks_of(&join));
    other.catch_up(u64::MAX).unwrap();
    assert!(other.state().read(|tx| behind::of_session(tx, &id)).unwrap().is_empty());
}

fn an_idle_fold_costs_the_same_for_any_number_of_logs(place: &Place) {
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let process = || join(place.options(), disk.process().as_disk(), home, few_open()).unwrap();
    let (owner, reader) = (process(), process());
    let mut costs = Vec::new();
    for n in 0..40 {
        let id = session(&owner, &format!("s-{n:02}"));
        put(&owner, &id, "{}");
        // As the thread of a long-lived process does.
        owner.fold_own(u64::MAX).unwrap();
        reader.catch_up(u64::MAX).unwrap();
        let before = disk.call_count();
        assert_eq!(reader.catch_up(u64::MAX).unwrap().sessions_behind, 0);
        costs.push(disk.call_count() - before);
    }
    assert_eq!(costs[5], costs[39], "{costs:?}");
}

fn rows_of_a_log_over_the_budget_are_rebuilt_in_parts(place: &Place) {
    let join = open_with(place, Limits { fold_batch_bytes: 32, ..limits() });
    let id = session(&join, "s");
    (0..40).for_each(|n| put(&join, &id, &format!("{{\"n\":{n}}}")));
    join.catch_up(u64::MAX).unwrap();
    let row = |join: &Join| join.state().read(|tx| catalog::get(tx, &id)).unwrap().unwrap();
    let before = row(&join);
    let aged = join.state().write(Durability::Process, |tx| {
        tx.execute("UPDATE catalog SET fold_version = 0", params![])?;
        tx.execute("DELETE FROM digests", params![])
    });
    aged.unwrap();
    let mut looks = 0;
    while join.catch_up(64).unwrap().bytes_behind > 0 {
        looks += 1;
        assert!(looks < 40, "it is never rebuilt: {:?}", row(&join));
    }
    assert!(looks > 2, "each fold reads a part");
    assert_eq!(row(&join), before);
}

const DAY: i64 = 24 * 3600 * 1_000_000;

/// Opens a home with a clock that is off by this time.
fn open_off_by(place: &Place, micros: i64) -> Arc<Join> {
    let prepared = prepare(place.home()).unwrap();
    Join::open(OpenJoin {
        state: place.options(),
        disk: prepared.disk,
        home: prepared.id,
        limits: limits(),
        clock: Arc::new(FixedClock::at(SystemClock.now().as_micros() + micros)),
        boot: "boot".to_owned(),
    })
    .unwrap()
}

/// Inserts as many operations as are always kept, with the time of this clock.
fn add_kept(join: &Join) {
    let created_at = join.clock().now();
    let added = join.state().write(Durability::Process, move |tx| {
        for n in 0..OPERATIONS_KEPT_MIN {
            let operation_id = OperationId::parse(&format!("kept-{n}")).unwrap();
            operations::insert(
                tx,
                &OperationRow {
                    scope: "kept".to_owned(),
                    operation_id,
                    request_hash: [0; 32],
                    answer: Some("{}".to_owned()),
                    created_at,
                    session_id: None,
                    lines_done: 0,
                    place: None,
                },
            )?;
        }
        Ok::<_, duolog_state::Error>(())
    });
    added.unwrap();
}

fn a_wrong_clock_deletes_no_recent_operation(place: &Place) {
    let first = open_off_by(place, 0);
    let id = session(&first, "s");
    let name = |text: &str| OperationId::parse(text).unwrap();
    let append = |join: &Join, text: &str| join.append_once(&id, &name(text), &batch(&["{}"]), &PROCESS).unwrap();
    append(&first, "right");
    // One clock is 40 days ahead, another 40 days behind; each opens the home and writes.
    append(&open_off_by(place, 40 * DAY), "ahead");
    append(&open_off_by(place, -40 * DAY), "behind");
    // An operation from the clock that is behind is one of the newest, however many there are.
    add_kept(&open_off_by(place, -41 * DAY));
    append(&open_off_by(place, -80 * DAY), "far-behind");
    for off in [0, 40 * DAY, -40 * DAY, 0, 4000 * DAY] {
        append(&open_off_by(place, off), "far-behind");
    }
    for text in ["ahead", "behind"] {
        append(&first, text);
    }
    assert_eq!(lines(&first, &id).len(), 4, "each operation is done once");
}

fn operations_expire_after_thirty_days_in_bounded_numbers(place: &Place) {
    let at = |micros| open_off_by(place, micros);
    let first = at(0);
    let id = session(&first, "s");
    let name = |n: usize| OperationId::parse(&format!("op-{n}")).unwrap();
    let many = 1100;
    for n in 0..many {
        first.append_once(&id, &name(n), &batch(&["{}"]), &PROCESS).unwrap();
    }
    let left = |join: &Join| {
        let scope = format!("log/{id}");
        (0..many).filter(|n| join.state().read(|tx| operations::find(tx, &scope, &name(*n))).unwrap().is_some()).count()
    };
    let before = at(29 * DAY);
    assert_eq!(left(&before), many);
    before.append_once(&id, &name(0), &batch(&["{}"]), &PROCESS).unwrap();
    assert_eq!(lines(&before, &id).len(), many, "a retry within the time");
    assert_eq!(left(&at(31 * DAY)), many, "the newest are kept, however old they are");
    add_kept(&at(31 * DAY));
    assert_eq!(left(&at(31 * DAY)), many - 1024, "a bounded number at a time");
    let after = at(31 * DAY);
    assert_eq!(left(&after), 0);
    after.append_once(&id, &name(0), &batch(&["{}"]), &PROCESS).unwrap();
    assert_eq!(lines(&after, &id).len(), many + 1, "after that it is a new operation");
}

fn an_epoch_of_a_deleted_session_is_not_raised(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{}");
    let row = join.state().read(|tx| sessions::find(tx, &id)).unwrap().unwrap();
    let (gone, path, at) = (id.clone(), row.log_path, join.clock().now());
    // Like a deletion that died before it removed the file.
    let marked = place.open().write(Durability::Power, move |tx| sessions::tombstone(tx, &gone, &path, at));
    assert!(marked.unwrap());
    assert!(matches!(join.remove_log(&id, None), Err(Error::Deleted(_))));
    let raised = place.open().write(Durability::Power, {
        let id = id.clone();
        move |tx| sessions::raise_epoch(tx, &id, row.log_epoch)
    });
    assert!(!raised.unwrap(), "its epochs are never used again");
}
