use std::fs;
use std::path::Path;

use duolog_state::owned::sessions::{self, SessionFilter};
use duolog_state::{Error, OpenState, Page, State};
use duolog_types::Durability;

use super::{Mount, add, checkpoint, count, home, id, open, path, run, session};

fn listing(dir: &Path) -> Vec<(String, u64)> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .expect("lists")
        .map(|entry| {
            let entry = entry.expect("an entry");
            (entry.file_name().into_string().expect("our name"), entry.metadata().expect("is there").len())
        })
        .collect();
    names.sort();
    names
}

#[test]
fn reading_changes_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    add(&open(dir.path()), "a").expect("writes");
    fs::remove_file(dir.path().join("state.lock")).expect("removes");
    let contents = || ["state.db", "state.db-wal"].map(|name| fs::read(dir.path().join(name)).expect(name));
    let (files, before) = (listing(dir.path()), contents());
    let state = State::open(OpenState::at(dir.path()).read_only()).expect("opens");
    assert_eq!(count(&state), 1);
    assert!(state.integrity().expect("checks").is_empty());
    assert!(matches!(add(&state, "b"), Err(Error::ReadOnly)));
    assert!(matches!(state.checkpoint(), Err(Error::ReadOnly)));
    assert_eq!(state.lock_holder().expect("asks"), None);
    assert_eq!(state.stats().expect("stats").rows[0], ("sessions".to_owned(), 1));
    drop(state);
    assert_eq!((listing(dir.path()), contents()), (files, before));
}

#[test]
fn reading_a_missing_state_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    for missing in [dir.path().to_owned(), dir.path().join("none")] {
        let answer = State::open(OpenState::at(&missing).read_only()).map(drop);
        assert!(matches!(answer, Err(Error::Missing { .. })), "{answer:?}");
    }
    assert_eq!(listing(dir.path()), []);
}

#[test]
fn a_state_on_a_read_only_mount_is_readable() {
    let real = tempfile::tempdir().expect("a directory");
    let seen = tempfile::tempdir().expect("a directory");
    let read = |expected: &[(String, u64)]| {
        run("mount", &["--bind", path(real.path()), path(seen.path())]);
        let mount = Mount::make(seen.path(), &["-o", "remount,ro,bind"]);
        let state = State::open(OpenState::at(seen.path()).read_only())?;
        assert_eq!(count(&state), 1);
        assert!(fs::write(seen.path().join("x"), "").is_err(), "the mount is really read-only");
        assert!(State::open(OpenState::at(seen.path())).is_err(), "it cannot be opened for writing");
        drop(state);
        drop(mount);
        assert_eq!(listing(real.path()), expected);
        Ok::<_, Error>(())
    };
    let state = open(real.path());
    add(&state, "a").expect("writes");
    drop(state);
    read(&listing(real.path())).expect("with the log and its index");
    let state = open(real.path());
    assert!(!checkpoint(&state).busy);
    drop(state);
    read(&listing(real.path())).expect("with an empty log");
    for companion in ["state.db-wal", "state.db-shm"] {
        fs::remove_file(real.path().join(companion)).expect("removes");
    }
    read(&listing(real.path())).expect("with the database alone");
    let state = open(real.path());
    let row = session("b");
    state.write(Durability::Power, move |tx| sessions::insert(tx, &row)).expect("writes");
    drop(state);
    fs::remove_file(real.path().join("state.db-shm")).expect("removes");
    let answer = read(&listing(real.path()));
    assert!(answer.is_err(), "a log that cannot be read is not ignored: {answer:?}");
}

#[test]
fn a_full_disk_refuses_the_row_and_keeps_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let _mount = Mount::make(dir.path(), &["-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs"]);
    let state = open(dir.path());
    let put = |number: u32| {
        let mut row = session(&format!("s{number}"));
        row.node_metadata = Some("x".repeat(30_000));
        state.write(Durability::Power, move |tx| sessions::insert(tx, &row))
    };
    let full = (0..200).find_map(|number| put(number).err().map(|error| (number, error)));
    let (written, error) = full.expect("a disk of two megabytes fills up");
    assert!(matches!(error, Error::Full { .. }), "{error:?}");
    assert!(written > 5, "{written}");
    assert_eq!(count(&state), u64::from(written));
    drop(state);
    let state = open(dir.path());
    assert_eq!(count(&state), u64::from(written), "exactly the acknowledged rows are there");
    assert_eq!(state.integrity().expect("checks"), Vec::<String>::new());
    drop(state);
}

#[test]
fn a_file_that_is_not_a_database_is_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("state.db"), "this is a text file, and a long enough one\n".repeat(200)).expect("writes");
    for options in [OpenState::at(dir.path()), OpenState::at(dir.path()).read_only()] {
        let answer = State::open(options).map(drop);
        assert!(matches!(answer, Err(Error::Damaged { .. })), "{answer:?}");
    }
}

#[test]
fn an_invalid_value_is_damage_that_names_its_column() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    add(&state, "a").expect("writes");
    let spoil = "UPDATE sessions SET updated_at = 'twenty-seven characters, no'";
    state.write(Durability::Process, move |tx| tx.execute(spoil, &[])).expect("writes");
    let answer = state.read(|tx| sessions::find(tx, &id("a")));
    assert!(matches!(&answer, Err(Error::Damaged { what, .. }) if what == "column updated_at"), "{answer:?}");
}

/// Whatever page is overwritten, the store returns a result: it never panics and never reports a damaged page as
/// intact.
#[test]
fn a_damaged_page_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    for number in 0..40 {
        let mut row = session(&format!("s{number}"));
        row.node_metadata = Some("x".repeat(500));
        state.write(Durability::Process, move |tx| sessions::insert(tx, &row)).expect("writes");
    }
    checkpoint(&state);
    drop(state);
    let whole = fs::read(dir.path().join("state.db")).expect("reads");
    let (mut damaged, pages) = (0, whole.len() / 4096);
    for page in 0..pages {
        let copy = tempfile::tempdir().expect("a directory");
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(copy.path().join("state.db"), bytes).expect("writes");
        let state = match State::open(OpenState::at(copy.path())) {
            Ok(state) => state,
            Err(Error::Damaged { .. }) => {
                damaged += 1;
                continue;
            }
            Err(other) => panic!("page {page}: {other:?}"),
        };
        let faults = state.integrity().expect("answers");
        assert!(!faults.is_empty(), "page {page}");
        let answers = state.read(|tx| {
            sessions::list(tx, &SessionFilter::default(), &Page::new(200, None))?;
            sessions::logs(tx, &home(), None, 200)?;
            (0..40).try_for_each(|number| sessions::find(tx, &id(&format!("s{number}"))).map(drop))
        });
        match answers {
            Ok(()) => {}
            Err(Error::Damaged { .. }) => damaged += 1,
            Err(other) => panic!("page {page}: {other:?}"),
        }
        let answer = add(&state, "new");
        assert!(matches!(answer, Ok(()) | Err(Error::Damaged { .. })), "page {page}: {answer:?}");
    }
    assert!(damaged > 3, "{damaged} of {pages}");
}
