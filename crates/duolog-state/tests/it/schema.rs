use std::collections::BTreeMap;

use duolog_state::owned::repairs::RepairAction;
use duolog_testkit::engines::Place;
use duolog_types::limits::{
    CHAT_CONTENT_BYTES_MAX, CONTENT_BYTES_MAX, CONTEXT_BYTES_MAX, DIGEST_BYTES_MAX, EMBEDDING_BYTES_MAX,
    MESSAGE_ID_BYTES_MAX, METADATA_BYTES_MAX, MODEL_BYTES_MAX, NAME_BYTES_MAX, NODES_BYTES_MAX, OPERATION_ID_BYTES_MAX,
    OUTBOX_LINE_BYTES_MAX, OUTPUT_BYTES_MAX, PATH_BYTES_MAX, PHASE_ENTRY_BYTES_MAX, PHASES_BYTES_MAX, REASON_BYTES_MAX,
    SCOPE_BYTES_MAX, SCRATCH_BYTES_MAX, SCRATCH_VALUE_BYTES_MAX, SEAL_BLOCK_BYTES, SEAL_BLOCK_HASH_BYTES,
    SEAL_BLOCKS_BYTES_MAX, SEAL_BYTES, SESSION_ID_BYTES_MAX, SKILL_BYTES_MAX, TITLE_BYTES_MAX, WORD_BYTES_MAX,
    WORKFLOW_BYTES_MAX,
};
use duolog_types::{
    ApprovalKind, ApprovalStatus, Charge, ChatRole, CronOutcome, InvocationKind, RunStatus, SessionStatus, SourceKind,
    TriggerType,
};

use super::open;

const SCHEMA: &str = include_str!("../../sql/schema.sql");

/// Returns every table and index as SQLite stores it, without comments and with single spaces.
fn objects(connection: &rusqlite::Connection) -> BTreeMap<String, String> {
    let mut statement =
        connection.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").expect("prepares");
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).expect("runs");
    let plain = |sql: &str| {
        let lines: Vec<_> = sql.lines().map(|line| line.split("--").next().unwrap_or("")).collect();
        let words = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        words.replace("( ", "(").replace(" )", ")")
    };
    rows.map(|row| row.map(|(name, sql)| (name, plain(&sql))).expect("reads")).collect()
}

#[test]
fn schema_sql_equals_the_migrations() {
    let dir = tempfile::tempdir().expect("a directory");
    open(dir.path()).close();
    let migrated = objects(&rusqlite::Connection::open(dir.path().join("state.db")).expect("opens"));
    let written = rusqlite::Connection::open_in_memory().expect("opens");
    written.execute_batch(SCHEMA).expect("runs");
    assert!(migrated.len() > 15, "{migrated:?}");
    assert_eq!(objects(&written), migrated);
}

/// SQLite parses the stored text at every open, and a short command opens once per line that it appends.
#[test]
fn the_stored_schema_has_no_comments_and_no_indentation() {
    let dir = tempfile::tempdir().expect("a directory");
    open(dir.path()).close();
    let connection = rusqlite::Connection::open(dir.path().join("state.db")).expect("opens");
    let sql =
        "SELECT name FROM sqlite_schema WHERE sql LIKE '%--%' OR sql LIKE '%  %' OR sql LIKE '%' || char(10) || '%'";
    let mut statement = connection.prepare(sql).expect("prepares");
    let found: Vec<String> = statement.query_map([], |row| row.get(0)).expect("runs").flatten().collect();
    assert_eq!(found, Vec::<String>::new());
}

/// The system's SQLite may be older than the bundled one, and a schema that it cannot parse makes the file unreadable
/// to it.
#[test]
fn the_schema_uses_no_function_that_is_newer_than_sqlite_3_40() {
    assert!(!SCHEMA.contains("octet_length"));
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
        ("outbox_lines.line".to_owned(), OUTBOX_LINE_BYTES_MAX),
        ("outbox_lines.last_error".to_owned(), REASON_BYTES_MAX),
        ("repairs.session_id".to_owned(), SESSION_ID_BYTES_MAX),
        ("repairs.detail".to_owned(), REASON_BYTES_MAX),
        ("idempotency.scope".to_owned(), SCOPE_BYTES_MAX),
        ("idempotency.operation_id".to_owned(), OPERATION_ID_BYTES_MAX),
        ("idempotency.answer".to_owned(), METADATA_BYTES_MAX),
        ("log_paths.log_key".to_owned(), PATH_BYTES_MAX),
        ("log_paths.session_id".to_owned(), SESSION_ID_BYTES_MAX),
        ("catalog.model".to_owned(), MODEL_BYTES_MAX),
        ("catalog.title".to_owned(), TITLE_BYTES_MAX),
        ("usage_by_quarter.model".to_owned(), MODEL_BYTES_MAX),
    ]);
    expected.extend(conversation_bounds());
    expected.extend(switch_bounds());
    expected.extend(run_bounds());
    assert_eq!(bounds, expected);
    assert!(SCHEMA.contains(&format!("length(embedding) BETWEEN 4 AND {EMBEDDING_BYTES_MAX}")));
    assert!(SCHEMA.contains(&format!("length(digest) <= {DIGEST_BYTES_MAX}")));
    assert!(SCHEMA.contains(&format!("length(blocks) <= {SEAL_BLOCKS_BYTES_MAX}")));
    let hashes = SEAL_BYTES.div_ceil(SEAL_BLOCK_BYTES) * SEAL_BLOCK_HASH_BYTES as u64;
    assert_eq!(hashes, SEAL_BLOCKS_BYTES_MAX as u64);
}

fn conversation_bounds() -> impl Iterator<Item = (String, usize)> {
    let columns = [
        (MESSAGE_ID_BYTES_MAX, "messages.id progressions.id branches.id compactions.undoes_branch_id"),
        (METADATA_BYTES_MAX, "messages.node_metadata branches.node_metadata status_transitions.evidence"),
        (CONTENT_BYTES_MAX, "messages.content"),
        (NAME_BYTES_MAX, "message_types.lion_class messages.sender messages.recipient messages.channel"),
        (NAME_BYTES_MAX, "branches.user_id branches.name status_transitions.actor session_owners.host"),
        (NAME_BYTES_MAX, "inboxes.recipient inboxes.channel"),
        (NAME_BYTES_MAX, "inbox_cursors.recipient inbox_cursors.channel inbox_cursors.reader"),
        (WORD_BYTES_MAX, "messages.role status_transitions.reason_code"),
        (WORD_BYTES_MAX, "session_owners.process_started session_owners.boot_id"),
        (REASON_BYTES_MAX, "status_transitions.reason"),
    ];
    columns.into_iter().flat_map(|(max, names)| names.split(' ').map(move |name| (name.to_owned(), max)))
}

fn switch_bounds() -> impl Iterator<Item = (String, usize)> {
    let columns = [
        (NAME_BYTES_MAX, "cron_overrides.name cron_overrides.schedule cron_overrides.updated_by cron_ticks.name"),
        (NAME_BYTES_MAX, "cron_runs.name cron_runs.workflow cron_runs.actor"),
        (NAME_BYTES_MAX, "messaging_sessions.channel_id messaging_sessions.thread_id messaging_sessions.user_id"),
        (NAME_BYTES_MAX, "messaging_messages.platform_message_id messaging_deliveries.platform_message_id"),
        (NAME_BYTES_MAX, "messaging_deliveries.channel_id messaging_deliveries.thread_id messaging_deliveries.user_id"),
        (WORD_BYTES_MAX, "messaging_deliveries.platform"),
        (WORD_BYTES_MAX, "cron_overrides.zone messaging_sessions.platform"),
        (REASON_BYTES_MAX, "cron_runs.error cron_runs.detail"),
        (MESSAGE_ID_BYTES_MAX, "cron_runs.workflow_run_id messaging_sessions.id"),
        (SESSION_ID_BYTES_MAX, "messaging_sessions.agent_session_id"),
        (CHAT_CONTENT_BYTES_MAX, "messaging_messages.content"),
    ];
    columns.into_iter().flat_map(|(max, names)| names.split(' ').map(move |name| (name.to_owned(), max)))
}

/// Returns the text columns of runs.
fn run_bounds() -> impl Iterator<Item = (String, usize)> {
    let columns = [
        (MESSAGE_ID_BYTES_MAX, "workflow_runs.id workflow_runs.session_id executions.id executions.session_id"),
        (MESSAGE_ID_BYTES_MAX, "workflow_approvals.id workflow_approvals.output_execution_id"),
        (WORKFLOW_BYTES_MAX, "workflow_runs.workflow_name execution_rollups.workflow workflow_overrides.name"),
        (SKILL_BYTES_MAX, "executions.skill"),
        (NAME_BYTES_MAX, "workflow_runs.trigger_id workflow_runs.owner workflow_runs.repo workflow_runs.lease_owner"),
        (NAME_BYTES_MAX, "workflow_runs.triggered_by workflow_runs.actor workflow_run_scratch.key"),
        (NAME_BYTES_MAX, "workflow_run_nodes.node executions.trigger_id executions.owner executions.repo"),
        (NAME_BYTES_MAX, "executions.triggered_by workflow_approvals.requested_by workflow_approvals.responded_by"),
        (NAME_BYTES_MAX, "workflow_overrides.updated_by"),
        (WORD_BYTES_MAX, "workflow_runs.current_phase executions.stop_reason workflow_approvals.gate"),
        (WORD_BYTES_MAX, "workflow_approvals.content_hash workflow_approvals.loop_key"),
        (REASON_BYTES_MAX, "workflow_runs.error executions.error workflow_approvals.summary"),
        (METADATA_BYTES_MAX, "workflow_approvals.response"),
        (SCRATCH_VALUE_BYTES_MAX, "workflow_run_scratch.value workflow_run_nodes.status"),
        (CONTEXT_BYTES_MAX, "workflow_run_bodies.context"),
        (PHASE_ENTRY_BYTES_MAX, "workflow_run_phases.entry"),
        (OUTPUT_BYTES_MAX, "execution_bodies.output_text"),
    ];
    columns.into_iter().flat_map(|(max, names)| names.split(' ').map(move |name| (name.to_owned(), max)))
}

/// The data of a run is also bounded in total, per kind.
#[test]
fn the_data_of_a_run_is_bounded_in_total() {
    for (column, max) in
        [("phases_bytes", PHASES_BYTES_MAX), ("scratch_bytes", SCRATCH_BYTES_MAX), ("nodes_bytes", NODES_BYTES_MAX)]
    {
        assert!(SCHEMA.contains(&format!("({column} BETWEEN 0 AND {max})")), "{column}");
    }
}

#[test]
fn every_vocabulary_in_the_schema_is_the_one_in_the_types() {
    let flat = SCHEMA.split_whitespace().collect::<Vec<_>>().join(" ").replace("( '", "('");
    let expect = |column: &str, words: Vec<&str>| {
        let list = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ");
        assert!(flat.contains(&format!("CHECK ({column} IN ({list}))")), "{column} {list}");
    };
    expect("previous_status", SessionStatus::ALL.iter().map(|word| word.as_str()).collect());
    expect("status", SessionStatus::ALL.iter().map(|word| word.as_str()).collect());
    expect("invocation_kind", InvocationKind::ALL.iter().map(|word| word.as_str()).collect());
    expect("source_kind", SourceKind::ALL.iter().map(|word| word.as_str()).collect());
    expect("charge", Charge::ALL.iter().map(|word| word.as_str()).collect());
    expect("outcome", CronOutcome::ALL.iter().map(|word| word.as_str()).collect());
    expect("role", ChatRole::ALL.iter().map(|word| word.as_str()).collect());
    expect("status", RunStatus::ALL.iter().map(|word| word.as_str()).collect());
    expect("status", ApprovalStatus::ALL.iter().map(|word| word.as_str()).collect());
    expect("kind", ApprovalKind::ALL.iter().map(|word| word.as_str()).collect());
    expect("trigger_type", TriggerType::ALL.iter().map(|word| word.as_str()).collect());
    expect("action", RepairAction::ALL.iter().map(|word| word.as_str()).collect());
}

/// Every open runs these queries; with any other index they would read every session of the home.
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

/// The queries of conversations on every change or read, and the index that each uses: no table is scanned.
#[test]
fn conversations_are_read_by_their_indexes() {
    let questions = [
        ("SELECT 1 FROM branches WHERE session_id = 's' AND is_default = 1", "branches_default"),
        ("SELECT id FROM branches WHERE session_id = 's' AND name = 'n' ORDER BY id LIMIT 2", "branches_by_name"),
        ("SELECT id FROM branches WHERE session_id = 's' AND id > 'i' ORDER BY id LIMIT 9", "branches_by_session"),
        ("SELECT 1 FROM branches WHERE progression_id = 'p'", "autoindex_branches"),
        ("SELECT ord + 1 FROM progression_items WHERE progression_id = 'p' ORDER BY ord DESC LIMIT 1", "PRIMARY KEY"),
        ("SELECT ord FROM progression_items WHERE message_id = 'm' AND progression_id = 'p'", "by_message"),
        ("SELECT progression_id, ord FROM progression_items WHERE message_id = 'm'", "by_message"),
        ("SELECT 1 FROM progressions WHERE parent_id = 'p' AND base_ord > 5 LIMIT 1", "progressions_by_parent"),
        (
            "SELECT base_ord FROM progressions WHERE parent_id = 'p' ORDER BY base_ord DESC LIMIT 1",
            "progressions_by_parent",
        ),
        (
            "SELECT seq FROM compactions WHERE branch_id = 'b' AND seq <= 9 AND to_ord <= 9 ORDER BY seq DESC LIMIT 9",
            "PRIMARY KEY",
        ),
        ("SELECT 1 FROM branches WHERE system_msg_id = 'm'", "branches_by_system_message"),
        ("SELECT 1 FROM compactions WHERE summary_msg_id = 'm'", "compactions_by_summary"),
        ("SELECT seq, embedding FROM message_embeddings WHERE seq > 5 ORDER BY seq LIMIT 9", "PRIMARY KEY"),
        ("SELECT embedding FROM message_embeddings WHERE message_id = 'm'", "autoindex_message_embeddings"),
        ("SELECT 1 FROM messages WHERE content_blob = 'b' AND home_id = 'h' LIMIT 1", "messages_in_blobs"),
        (
            "SELECT status FROM status_transitions WHERE session_id = 's' ORDER BY id DESC LIMIT 9",
            "status_transitions_by_session",
        ),
        ("SELECT progression_id FROM inboxes WHERE kind = 'id' AND recipient = 'r' AND channel = 'c'", "PRIMARY KEY"),
    ];
    answered_by(&questions);
}

/// The queries of schedules and chats, and their indexes.
#[test]
fn schedules_and_chats_are_read_by_their_indexes() {
    let questions = [
        (
            "SELECT id FROM cron_runs WHERE name = 'n' AND due_at < '~' ORDER BY due_at DESC LIMIT 9",
            "autoindex_cron_runs",
        ),
        (
            "SELECT id FROM cron_runs WHERE (due_at, name) < ('~', '') ORDER BY due_at DESC, name DESC LIMIT 9",
            "cron_runs_by_due",
        ),
        (
            "SELECT id FROM messaging_sessions WHERE platform = 'p' AND channel_id = 'c' AND thread_id = '' \
             AND user_id = 'u' AND active = 1",
            "messaging_sessions_unique_active",
        ),
        (
            "SELECT id FROM messaging_sessions WHERE (last_activity_at, id) < ('~', '') \
             ORDER BY last_activity_at DESC, id DESC LIMIT 9",
            "messaging_sessions_by_activity",
        ),
        (
            "SELECT id FROM messaging_sessions WHERE (last_activity_at, id) < ('~', '') AND active = 1 \
             ORDER BY last_activity_at DESC, id DESC LIMIT 9",
            "messaging_sessions_active",
        ),
        (
            "SELECT id FROM messaging_sessions WHERE (last_activity_at, id) < ('~', '') AND platform = 'p' \
             ORDER BY last_activity_at DESC, id DESC LIMIT 9",
            "messaging_sessions_by_platform",
        ),
        (
            "SELECT id FROM messaging_sessions WHERE (last_activity_at, id) < ('~', '') AND active = 1 \
             AND platform = 'p' ORDER BY last_activity_at DESC, id DESC LIMIT 9",
            "messaging_sessions_active_by_platform",
        ),
        (
            "SELECT id FROM messaging_sessions WHERE (created_at, id) < ('~', '') \
             ORDER BY created_at DESC, id DESC LIMIT 9",
            "messaging_sessions_by_creation",
        ),
        (
            "SELECT id FROM messaging_sessions WHERE (created_at, id) < ('~', '') AND platform = 'p' \
             ORDER BY created_at DESC, id DESC LIMIT 9",
            "messaging_sessions_by_platform_creation",
        ),
        (
            "SELECT content FROM messaging_messages WHERE session_id = 's' AND id < 9 ORDER BY id DESC LIMIT 9",
            "messaging_messages_by_session",
        ),
        (
            "SELECT id FROM messaging_messages WHERE session_id = 's' AND platform_message_id = 'm'",
            "messaging_messages_once",
        ),
        (
            "SELECT message_id FROM messaging_deliveries WHERE platform = 'p' AND channel_id = 'c' AND thread_id = '' \
             AND user_id = 'u' AND platform_message_id = 'm'",
            "messaging_deliveries USING PRIMARY KEY",
        ),
    ];
    answered_by(&questions);
}

fn answered_by(questions: &[(&str, &str)]) {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    for (sql, index) in questions {
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        let plan = state.read(|tx| tx.all(&explain, &[], |row| row.get::<String>(3))).expect("explains").join("\n");
        let is_found = plan.contains(index) && plan.contains("SEARCH");
        assert!(is_found && !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}

/// The queries of runs on every change, claim or read, and their indexes.
#[test]
fn runs_are_read_by_their_indexes() {
    let questions = [
        (
            "SELECT 1 FROM workflow_runs WHERE workflow_name = 'w' AND trigger_id = 't' AND active_rank < 3",
            "runs_active ",
        ),
        ("SELECT COUNT(*) FROM workflow_runs WHERE status = 'running'", "runs_by_status"),
        (
            "SELECT id FROM workflow_runs WHERE status = 'running' AND lease_expires_at <= 'n' \
             ORDER BY started_at DESC, id DESC LIMIT 9",
            "runs_by_status",
        ),
        (
            "SELECT id FROM workflow_runs WHERE status = 'running' AND (lease_owner IS NULL OR lease_expires_at <= 'n') \
             ORDER BY started_at, id LIMIT 9",
            "runs_by_status",
        ),
        (
            "SELECT id FROM workflow_runs WHERE queue_ord IS NOT NULL AND (queue_rank, queue_ord) > (1, 5) \
             ORDER BY queue_rank, queue_ord LIMIT 9",
            "runs_queue",
        ),
        (
            "SELECT workflow_name FROM workflow_runs WHERE workflow_name > 'w' ORDER BY workflow_name LIMIT 1",
            "runs_by_name",
        ),
        (
            "SELECT id FROM executions WHERE workflow_run_id = 'r' AND skill = 's' AND finished_at IS NULL",
            "executions_in_flight",
        ),
        (
            "SELECT id FROM executions WHERE workflow_run_id = 'r' AND skill = 's' AND success = 1 \
             ORDER BY started_at DESC, id DESC LIMIT 1",
            "executions_by_run",
        ),
        (
            "SELECT id FROM executions WHERE workflow_run_id = 'r' AND finished_at IS NULL ORDER BY skill LIMIT 9",
            "executions_in_flight",
        ),
        (
            "SELECT id FROM executions WHERE error IS NOT NULL AND (started_at, id) < ('a', 'b') \
             ORDER BY started_at DESC, id DESC LIMIT 9",
            "executions_with_error",
        ),
        ("SELECT 1 FROM execution_bodies WHERE output_blob = 'b' AND home_id = 'h'", "execution_bodies_in_blobs"),
        ("SELECT id FROM workflow_approvals WHERE workflow_run_id = 'r' AND status = 'pending'", "approvals_pending"),
        (
            "SELECT id FROM workflow_approvals WHERE workflow_run_id = 'r' AND consumed_at IS NULL \
             AND status IN ('approved', 'answered') ORDER BY created_at, id LIMIT 9",
            "approvals_by_run",
        ),
        (
            "SELECT id FROM workflow_approvals WHERE status = 'pending' AND (created_at, id) < ('a', 'b') \
             ORDER BY created_at DESC, id DESC LIMIT 9",
            "approvals_by_status",
        ),
        (
            "SELECT id FROM workflow_approvals WHERE responded_at IS NULL AND expires_at IS NOT NULL \
             AND expires_at <= 'n' ORDER BY expires_at, id LIMIT 9",
            "approvals_expiring",
        ),
        ("SELECT started FROM execution_rollups WHERE bucket >= 'a' AND bucket < 'b' ORDER BY bucket", "PRIMARY KEY"),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    for (sql, index) in questions {
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        let plan = state.read(|tx| tx.all(&explain, &[], |row| row.get::<String>(3))).expect("explains").join("\n");
        let is_found = plan.contains(index) && plan.contains("SEARCH");
        assert!(is_found && !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}

/// Returns the words of a step, without comments.
fn words(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| line.split("--").next().unwrap_or("")).collect();
    let words = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace("( ", "(").replace(" )", ")")
}

/// Translates a step for SQLite to PostgreSQL. They differ only in types, the length of text, two text functions, the
/// options of tables, the seconds of a timestamp and the numbers of pending lines.
fn translated(sqlite: &str) -> String {
    let mut text = words(sqlite)
        .replace("json_quote(", "to_json(")
        .replace("group_concat(", "string_agg(")
        .replace(" INTEGER PRIMARY KEY AUTOINCREMENT", " BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
        .replace(
            " seq INTEGER NOT NULL CHECK (seq >= 0)",
            " seq BIGINT GENERATED BY DEFAULT AS IDENTITY CHECK (seq >= 0)",
        )
        .replace(") STRICT, WITHOUT ROWID;", ");")
        .replace(") STRICT;", ");");
    while let Some(at) = text.find("length(CAST(") {
        let rest = &text[at + "length(CAST(".len()..];
        let (column, after) = rest.split_once(" AS BLOB))").expect("a cast");
        text = format!("{}octet_length({column}){after}", &text[..at]);
    }
    for table in ["m", "p"] {
        text = text.replace(
            &format!("CAST(strftime('%s', substr({table}.created_at, 1, 19)) AS INTEGER)"),
            &format!(
                "CAST(extract(epoch FROM CAST(substr({table}.created_at, 1, 19) || 'Z' AS TIMESTAMPTZ)) AS BIGINT)"
            ),
        );
    }
    text = text.replace(" AS REAL)", " AS DOUBLE PRECISION)");
    for (theirs, ours) in [("TEXT", "TEXT COLLATE \"C\""), ("INTEGER", "BIGINT"), ("BLOB", "BYTEA")] {
        for end in [" ", ",", ")"] {
            text = text.replace(&format!(" {theirs}{end}"), &format!(" {ours}{end}"));
        }
    }
    text
}

/// Returns a step without one of its views.
fn without_view(step: &str, name: &str) -> String {
    let Some((before, rest)) = step.split_once(&format!("CREATE VIEW {name} ")) else { return step.to_owned() };
    let (_, after) = rest.split_once(';').expect("the view ends");
    format!("{before}{after}")
}

/// The same tables, columns, limits, vocabularies, keys and indexes, word by word.
#[test]
fn every_step_is_the_same_on_both_engines() {
    let steps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/migrations");
    let mut seen = 0;
    for step in steps.read_dir().expect("lists").flatten() {
        let read = |name: &str| std::fs::read_to_string(step.path().join(name)).expect(name);
        // Each engine has its own syntax to order an aggregate; `whole_views.rs` compares the results of this view.
        let (sqlite, postgres) = (translated(&read("sqlite.sql")), words(&read("postgres.sql")));
        let [sqlite, postgres] = [sqlite, postgres].map(|text| without_view(&text, "progressions_whole"));
        assert_eq!(sqlite, postgres, "{}", step.path().display());
        seen += 1;
    }
    assert!(seen > 0);
}

/// Columns, indexes and foreign keys from SQLite.
const OURS: [&str; 3] = [
    r#"SELECT m.name || '.' || c.name || ' ' || CASE c.type WHEN 'INTEGER' THEN 'bigint' WHEN 'BLOB' THEN 'bytea'
       ELSE lower(c.type) END || ' ' || (c."notnull" OR c.pk > 0) || ' ' || COALESCE(trim(c.dflt_value, ''''), '-')
       FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"#,
    r#"SELECT i.name || ' ' || i."unique" || ' ' || i.partial || ' ' || group_concat(COALESCE(x.name, '?')
       || CASE x."desc" WHEN 1 THEN '-' ELSE '' END) FROM sqlite_schema m, pragma_index_list(m.name) i,
       pragma_index_xinfo(i.name) x WHERE m.type = 'table' AND i.origin = 'c' AND x.key = 1 GROUP BY i.name"#,
    r#"SELECT m.name || '.' || f."from" || ' ' || f."table" || '.' || f."to" || ' ' || lower(f.on_delete)
       FROM sqlite_schema m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'"#,
];

/// Columns, indexes and foreign keys from PostgreSQL.
const THEIRS: [&str; 3] = [
    "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || (CASE is_nullable WHEN 'NO' THEN '1'
     ELSE '0' END) || ' ' || COALESCE(split_part(trim(leading '''' from column_default), '''', 1), '-')
     FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
     WHERE table_schema = 'public' AND table_type = 'BASE TABLE'",
    "SELECT c.relname || ' ' || (CASE WHEN i.indisunique THEN 1 ELSE 0 END) || ' ' || (CASE WHEN i.indpred IS NULL
     THEN 0 ELSE 1 END) || ' ' || (SELECT string_agg(COALESCE(a.attname, '?') || CASE i.indoption[k.n - 1] & 1 WHEN 1
     THEN '-' ELSE '' END, ',' ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY k(attnum, n) LEFT JOIN
     pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0) FROM pg_index i
     JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'public'::regnamespace
     AND NOT EXISTS (SELECT 1 FROM pg_constraint t WHERE t.conindid = i.indexrelid AND t.contype IN ('p', 'u'))",
    "SELECT c.conrelid::regclass || '.' || a.attname || ' ' || c.confrelid::regclass || '.' || b.attname || ' ' ||
     (CASE c.confdeltype WHEN 'c' THEN 'cascade' ELSE 'no action' END) FROM pg_constraint c
     JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
     JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = c.confkey[1] WHERE c.contype = 'f'",
];

/// Compares the schemas that the two engines report.
#[test]
fn both_engines_hold_the_same_schema() {
    let dir = tempfile::tempdir().expect("a directory");
    open(dir.path()).close();
    let sqlite = rusqlite::Connection::open(dir.path().join("state.db")).expect("opens");
    let place = Place::postgres();
    place.open().close();
    let database = place.database().expect("a database");
    for ((ours, theirs), least) in OURS.into_iter().zip(THEIRS).zip([70, 10, 5]) {
        let mut statement = sqlite.prepare(ours).expect("prepares");
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).expect("runs");
        let mut ours: Vec<String> = rows.collect::<Result<_, _>>().expect("reads");
        let told = database.run_sql(theirs).expect("asks");
        let mut theirs: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
        ours.sort();
        theirs.sort_unstable();
        assert!(ours.len() >= least, "{ours:?}");
        assert_eq!(ours, theirs);
    }
}
