use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use duolog_state::{Error, Migrate, OpenState, State, known_version};

use super::{add, children, count, open};

/// Changes a database through SQLite, without the store.
fn sql(dir: &Path, statements: &str) {
    let other = rusqlite::Connection::open(dir.join("state.db")).expect("opens");
    other.execute_batch(statements).expect("runs");
}

fn opening(options: OpenState) -> Result<(), Error> {
    State::open(options).map(drop)
}

#[test]
fn a_new_state_is_private_and_current() {
    let dir = tempfile::tempdir().expect("a directory");
    let below = dir.path().join("deep/below");
    let state = open(&below);
    assert_eq!(state.schema_version(), known_version());
    for name in ["state.db", "state.lock", "state.db-wal", "state.db-shm"] {
        let mode = below.join(name).metadata().expect(name).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let show = |name: &str| {
        let settings = state.stats().expect("stats").engine_stats.settings;
        settings.into_iter().find(|(setting, _)| setting == name).map(|(_, value)| value).expect("shown")
    };
    for (name, value) in [
        ("journal_mode", "wal"),
        ("synchronous", "FULL for power, NORMAL for process"),
        ("foreign_keys", "1"),
        ("busy_timeout", "5000"),
        ("wal_autocheckpoint", "2000"),
        ("journal_size_limit", "67108864"),
        ("mmap_size", "0"),
        ("trusted_schema", "0"),
    ] {
        assert_eq!(show(name), value, "{name}");
    }
}

/// Returns a directory below `dir` whose database has a path of that many bytes.
fn deep(dir: &Path, bytes: usize) -> std::path::PathBuf {
    let mut deep = dir.canonicalize().expect("is there");
    let left = |deep: &Path| bytes - deep.as_os_str().len() - "/state.db".len();
    while left(&deep) > 200 {
        deep.push("d".repeat(100));
    }
    deep.push("e".repeat(left(&deep) - 1));
    deep
}

#[test]
fn a_path_that_is_too_long_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let longest = deep(dir.path(), 504);
    let state = open(&longest);
    add(&state, "a").expect("writes");
    state.checkpoint().expect("runs");
    drop(state);
    assert_eq!(count(&open(&longest)), 1);
    let longer = deep(dir.path(), 505);
    for options in [OpenState::at(&longer), OpenState::at(&longer).read_only()] {
        let answer = opening(options);
        let text = answer.as_ref().map_err(ToString::to_string);
        assert!(matches!(answer, Err(Error::PathTooLong { bytes: 505, max: 504, .. })), "{answer:?}");
        assert!(text.is_err_and(|text| text.contains("has 505 bytes, and SQLite takes at most 504")));
    }
    assert!(!longer.exists(), "nothing was created there");
    let link = dir.path().join("link");
    let further = longest.join("x");
    std::fs::create_dir(&further).expect("makes");
    std::os::unix::fs::symlink(&further, &link).expect("links");
    let answer = opening(OpenState::at(&link));
    assert!(matches!(answer, Err(Error::PathTooLong { bytes: 506, .. })), "{answer:?}");
    let answer = open(&longest).backup_to(&longest.join("state.db.copy"));
    assert!(matches!(answer, Err(Error::PathTooLong { .. })), "{answer:?}");
}

#[test]
fn a_newer_schema_is_read_and_never_written() {
    let dir = tempfile::tempdir().expect("a directory");
    add(&open(dir.path()), "a").expect("writes");
    sql(dir.path(), "UPDATE schema_meta SET value = '999' WHERE key = 'version'; PRAGMA user_version=999");
    let answer = opening(OpenState::at(dir.path()));
    let known = known_version();
    assert!(matches!(answer, Err(Error::Newer { found: 999, known: k }) if k == known), "{answer:?}");
    let state = State::open(OpenState::at(dir.path()).read_only()).expect("reads");
    assert_eq!((count(&state), state.schema_version()), (1, 999));
    assert!(matches!(add(&state, "b"), Err(Error::ReadOnly)));
}

#[test]
fn an_older_schema_is_migrated_only_if_allowed() {
    let dir = tempfile::tempdir().expect("a directory");
    // Version 0 is a database without tables.
    rusqlite::Connection::open(dir.path().join("state.db")).expect("opens").execute_batch("VACUUM").expect("runs");
    let mut options = OpenState::at(dir.path());
    options.migrate = Migrate::No;
    for options in [options, OpenState::at(dir.path()).read_only()] {
        let answer = opening(options);
        assert!(matches!(answer, Err(Error::NeedsMigration { found: 0, .. })), "{answer:?}");
    }
    assert_eq!(open(dir.path()).schema_version(), known_version());
}

/// Development schemas were numbered from 1; their tables are not read.
#[test]
fn a_home_of_a_development_schema_is_refused_and_left_alone() {
    for version in [1, 17, 99] {
        let dir = tempfile::tempdir().expect("a directory");
        let meta =
            "CREATE TABLE schema_meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID";
        let rows = format!("INSERT INTO schema_meta VALUES ('lineage', 'duolog'), ('version', '{version}')");
        let marks = format!("PRAGMA application_id = 0x44756f4c; PRAGMA user_version = {version}");
        sql(dir.path(), &format!("{meta}; {rows}; {marks}"));
        let mut unchanged = OpenState::at(dir.path());
        unchanged.migrate = Migrate::No;
        for options in [OpenState::at(dir.path()), OpenState::at(dir.path()).read_only(), unchanged] {
            let answer = opening(options);
            assert!(matches!(&answer, Err(Error::Development { found, .. }) if *found == version), "{answer:?}");
            let told = answer.map_err(|error| error.to_string()).unwrap_err();
            let expected = format!("development schema {version}, and homes from before schema 100 cannot be opened");
            assert!(told.contains(&expected) && told.contains("state.db"), "{told}");
        }
        let other = rusqlite::Connection::open(dir.path().join("state.db")).expect("opens");
        let tables = other.query_row("SELECT COUNT(*) FROM sqlite_schema WHERE sql IS NOT NULL", [], |row| row.get(0));
        assert_eq!(tables, Ok(1));
    }
}

#[test]
fn a_database_of_another_program_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    sql(dir.path(), "CREATE TABLE notes (text)");
    for options in [OpenState::at(dir.path()), OpenState::at(dir.path()).read_only()] {
        let answer = opening(options);
        assert!(matches!(answer, Err(Error::Foreign { .. })), "{answer:?}");
    }
    let other = tempfile::tempdir().expect("a directory");
    open(other.path()).close();
    sql(other.path(), "UPDATE schema_meta SET value = 'else' WHERE key = 'lineage'");
    assert!(matches!(opening(OpenState::at(other.path())), Err(Error::Foreign { .. })));
}

#[test]
fn versions_that_disagree_are_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    open(dir.path()).close();
    sql(dir.path(), "PRAGMA user_version=7");
    let answer = opening(OpenState::at(dir.path()));
    assert!(matches!(answer, Err(Error::Damaged { .. })), "{answer:?}");
}

#[test]
fn a_writer_notices_that_the_schema_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    sql(dir.path(), "PRAGMA user_version=142");
    let answer = add(&state, "a");
    assert!(matches!(answer, Err(Error::SchemaChanged { found: 142, .. })), "{answer:?}");
    assert_eq!(count(&state), 0);
}

#[test]
fn processes_that_open_a_new_home_at_once_all_succeed() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = dir.path().join("new");
    let children: Vec<_> = ["a", "b", "c", "d"].map(|name| children::start("add_fifty", &home, name)).into();
    for mut child in children {
        assert!(child.wait().expect("ends").success());
    }
    assert_eq!(count(&open(&home)), 200);
}

#[test]
fn opening_a_current_state_writes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    add(&open(dir.path()), "a").expect("writes");
    let sizes = || {
        ["state.db", "state.db-wal"].map(|name| {
            let file = dir.path().join(name).metadata().expect(name);
            (file.len(), file.modified().expect("a time"))
        })
    };
    let before = sizes();
    assert_eq!(count(&open(dir.path())), 1);
    assert_eq!(sizes(), before);
}

#[test]
fn closing_leaves_a_short_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("state.db-wal");
    // The tables alone are more than closing leaves in the log; what a later process writes is not.
    for (name, is_left) in [("a", false), ("b", true)] {
        let state = open(dir.path());
        add(&state, name).expect("writes");
        state.close();
        assert_eq!(log.metadata().expect("is there").len() > 0, is_left, "{name}");
    }
    assert_eq!(count(&open(dir.path())), 2);
}
