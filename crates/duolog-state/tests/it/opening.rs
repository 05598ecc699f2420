use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use duolog_state::owned::inboxes::Address;
use duolog_state::owned::{inbox_cursors, inboxes, messages, operations, pool_segments};
use duolog_state::{Error, Migrate, OpenState, State, known_version};
use duolog_types::{MessageId, OperationId, Position};

use super::{add, children, count, open};

/// Changes a database behind the back of the store, through SQLite.
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
        let settings = state.stats().expect("stats").figures.settings;
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

/// A directory whose database has a path of that many bytes, below another.
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
fn a_path_that_is_too_long_is_refused_by_its_length() {
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
    assert!(!longer.exists(), "nothing was made there");
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
    sql(dir.path(), "UPDATE schema_meta SET value = '99' WHERE key = 'version'; PRAGMA user_version=99");
    let answer = opening(OpenState::at(dir.path()));
    let known = known_version();
    assert!(matches!(answer, Err(Error::Newer { found: 99, known: k }) if k == known), "{answer:?}");
    let state = State::open(OpenState::at(dir.path()).read_only()).expect("reads");
    assert_eq!((count(&state), state.schema_version()), (1, 99));
    assert!(matches!(add(&state, "b"), Err(Error::ReadOnly)));
}

#[test]
fn an_older_schema_is_migrated_only_where_that_is_allowed() {
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

/// What makes the tables of an older version, for an engine.
macro_rules! older {
    ($engine:literal: $($name:literal),+) => {
        [$(include_str!(concat!("../../sql/migrations/", $name, "/", $engine, ".sql"))),+].concat()
    };
    ($engine:literal, 12) => {
        $crate::opening::older!(
            $engine: "0001_foundation", "0002_transitions", "0003_usage", "0004_seal_blocks", "0005_conversations",
            "0006_switches", "0007_session_items", "0008_embeddings", "0009_runs", "0010_outbox_lines", "0011_packs",
            "0012_lists"
        )
    };
    ($engine:literal, 13) => {
        [
            $crate::opening::older!($engine, 12),
            include_str!(concat!("../../sql/migrations/0013_pool_segments/", $engine, ".sql")).to_owned(),
        ]
        .concat()
    };
    ($engine:literal, 16) => {
        [
            $crate::opening::older!($engine, 13),
            include_str!(concat!("../../sql/migrations/0014_promise/", $engine, ".sql")).to_owned(),
            include_str!(concat!("../../sql/migrations/0015_unlink_due/", $engine, ".sql")).to_owned(),
            include_str!(concat!("../../sql/migrations/0016_chats_by_creation/", $engine, ".sql")).to_owned(),
        ]
        .concat()
    };
}
pub(crate) use older;

/// Version 16 kept what was sent to sessions, branches and mailboxes in one table.
pub(crate) fn mail_of_one_table() -> String {
    let (home, at) = (crate::home(), "'2026-01-01T00:00:00.000000Z'");
    let progressions = ["h", "p1", "p2", "p3"].map(|id| format!("('{id}', {at}, 0)")).join(", ");
    let inboxes = [("s", "p1"), ("b", "p2"), ("box", "p3")];
    let cursors = inboxes.map(|(to, _)| format!("('{to}', '', 'r', 7, {at})")).join(", ");
    let inboxes = inboxes.map(|(to, progression)| format!("('{to}', '', '{progression}')")).join(", ");
    format!(
        "INSERT INTO sessions (id, home_id, created_at, addressed, scope, log_path, log_key, updated_at)
             VALUES ('s', '{home}', {at}, 0, 'x', 'x/s.jsonl', 'x/s.jsonl', {at});
         INSERT INTO progressions (id, created_at, base_ord) VALUES {progressions};
         INSERT INTO branches (id, created_at, session_id, progression_id, is_default)
             VALUES ('b', {at}, 's', 'h', 1);
         INSERT INTO inboxes (recipient, channel, progression_id) VALUES {inboxes};
         INSERT INTO inbox_cursors (recipient, channel, reader, ord, updated_at) VALUES {cursors};
         INSERT INTO schema_meta (key, value) VALUES ('lineage', 'duolog'), ('version', '16');"
    )
}

/// Holds a state that had [`mail_of_one_table`] to what came of it.
pub(crate) fn check_mail_of_one_table(state: &State) {
    let id = |text: &str| Address::Id(text.to_owned());
    let mailbox = |text: &str| Address::Mailbox(text.to_owned());
    let mail = |to: Address| {
        let found =
            state.read(|tx| Ok::<_, Error>((inboxes::find(tx, &to, "")?, inbox_cursors::get(tx, &to, "", "r")?)));
        let (progression, ord) = found.expect("reads");
        (progression.map(|progression| progression.to_string()), ord)
    };
    let had = |progression: &str| (Some(progression.to_owned()), 7);
    assert_eq!((mail(id("s")), mail(id("b")), mail(mailbox("box"))), (had("p1"), had("p2"), had("p3")));
    for other in [mailbox("s"), mailbox("b"), id("box")] {
        assert_eq!(mail(other), (None, 0));
    }
}

#[test]
fn mail_of_an_older_schema_keeps_its_recipient() {
    let dir = tempfile::tempdir().expect("a directory");
    let marks = "PRAGMA application_id = 0x44756f4c; PRAGMA user_version = 16";
    sql(dir.path(), &format!("{}; {} {marks}", older!("sqlite", 16), mail_of_one_table()));
    check_mail_of_one_table(&open(dir.path()));
}

/// Version 12 listed each message of a session in a progression of its own: here without the one at 2, which was removed.
pub(crate) fn listed_messages() -> String {
    let home = crate::home();
    let at = "'2026-01-01T00:00:00.000000Z'";
    let messages = ["a", "b", "d", "e"].map(|id| format!("('{id}', {at}, '1', 'user', 1)")).join(", ");
    let items = [("p", 0, "a"), ("p", 1, "b"), ("p", 3, "d"), ("p", 4, "e"), ("h", 0, "a"), ("h", 1, "b")]
        .map(|(progression, ord, message)| format!("('{progression}', {ord}, '{message}')"))
        .join(", ");
    format!(
        "INSERT INTO sessions (id, home_id, created_at, addressed, scope, log_path, log_key, updated_at, progression_id)
             VALUES ('s', '{home}', {at}, 0, 'x', 'x/s.jsonl', 'x/s.jsonl', {at}, 'p');
         INSERT INTO progressions (id, created_at, session_id, base_ord) VALUES ('p', {at}, 's', 0), ('h', {at}, 's', 0);
         INSERT INTO messages (id, created_at, content, role, compactable) VALUES {messages};
         INSERT INTO progression_items (progression_id, ord, message_id) VALUES {items};
         INSERT INTO schema_meta (key, value) VALUES ('lineage', 'duolog'), ('version', '12');"
    )
}

/// Holds a state that was [`listed_messages`] to what came of them.
pub(crate) fn check_listed_messages(state: &State) {
    let session = crate::id("s");
    let (rows, count) = state
        .read(|tx| Ok::<_, Error>((pool_segments::list(tx, &session, None, 9)?, pool_segments::count(tx, &session)?)))
        .expect("reads");
    let rows: Vec<_> =
        rows.iter().map(|row| (row.ord, row.progression_id.as_str(), row.from_ord, row.to_ord)).collect();
    assert_eq!((rows.as_slice(), count), (&[(0, "p", 0, Some(2)), (3, "p", 3, Some(5))][..], 4));
}

#[test]
fn messages_of_an_older_schema_keep_their_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let marks = "PRAGMA application_id = 0x44756f4c; PRAGMA user_version = 12";
    sql(dir.path(), &format!("{}; {} {marks}", older!("sqlite", 12), listed_messages()));
    check_listed_messages(&open(dir.path()));
}

/// Version 13 had one table for appends and one for changes. Two appends were to stand at the same position: at most one does.
pub(crate) fn operations_of_two_tables(engine: &str) -> String {
    let (home, at) = (crate::home(), "'2026-01-01T00:00:00.000000Z'");
    let hash = |byte: &str| match engine {
        "sqlite" => format!("x'{}'", byte.repeat(32)),
        _ => format!("decode('{}', 'hex')", byte.repeat(32)),
    };
    format!(
        "INSERT INTO sessions (id, home_id, created_at, addressed, scope, log_path, log_key, updated_at)
             VALUES ('s', '{home}', {at}, 0, 'x', 'x/s.jsonl', 'x/s.jsonl', {at});
         INSERT INTO operations (session_id, operation_id, home_id, content_hash, lines, done_lines, epoch, position,
             created_at, updated_at) VALUES ('s', 'a', '{home}', {first}, 3, 1, 2, 40, {at}, {at}),
             ('s', 'b', '{home}', {second}, 1, 0, 2, 40, {at}, {at});
         INSERT INTO transitions (operation_id, content_hash, answer, created_at) VALUES ('c', {first}, '7', {at});
         INSERT INTO schema_meta (key, value) VALUES ('lineage', 'duolog'), ('version', '13');",
        first = hash("01"),
        second = hash("02"),
    )
}

/// Holds a state that had [`operations_of_two_tables`] to what came of them.
pub(crate) fn check_operations_of_two_tables(state: &State) {
    let find = |scope: &str, operation: &str| {
        let operation = OperationId::parse(operation).expect("an id");
        state.read(|tx| operations::find(tx, scope, &operation)).expect("reads").expect("carried over")
    };
    let (first, second, change) = (find("log/s", "a"), find("log/s", "b"), find(operations::ANY_SCOPE, "c"));
    assert_eq!((first.request_hash, first.lines_done, first.place), ([1; 32], 1, None));
    assert_eq!((second.request_hash, second.lines_done, second.place), ([2; 32], 0, None));
    assert_eq!((first.unverified_from, second.unverified_from), (Some(Position(40)), Some(Position(40))));
    assert_eq!((change.request_hash, change.answer.as_deref()), ([1; 32], Some("7")));
}

#[test]
fn operations_of_an_older_schema_are_still_known() {
    let dir = tempfile::tempdir().expect("a directory");
    let marks = "PRAGMA application_id = 0x44756f4c; PRAGMA user_version = 13";
    sql(dir.path(), &format!("{}; {} {marks}", older!("sqlite", 13), operations_of_two_tables("sqlite")));
    check_operations_of_two_tables(&open(dir.path()));
}

/// Version 5 kept them in the rows of their messages.
#[test]
fn embeddings_of_an_older_schema_are_found_after_the_migration() {
    let dir = tempfile::tempdir().expect("a directory");
    let steps = older!(
        "sqlite": "0001_foundation", "0002_transitions", "0003_usage", "0004_seal_blocks", "0005_conversations"
    );
    let rows = "INSERT INTO messages (id, created_at, content, embedding, role, compactable) VALUES
                    ('with', '2026-01-01T00:00:00.000000Z', '1', x'0000803f', 'user', 1),
                    ('without', '2026-01-01T00:00:00.000000Z', '2', NULL, 'user', 1)";
    let version = "INSERT INTO schema_meta (key, value) VALUES ('lineage', 'duolog'), ('version', '5');
                   PRAGMA application_id = 0x44756f4c; PRAGMA user_version = 5";
    sql(dir.path(), &format!("{steps}; {rows}; {version}"));
    let state = open(dir.path());
    let embedding = |id: &str| {
        let id = MessageId::parse(id).expect("an id");
        state.read(|tx| messages::find(tx, &id)).expect("reads").expect("there").embedding
    };
    assert_eq!((embedding("with"), embedding("without")), (Some(vec![0, 0, 0x80, 0x3f]), None));
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
    sql(dir.path(), "PRAGMA user_version=42");
    let answer = add(&state, "a");
    assert!(matches!(answer, Err(Error::SchemaChanged { found: 42, .. })), "{answer:?}");
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
fn closing_leaves_the_log_for_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("state.db-wal");
    // The tables alone are more than is left to the next; what one who comes later writes is not.
    for (name, is_left) in [("a", false), ("b", true)] {
        let state = open(dir.path());
        add(&state, name).expect("writes");
        state.close();
        assert_eq!(log.metadata().expect("is there").len() > 0, is_left, "{name}");
    }
    assert_eq!(count(&open(dir.path())), 2);
}
