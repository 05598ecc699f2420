use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::owned::sessions;
use duolog_state::{CheckpointReport, Error};
use duolog_types::{Durability, Epoch, Position};

use super::{add, checkpoint, count, home, open, session};

#[test]
fn a_copy_taken_while_writers_run_is_complete() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Each transaction inserts a session and its catalog row: a copy with only one of them is torn.
            for number in 0.. {
                if done.load(Ordering::SeqCst) {
                    break;
                }
                let row = session(&format!("s{number}"));
                let folded = CatalogRow {
                    events: 1,
                    bytes: 1,
                    ..CatalogRow::new(row.id.clone(), home(), Epoch(0), Position(1))
                };
                let written = state.write(Durability::Process, move |tx| {
                    sessions::insert(tx, &row)?;
                    catalog::advance(tx, None, &folded)
                });
                assert!(written.expect("writes"));
            }
        });
        for nth in 0..5 {
            let copy_dir = dir.path().join(format!("copy{nth}"));
            std::fs::create_dir(&copy_dir).expect("makes");
            let file = copy_dir.join("state.db");
            state.backup_to(&file).expect("copies");
            assert_eq!(file.metadata().expect("is there").permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read_dir(&copy_dir).expect("lists").count(), 1, "a copy is one file");
            assert!(matches!(state.backup_to(&file), Err(Error::Exists { .. })));
            let copy = open(&copy_dir);
            assert_eq!(copy.integrity().expect("checks"), Vec::<String>::new());
            let rows = copy.stats().expect("stats").rows;
            let rows_of = |table: &str| rows.iter().find(|(name, _)| name == table).map(|(_, count)| *count);
            assert_eq!(rows_of("sessions"), rows_of("catalog"));
        }
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn every_table_of_the_schema_is_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let tables: Vec<String> = state.read(|tx| tx.all(sql, &[], |row| row.get(0))).expect("reads");
    let counted = state.stats().expect("stats").rows.into_iter().map(|(table, _)| table);
    let mut counted: Vec<String> = counted.chain(["schema_meta".to_owned()]).collect();
    counted.sort();
    assert_eq!(counted, tables);
}

#[test]
fn a_log_that_has_grown_is_checkpointed() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let mut number = 0;
    while state.counters().checkpoints == 0 {
        assert!(number < 2000, "{:?}", state.counters());
        let mut row = session(&format!("s{number}"));
        row.node_metadata = Some("x".repeat(60_000));
        state.write(Durability::Process, move |tx| sessions::insert(tx, &row)).expect("writes");
        number += 1;
    }
    assert_eq!(state.counters().checkpoint_failures, 0);
    assert!(
        dir.path().join("state.db").metadata().expect("is there").len() > 2 << 20,
        "a page that was written twice is checkpointed once"
    );
    assert!(state.integrity().expect("checks").is_empty());
}

/// Pages are checkpointed while the writer runs, so the log is never reset by itself; in the end the writer does it.
#[test]
fn a_log_stays_bounded_under_continuous_writes() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let mut longest = 0;
    for number in 0..800 {
        let mut row = session(&format!("s{number}"));
        row.node_metadata = Some("x".repeat(65_000));
        state.write(Durability::Process, move |tx| sessions::insert(tx, &row)).expect("writes");
        longest = longest.max(dir.path().join("state.db-wal").metadata().expect("is there").len());
    }
    assert!(longest < 6000 * 4120, "{longest} bytes of log for {} bytes written", 800 * 65_000);
    assert_eq!((state.counters().checkpoint_failures, count(&state)), (0, 800));
    assert!(state.integrity().expect("checks").is_empty());
}

#[test]
fn a_checkpoint_truncates_the_log_and_returns_its_counts() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    add(&state, "a").expect("writes");
    let report = checkpoint(&state);
    assert!(!report.busy && report.wal_frames > 0 && report.moved == report.wal_frames, "{report:?}");
    let stats = state.stats().expect("stats");
    assert_eq!(stats.engine_stats.wal_bytes, Some(0));
    assert!(stats.engine_stats.bytes > 0 && stats.engine_stats.engine.starts_with("sqlite 3."), "{stats:?}");
    assert_eq!(checkpoint(&state), CheckpointReport { busy: false, wal_frames: 0, moved: 0 });
}

#[test]
fn a_checkpoint_that_a_reader_blocks_is_busy() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = duolog_state::OpenState::at(dir.path()).busy_timeout(std::time::Duration::from_millis(30));
    let state = duolog_state::State::open(options).expect("opens");
    let report = state
        .read(|tx| {
            tx.find("SELECT COUNT(*) FROM sessions", &[], |row| row.get::<u64>(0))?;
            add(&state, "a")?;
            Ok::<_, Error>(checkpoint(&state))
        })
        .expect("answers");
    assert!(report.busy, "{report:?}");
    assert!(!checkpoint(&state).busy);
}

#[test]
fn vacuum_shrinks_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    for number in 0..100 {
        let mut row = session(&format!("s{number}"));
        row.node_metadata = Some("x".repeat(60_000));
        state.write(Durability::Process, move |tx| sessions::insert(tx, &row)).expect("writes");
    }
    checkpoint(&state);
    let before = state.stats().expect("stats").engine_stats.bytes;
    state.write(Durability::Process, |tx| tx.execute("DELETE FROM sessions", &[])).expect("deletes");
    state.vacuum().expect("runs");
    assert!(state.stats().expect("stats").engine_stats.bytes < before / 10);
    add(&state, "a").expect("writes");
    assert_eq!(count(&state), 1);
}
