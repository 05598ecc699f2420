use std::collections::BTreeMap;

use duolog_state::owned::repairs::RepairAction;
use duolog_state::owned::sessions::{self, SessionFilter};
use duolog_state::{Page, PageToken};
use duolog_types::limits::{
    METADATA_BYTES_MAX, NAME_BYTES_MAX, OPERATION_ID_BYTES_MAX, OUTBOX_LINE_BYTES_MAX, PATH_BYTES_MAX,
    REASON_BYTES_MAX, SESSION_ID_BYTES_MAX,
};
use duolog_types::{InvocationKind, SessionStatus, SourceKind};

use super::{at, id, open};

const SCHEMA: &str = include_str!("../../sql/schema.sql");

/// Every table and index as SQLite keeps it, without comments and with single spaces.
fn objects(connection: &rusqlite::Connection) -> BTreeMap<String, String> {
    let mut statement =
        connection.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").expect("prepares");
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).expect("runs");
    let plain = |sql: &str| {
        let lines: Vec<_> = sql.lines().map(|line| line.split("--").next().unwrap_or("")).collect();
        lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    rows.map(|row| row.map(|(name, sql)| (name, plain(&sql))).expect("reads")).collect()
}

#[test]
fn the_schema_for_people_equals_the_migrations() {
    let dir = tempfile::tempdir().expect("a directory");
    open(dir.path()).close();
    let migrated = objects(&rusqlite::Connection::open(dir.path().join("state.db")).expect("opens"));
    let written = rusqlite::Connection::open_in_memory().expect("opens");
    written.execute_batch(SCHEMA).expect("runs");
    assert!(migrated.len() > 15, "{migrated:?}");
    assert_eq!(objects(&written), migrated);
}

#[test]
fn every_bound_in_the_schema_is_one_of_the_limits() {
    let mut bounds = BTreeMap::new();
    let mut table = "";
    for line in SCHEMA.lines() {
        if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
            table = rest.split_whitespace().next().unwrap_or_default();
        }
        if let Some((_, rest)) = line.split_once("length(CAST(") {
            let column = rest.split(' ').next().unwrap_or_default();
            let numbers = rest.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<usize>().ok());
            bounds.insert(format!("{table}.{column}"), numbers.max().expect("a bound"));
        }
    }
    let names = ["user_id", "name", "scope", "agent_name", "playbook_name", "show_topic", "show_play_name"];
    let mut expected: BTreeMap<String, usize> =
        names.map(|column| (format!("sessions.{column}"), NAME_BYTES_MAX)).into();
    let paths = ["log_path", "log_key", "cwd", "artifacts_path"];
    expected.extend(paths.map(|column| (format!("sessions.{column}"), PATH_BYTES_MAX)));
    let ids = ["id", "first_msg_id", "last_msg_id", "progression_id"];
    expected.extend(ids.map(|column| (format!("sessions.{column}"), SESSION_ID_BYTES_MAX)));
    expected.extend([
        ("sessions.node_metadata".to_owned(), METADATA_BYTES_MAX),
        ("outbox.line".to_owned(), OUTBOX_LINE_BYTES_MAX),
        ("outbox.last_error".to_owned(), REASON_BYTES_MAX),
        ("repairs.session_id".to_owned(), SESSION_ID_BYTES_MAX),
        ("repairs.detail".to_owned(), REASON_BYTES_MAX),
        ("operations.operation_id".to_owned(), OPERATION_ID_BYTES_MAX),
    ]);
    assert_eq!(bounds, expected);
}

#[test]
fn every_vocabulary_in_the_schema_is_the_one_in_the_types() {
    let flat = SCHEMA.split_whitespace().collect::<Vec<_>>().join(" ").replace("( '", "('");
    let expect = |column: &str, words: Vec<&str>| {
        let list = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ");
        assert!(flat.contains(&format!("CHECK ({column} IN ({list}))")), "{column} {list}");
    };
    expect("status", SessionStatus::ALL.iter().map(|word| word.as_str()).collect());
    expect("invocation_kind", InvocationKind::ALL.iter().map(|word| word.as_str()).collect());
    expect("source_kind", SourceKind::ALL.iter().map(|word| word.as_str()).collect());
    expect("action", RepairAction::ALL.iter().map(|word| word.as_str()).collect());
}

#[test]
fn every_list_of_sessions_is_read_from_its_index_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let (user, status) = (Some("u".to_owned()), Some(SessionStatus::Failed));
    for (filter, index) in [
        (SessionFilter::default(), "sessions_newest"),
        (SessionFilter { status, ..Default::default() }, "sessions_by_status"),
        (SessionFilter { user_id: user.clone(), ..Default::default() }, "sessions_by_user"),
        (SessionFilter { user_id: user, status }, "sessions_by_"),
    ] {
        for page in [Page::default(), Page::new(20, Some(PageToken::after(at(5), &id("s"))))] {
            let plan = state.read(|tx| sessions::explain_list(tx, &filter, &page)).expect("explains").join("\n");
            assert!(plan.contains(&format!("USING INDEX {index}")), "{plan}");
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN c"), "{plan}");
        }
    }
}

/// Every opening asks for these; with any other index it would look at every session of the home.
#[test]
fn unfinished_deletions_are_found_by_their_own_index() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    let plan = state
        .read(|tx| {
            let sql = "EXPLAIN QUERY PLAN \
                       SELECT id FROM sessions WHERE home_id = 'h' AND deleted_at IS NOT NULL ORDER BY id LIMIT 9";
            tx.all(sql, &[], |row| row.get::<String>(3))
        })
        .expect("explains")
        .join("\n");
    assert!(plan.contains("sessions_deleted") && !plan.contains("TEMP B-TREE"), "{plan}");
}
