use duolog::doctor::{Depth, Status, Verdict};
use duolog::{Durability, ErrorKind, Home, Store, StoreOptions, WalCheckpoint};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, line, lines};

on_both_engines!(
    vacuum_returns_space,
    statistics_come_from_the_engine,
    a_failed_backup_leaves_nothing,
    a_backup_is_complete_or_refused_at_the_start
);

fn some_sessions(store: &Store) {
    for n in 0..20 {
        let session = store.sessions().open_thread(&format!("thread-{n}")).expect("made");
        store.log(&session.id).append(&line("{\"n\":1}"), Durability::Process).expect("appended");
    }
}

fn vacuum_returns_space(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    some_sessions(&store);
    let checkpoint = store.state().checkpoint().expect("runs");
    let vacuumed = store.state().vacuum().expect("runs");
    assert!(vacuumed.bytes_after > 0 && vacuumed.tables.contains(&"sessions".to_owned()), "{vacuumed:?}");
    match place.database() {
        None => {
            assert!(
                matches!(checkpoint, WalCheckpoint::Done(report) if !report.busy && report.moved == report.wal_frames)
            );
            assert!(!vacuumed.on_server && vacuumed.bytes_after <= vacuumed.bytes_before, "{vacuumed:?}");
        }
        Some(database) => {
            assert_eq!(checkpoint, WalCheckpoint::ManagedByServer);
            assert!(vacuumed.on_server);
            let analysed = "SELECT relname FROM pg_class WHERE relname = 'sessions' AND reltuples = 20";
            assert_eq!(
                database.run_sql(analysed).expect("answers"),
                "sessions",
                "the planner knows the number of rows"
            );
        }
    }
    assert_eq!(store.doctor().examine(Depth::Deep, |_| {}).expect("examines").verdict, Verdict::Ok);
}

fn statistics_come_from_the_engine(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    some_sessions(&store);
    let stats = store.state().stats().expect("figures");
    assert_eq!((stats.logs.files, stats.logs.events, stats.logs.bytes), (20, 20, 160));
    assert_eq!(stats.state.place, place.address().to_string());
    let figures = stats.state.engine_stats;
    assert!(figures.bytes > 0 && figures.unsafe_settings.is_empty(), "{figures:?}");
    let (engine, has_log) = match place.database() {
        None => ("sqlite ", true),
        Some(_) => ("postgresql ", false),
    };
    assert!(figures.engine.starts_with(engine), "{}", figures.engine);
    assert_eq!(figures.wal_bytes.is_some(), has_log);
}

fn a_failed_backup_leaves_nothing(place: &Place) {
    if place.database().is_some() {
        // A server is copied by its own tools.
        return;
    }
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made");
    store.log(&session.id).append(&line("{\"n\":1}"), Durability::Process).expect("appended");
    let copy = apart.directory.path().join("copy");
    let seen = |name: &str| copy.join(name).exists();
    let failed = store.state().backup(&copy, |_| {
        assert!(seen("state.partial") && !seen("state"), "it is not a home before it is complete");
        // Another program creates the directory while the copy is finished.
        std::fs::create_dir_all(copy.join("state/in-the-way")).expect("made");
    });
    assert!(failed.is_err());
    assert!(!seen("state.partial"), "a failed copy is removed");
    std::fs::remove_dir_all(&copy).expect("removed");
    // As after a kill.
    std::fs::create_dir_all(copy.join("state.partial")).expect("made");
    let refused = store.state().backup(&copy, |_| {}).expect_err("refused");
    assert!(refused.hint().is_some_and(|hint| hint.contains("state.partial")), "{refused}");
    std::fs::remove_dir(copy.join("state.partial")).expect("removed");
    store.state().backup(&copy, |_| {}).expect("copied");
    assert!(seen("state") && !seen("state.partial"));
}

fn a_backup_is_complete_or_refused_at_the_start(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made");
    store.log(&session.id).append(&line("{\"n\":1}"), Durability::Process).expect("appended");
    let copy = apart.directory.path().join("copy");
    let copied = store.state().backup(&copy, |_| {});
    if place.database().is_none() {
        assert_eq!(copied.expect("copied").logs, 1);
        let copied = Store::open(StoreOptions::at(Home::beneath(&copy))).expect("opens as a home");
        assert_eq!(lines(&copied, &session.id), ["{\"n\":1}"]);
        return;
    }
    let refused = copied.expect_err("a server is copied by its own tools");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("pg_dump"), "{refused}");
    assert!(!copy.exists());
}

/// The defaults of the server, the database or the role, before Duolog changes them, are what other clients rely on.
#[test]
fn doctor_warns_of_a_server_that_does_not_sync() {
    let place = Place::postgres();
    let database = place.database().expect("a server");
    let apart = Apart::of(&place);
    let engine = |store: &Store| {
        let report = store.doctor().examine(Depth::Deep, |_| {}).expect("examines");
        let check = report.checks.into_iter().find(|check| check.name == "engine").expect("a check");
        (report.verdict, check)
    };
    let (verdict, check) = engine(&apart.open());
    assert_eq!((verdict, check.status), (Verdict::Ok, Status::Ok), "{}", check.detail);
    assert!(check.detail.starts_with("postgresql 1"), "{}", check.detail);
    database.run_sql(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.name())).expect("set");
    let (verdict, check) = engine(&apart.open());
    assert_eq!((verdict, check.status), (Verdict::Warnings, Status::Warning), "{}", check.detail);
    assert!(check.detail.contains("synchronous_commit is off") && check.hint.is_some(), "{}", check.detail);
}
