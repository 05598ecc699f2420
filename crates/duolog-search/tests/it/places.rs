use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use duolog_search::{Error, Index};
use duolog_types::HomeId;
use rusqlite::Connection;

use crate::{add, index_in, positions};

fn mode(path: &Path) -> u32 {
    path.metadata().expect("a file").permissions().mode() & 0o777
}

/// Runs SQL on the file as another program would.
fn change(directory: &Path, sql: &str) {
    Connection::open(directory.join("search.db")).expect("opens").execute_batch(sql).expect("changed");
}

#[test]
fn an_index_is_created_for_its_owner_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let home = HomeId::new();
    assert!(matches!(Index::open(directory.path(), home), Err(Error::Missing(_))), "opening creates nothing");
    let mut index = Index::open_or_create(directory.path(), home).expect("an index");
    add(&mut index, "s", &["x"]);
    for file in ["search.db", "search.db-wal", "search.db-shm", "search.lock"] {
        assert_eq!(mode(&directory.path().join(file)), 0o600, "{file}");
    }
}

#[test]
fn a_damaged_index_is_rebuilt() {
    for damage in [b"this is no database, and was none".to_vec(), Vec::new(), vec![0; 100_000]] {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut index, home) = index_in(directory.path());
        add(&mut index, "s", &["x"]);
        drop(index);
        for suffix in ["-wal", "-shm"] {
            fs::remove_file(directory.path().join(format!("search.db{suffix}"))).expect("deleted");
        }
        fs::write(directory.path().join("search.db"), &damage).expect("written");
        assert!(matches!(Index::open(directory.path(), home), Err(Error::Unusable { .. })), "{} bytes", damage.len());
        let mut index = Index::open_or_create(directory.path(), home).expect("rebuilt");
        assert!(positions(&index, "x").is_empty());
        add(&mut index, "s", &["x"]);
        assert_eq!(positions(&index, "x"), [0]);
    }
}

#[test]
fn examine_finds_damage_inside_of_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, home) = index_in(directory.path());
    let text = (0..5_000).fold(String::new(), |text, number| text + &format!("word{number} "));
    add(&mut index, "s", &[&text, "other"]);
    assert!(index.examine().expect("reads").findings.is_empty());
    drop(index);
    change(directory.path(), "UPDATE texts_data SET block = zeroblob(length(block)) WHERE id > 10");
    let index = Index::open(directory.path(), home).expect("opens");
    assert!(!index.examine().expect("reads").findings.is_empty());
}

#[test]
fn an_index_of_an_older_format_or_another_home_is_rebuilt() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, home) = index_in(directory.path());
    add(&mut index, "s", &["x"]);
    drop(index);
    let other = HomeId::new();
    assert!(matches!(Index::open(directory.path(), other), Err(Error::Unusable { .. })));
    change(directory.path(), "PRAGMA user_version = 0");
    assert!(matches!(Index::open(directory.path(), home), Err(Error::Unusable { .. })));
    let index = Index::open_or_create(directory.path(), home).expect("rebuilt");
    assert!(positions(&index, "x").is_empty());
}

#[test]
fn a_newer_index_and_another_programs_database_are_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let (index, home) = index_in(directory.path());
    drop(index);
    change(directory.path(), "PRAGMA user_version = 999");
    let newer = Index::open_or_create(directory.path(), home);
    assert!(matches!(newer, Err(Error::Newer { found: 999, .. })));
    change(directory.path(), "PRAGMA application_id = 1; CREATE TABLE theirs (x)");
    assert!(matches!(Index::open_or_create(directory.path(), home), Err(Error::Foreign(_))));
    assert!(matches!(Index::delete(directory.path()), Err(Error::Foreign(_))));
    change(directory.path(), "INSERT INTO theirs VALUES (1)");
    let elsewhere = tempfile::tempdir().expect("a directory");
    symlink(directory.path().join("search.db"), elsewhere.path().join("search.db")).expect("a link");
    assert!(matches!(Index::open_or_create(elsewhere.path(), home), Err(Error::Foreign(_))));
    assert!(matches!(Index::delete(elsewhere.path()), Err(Error::Foreign(_))));
}

#[test]
fn a_process_that_has_a_deleted_index_open_keeps_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut old, home) = index_in(directory.path());
    add(&mut old, "s", &["before"]);
    Index::delete(directory.path()).expect("deleted");
    assert!(!old.is_in_place());
    let mut new = Index::open_or_create(directory.path(), home).expect("rebuilt");
    add(&mut new, "s", &["after"]);
    // Both still work, each with its own content.
    add(&mut old, "t", &["before too"]);
    assert_eq!((positions(&old, "before"), positions(&old, "after")), (vec![0, 0], vec![]));
    assert_eq!((positions(&new, "before"), positions(&new, "after")), (vec![], vec![0]));
    assert!(new.is_in_place());
    for index in [&old, &new] {
        assert!(index.examine().expect("reads").findings.is_empty());
    }
}

#[test]
fn companion_files_of_a_deleted_index_are_not_used_for_the_new_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut old, home) = index_in(directory.path());
    add(&mut old, "s", &["before"]);
    fs::remove_file(directory.path().join("search.db")).expect("deleted");
    let mut new = Index::open_or_create(directory.path(), home).expect("rebuilt");
    assert!(positions(&new, "before").is_empty());
    add(&mut new, "s", &["after"]);
    add(&mut old, "s", &["more"]);
    drop(old);
    assert_eq!(positions(&new, "after"), [0]);
    assert!(new.examine().expect("reads").findings.is_empty());
    drop(new);
    let new = Index::open(directory.path(), home).expect("opens");
    assert_eq!(positions(&new, "after"), [0]);
}

#[test]
fn opening_does_not_wait_for_the_process_that_creates_the_index() {
    let directory = tempfile::tempdir().expect("a directory");
    let lock = fs::File::create(directory.path().join("search.lock")).expect("a lock");
    lock.try_lock().expect("no other process");
    let home = HomeId::new();
    assert!(matches!(Index::open_or_create(directory.path(), home), Err(Error::Busy(_))));
    drop(lock);
    assert!(Index::open_or_create(directory.path(), home).is_ok());
}
