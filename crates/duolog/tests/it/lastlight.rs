use std::path::{Path, PathBuf};

use duolog::approvals::{Answer, ApprovalFilter};
use duolog::doctor::Depth;
use duolog::import::lastlight::{self, Counts, ImportReport, Progress};
use duolog::limits::PAGE_MAX;
use duolog::runs::{
    Admission, Attribution, Begun, End, ExecutionOutcome, Finish, NewExecution, RollupInterval, RollupQuery, RunFilter,
    RunPage,
};
use duolog::{
    ApprovalId, ApprovalStatus, ChatId, Durability, ErrorKind, ExecutionId, RunId, RunStatus, Store, Timestamp,
    TriggerType,
};
use duolog_testkit::clock::FixedClock;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use rusqlite::Connection;

use super::runs::Timed;

on_both_engines!(
    a_run_is_imported_with_all_of_its_parts,
    an_imported_run_continues,
    a_repeated_import_duplicates_nothing,
    changed_rows_are_not_imported_again,
    the_import_of_a_run_is_atomic,
    queued_runs_keep_their_order,
    chats_are_imported_with_their_messages,
    hostile_rows_are_noted_and_the_others_imported,
    older_versions_lack_tables_and_columns,
    a_journal_that_a_crash_left_is_read,
    many_rows_are_read_in_pieces,
    concurrent_imports_import_once
);

/// The tables of the first versions.
const TABLES: &str = "
    CREATE TABLE executions (id TEXT PRIMARY KEY, trigger_type TEXT NOT NULL, trigger_id TEXT NOT NULL,
        skill TEXT NOT NULL,
        repo TEXT, issue_number INTEGER, started_at TEXT NOT NULL, finished_at TEXT, success INTEGER, error TEXT,
        turns INTEGER, duration_ms INTEGER, session_id TEXT, cost_usd REAL, input_tokens INTEGER,
        cache_creation_input_tokens INTEGER, cache_read_input_tokens INTEGER, output_tokens INTEGER,
        api_duration_ms INTEGER, stop_reason TEXT, workflow_run_id TEXT, output_text TEXT);
    CREATE TABLE workflow_runs (id TEXT PRIMARY KEY, workflow_name TEXT NOT NULL, trigger_id TEXT NOT NULL, repo TEXT,
        issue_number INTEGER, current_phase TEXT NOT NULL, phase_history TEXT NOT NULL DEFAULT '[]',
        status TEXT NOT NULL DEFAULT 'running', context TEXT, started_at TEXT NOT NULL, updated_at TEXT NOT NULL,
        finished_at TEXT, node_statuses TEXT, scratch TEXT, restart_count INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE workflow_approvals (id TEXT PRIMARY KEY, workflow_run_id TEXT NOT NULL, gate TEXT NOT NULL,
        summary TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'pending', requested_by TEXT, responded_by TEXT,
        response TEXT,
        responded_at TEXT, created_at TEXT NOT NULL, kind TEXT NOT NULL DEFAULT 'approve');
    CREATE TABLE cron_overrides (name TEXT PRIMARY KEY, enabled INTEGER NOT NULL DEFAULT 1, schedule TEXT,
        updated_at TEXT NOT NULL, updated_by TEXT);
    CREATE TABLE workflow_overrides (name TEXT PRIMARY KEY, enabled INTEGER NOT NULL DEFAULT 1,
        updated_at TEXT NOT NULL,
        updated_by TEXT);
    CREATE TABLE messaging_sessions (id TEXT PRIMARY KEY, platform TEXT NOT NULL, channel_id TEXT NOT NULL,
        thread_id TEXT,
        user_id TEXT NOT NULL, agent_session_id TEXT, created_at TEXT NOT NULL, last_activity_at TEXT NOT NULL,
        message_count INTEGER DEFAULT 0, active INTEGER DEFAULT 1);
    CREATE TABLE messaging_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
        content TEXT NOT NULL, timestamp TEXT NOT NULL, platform_message_id TEXT);";

/// Runs of every kind.
const ROWS: &str = r#"
    INSERT INTO workflow_runs (id, workflow_name, trigger_id, repo, issue_number, current_phase, phase_history,
        status, context,
        started_at, updated_at, finished_at, node_statuses, scratch, restart_count) VALUES
    ('failed', 'build', 'ada/engine#1', 'engine', 1, 'plan',
        '[{"phase":"plan","timestamp":"2026-05-26T08:01:00.000Z","success":false, "summary":"é"}]', 'failed',
        '{"kind": "build",  "error":"no way","half":"\ud800"}', '2026-05-26T08:00:00.000Z', '2026-05-26T08:02:00.000Z',
        '2026-05-26T08:02:00.000Z', '{"a":"succeeded","b":{"x":1}}', '{"k": [1, 2], "l":null}', 4),
    ('running', 'build', 'ada/engine#2', 'ada/engine', 2, 'plan', '[]', 'running', NULL, '2026-05-26T09:00:00.000Z',
        '2026-05-26T09:01:00.000Z', NULL, NULL, NULL, 0),
    ('paused', 'explore', 'slack:T:C:1.2', NULL, NULL, 'ask_iter_2', '[]', 'paused', '{}', '2026-05-26T10:00:00.000Z',
        '2026-05-26T10:05:00.000Z', NULL, NULL, '{"ask":{"iteration":2,"lastOutputExecutionId":"asks","much":1e999}}', 0);
    INSERT INTO executions (id, trigger_type, trigger_id, skill, repo, issue_number, started_at, finished_at,
        success, error,
        turns, duration_ms, session_id, cost_usd, input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
        output_tokens, api_duration_ms, stop_reason, workflow_run_id, output_text) VALUES
    ('plans', 'cron', 'ada/engine#1', 'build:plan', 'engine', 1, '2026-05-26T08:00:01.000Z',
        '2026-05-26T08:01:00.000Z', 0,
        'boom', 3, 1000, 'agent-1', 0.1, 10, 1, 100, 5, 900, 'error_tool', 'failed', 'said'),
    ('plans-again', 'cron', 'ada/engine#1', 'build:plan', 'ada/engine', 1, '2026-05-26T08:01:01.000Z',
        '2026-05-26T08:01:30.000Z', 0, NULL, NULL, NULL, NULL, 0.2, NULL, NULL, NULL, NULL, NULL, 'skipped',
        'failed', NULL),
    ('open', 'webhook', 'ada/engine#2', 'build:plan', NULL, NULL, '2026-05-26T09:00:01.000Z', NULL, NULL, NULL, NULL,
        NULL,
        'agent-2', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'running', NULL),
    ('asks', 'webhook', 'slack:T:C:1.2', 'explore:ask_iter_2', NULL, NULL, '2026-05-26T10:03:00.000Z',
        '2026-05-26T10:04:00.000Z', 1, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'success', 'paused',
        'why?'),
    ('turn', 'chat', 'talk', 'chat', NULL, NULL, '2026-05-26T11:00:00.000Z', '2026-05-26T11:00:01.000Z', 1, NULL, 1, 1,
        'agent-3', 0.05, 7, NULL, NULL, 2, NULL, 'success', NULL, NULL);
    INSERT INTO workflow_approvals (id, workflow_run_id, gate, summary, status, requested_by, responded_by, response,
        responded_at, created_at, kind) VALUES
    ('gate-1', 'paused', 'ask_iter_1', 's', 'approved', 'x', 'bob', 'because', '2026-05-26T10:02:00.000Z',
        '2026-05-26T10:01:00.000Z', 'reply'),
    ('gate-2', 'paused', 'ask_iter_2', 's', 'pending', 'x', NULL, NULL, NULL, '2026-05-26T10:05:00.000Z', 'reply'),
    ('gate-3', 'failed', 'ship', 's', 'approved', NULL, 'bob', NULL, '2026-05-26T08:01:59.000Z',
        '2026-05-26T08:01:58.000Z',
        'approve');
    INSERT INTO cron_overrides VALUES ('nightly', 0, '0 7 * * 1', '2026-05-27T09:00:00.000Z', 'admin');
    INSERT INTO workflow_overrides VALUES ('explore', 0, '2026-05-27T09:00:00.000Z', 'admin');
    INSERT INTO messaging_sessions VALUES ('talk', 'slack', 'C', NULL, 'U', 'agent-3', '2026-05-26T11:00:00.000Z',
        '2026-05-26T11:00:01.000Z', 1, 1);
    INSERT INTO messaging_messages (session_id, role, content, timestamp, platform_message_id) VALUES
    ('talk', 'user', 'hello', '2026-05-26T11:00:00.000Z', 'm1'), ('talk', 'assistant', 'hi',
        '2026-05-26T11:00:01.000Z', NULL);
"#;

/// A home, and a database of Last Light in another folder.
struct Theirs {
    timed: Timed,
    folder: tempfile::TempDir,
}

impl Theirs {
    fn of(place: &Place, statements: &[&str]) -> Self {
        let mut timed = Timed::of(place);
        let now: Timestamp = "2026-05-27T12:00:00Z".parse().expect("an instant");
        timed.clock = FixedClock::ticking_from(now.as_micros());
        let theirs = Self { timed, folder: tempfile::tempdir().expect("a directory") };
        theirs.change(statements);
        theirs
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("last light.db")
    }

    fn change(&self, statements: &[&str]) {
        let database = Connection::open(self.path()).expect("opens");
        for one in statements {
            database.execute_batch(one).expect("runs");
        }
    }

    fn import(&self, store: &Store) -> ImportReport {
        lastlight::import(store, &self.path(), Durability::Process, |_| {}).unwrap_or_else(|error| panic!("{error:?}"))
    }
}

fn run(id: &str) -> RunId {
    RunId::parse(id).expect("an id")
}

fn told(report: &ImportReport) -> Vec<String> {
    let notes = report.errors.notes.iter().chain(&report.left_out.notes);
    notes.map(|note| format!("{}: {}", note.unit, note.reason)).collect()
}

fn tells(report: &ImportReport, unit: &str, words: &str) {
    assert!(
        told(report).iter().any(|one| one.starts_with(unit) && one.contains(words)),
        "{unit}, {words}: {report:#?}"
    );
}

const ALL: Counts = Counts { runs: 3, executions: 5, approvals: 3, schedules: 1, workflows: 1, chats: 1, messages: 2 };

fn a_run_is_imported_with_all_of_its_parts(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES, ROWS]);
    let store = theirs.timed.open();
    let mut seen = Vec::new();
    let report =
        lastlight::import(&store, &theirs.path(), Durability::Power, |so_far| seen.push(*so_far)).expect("taken");
    assert_eq!((report.imported, report.unchanged), (ALL, Counts::default()));
    assert_eq!(told(&report), Vec::<String>::new());
    assert_eq!(seen.last(), Some(&Progress { done: ALL, all: ALL }));
    let failed = store.runs().get(&run("failed")).expect("there");
    assert_eq!(
        failed.context.as_deref(),
        Some("{\"kind\": \"build\",  \"error\":\"no way\",\"half\":\"\\ud800\"}"),
        "byte for byte"
    );
    let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    assert_eq!(failed.scratch, [("k", "[1, 2]"), ("l", "null")].map(pair));
    assert_eq!(failed.node_statuses, [("a", "\"succeeded\""), ("b", "{\"x\":1}")].map(pair));
    assert_eq!(failed.phase_history.len(), 1);
    assert!(failed.phase_history[0].ends_with("\"success\":false, \"summary\":\"é\"}"), "{:?}", failed.phase_history);
    assert_eq!(
        (failed.error.as_deref(), failed.restart_cap),
        (Some("no way"), 4),
        "the takeovers of the source are kept"
    );
    let summary = failed.summary;
    assert_eq!((summary.owner.as_deref(), summary.repo.as_deref()), (Some("ada"), Some("engine")), "from the trigger");
    assert_eq!((summary.trigger_type, summary.status), (TriggerType::Cron, RunStatus::Failed), "from its executions");
    assert_eq!((summary.cost.map(|cost| cost.to_string()).as_deref(), summary.tokens), (Some("0.3"), Some(116)));
    assert_eq!(store.runs().summary(&run("running")).expect("there").cost, None, "an unknown cost is not zero");
    let plans = store.runs().executions().get(&ExecutionId::parse("plans").expect("an id")).expect("there");
    assert_eq!(plans.session_id.as_ref().map(duolog::SessionId::as_str), Some("agent-1"));
    assert_eq!((plans.error(), plans.outcome()), (Some("boom"), ExecutionOutcome::Failed));
    assert_eq!(
        store.runs().executions().output(&plans.id).expect("read").map(|said| said.text).as_deref(),
        Some("said")
    );
    // Gates: an answer after which the run continued is acknowledged; a pending gate has its loop.
    let filter = ApprovalFilter { status: None, run: Some(run("paused")) };
    let mut gates = store.approvals().list(&filter, &RunPage::default()).expect("listed").approvals;
    gates.reverse();
    assert_eq!(gates[0].status, ApprovalStatus::Answered);
    assert!(gates[0].consumed_at.is_some() && gates[1].consumed_at.is_none());
    let asks = (
        gates[1].loop_key.as_deref(),
        gates[1].iteration,
        gates[1].output_execution_id.as_ref().map(ExecutionId::as_str),
    );
    assert_eq!(asks, (Some("ask"), Some(2), Some("asks")));
    let ship = store.approvals().get(&ApprovalId::parse("gate-3").expect("an id")).expect("there");
    assert!(ship.consumed_at.is_some(), "its run has ended");
    let query = RollupQuery { every: RollupInterval::Day, last: 2, zone: None, workflow: None };
    let day = store.runs().rollups(&query).expect("summed").remove(0);
    assert_eq!((day.started, day.succeeded, day.failed, day.skipped, day.in_flight), (5, 2, 1, 1, 1));
    assert_eq!((day.cost.to_string().as_str(), day.input_tokens, day.output_tokens), ("0.35", 17, 7));
    assert!(!store.workflows().is_enabled("explore").expect("asked"));
    assert_eq!(store.schedules().list(store_now(&theirs)).expect("listed").elsewhere, ["nightly"]);
    // A run that was running in the source is recovered here once.
    let recovered = store.runs().recover("w").expect("recovered");
    assert_eq!(recovered.resumed.len(), 1);
    assert_eq!((recovered.resumed[0].run.id.as_str(), recovered.resumed[0].closed.len()), ("running", 1));
}

fn store_now(theirs: &Theirs) -> Timestamp {
    use duolog::Clock as _;
    theirs.timed.clock.now()
}

fn an_imported_run_continues(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES, ROWS]);
    let store = theirs.timed.open();
    theirs.import(&store);
    // The loop is answered here, and its finished phases do not run again.
    let gate = ApprovalId::parse("gate-2").expect("an id");
    let answer = Answer { by: Some("ada".to_owned()), response: Some("so".to_owned()), ..Answer::default() };
    assert_eq!(store.approvals().reply(&gate, &answer).expect("answered").run.status, RunStatus::Running);
    let paused = store.runs().open(&run("paused"));
    let claim = paused.claim("w", None).expect("claimed");
    assert_eq!((claim.unconsumed, claim.taken_over), (vec![gate], false), "only the answer that was given here");
    let paused = paused.under(claim.fence);
    assert!(matches!(paused.begin("ask_iter_2", None).expect("asked"), Begun::Done(id) if id.as_str() == "asks"));
    let Begun::Started(next) = paused.begin("ask_iter_3", None).expect("begun") else { panic!("not begun") };
    paused.end(&next.id, &Finish { success: true, ..Finish::default() }).expect("ended");
    paused.finish(&End::Succeeded, None).expect("finished");
    // A run that failed in the source is retried, and its count of takeovers starts again.
    let again = store.runs().open(&run("failed")).retry(Admission::IfFree, &Attribution::default()).expect("again");
    assert_eq!((again.run.status, again.run.restart_count, again.run.retry_count), (RunStatus::Running, 0, 1));
}

fn a_repeated_import_duplicates_nothing(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES, ROWS]);
    let before = std::fs::read(theirs.path()).expect("reads");
    let store = theirs.timed.open();
    theirs.import(&store);
    let query = RollupQuery { every: RollupInterval::Day, last: 2, zone: None, workflow: None };
    let days = store.runs().rollups(&query).expect("summed");
    let again = theirs.import(&store);
    assert_eq!((again.imported, again.unchanged), (Counts::default(), ALL));
    assert_eq!(told(&again), Vec::<String>::new());
    assert!(
        files(theirs.folder.path()) == [(theirs.path(), before)],
        "the source is not changed, and no file is created"
    );
    assert_eq!(store.runs().rollups(&query).expect("summed"), days);
    // Rows that are added later are imported.
    theirs.change(&[
        "INSERT INTO workflow_runs (id, workflow_name, trigger_id, current_phase, status, started_at, updated_at, \
                     finished_at) VALUES ('later', 'build', 'x', 'p', 'succeeded', '2026-05-27T08:00:00.000Z', \
                     '2026-05-27T08:00:00.000Z', '2026-05-27T08:00:00.000Z')",
    ]);
    let more = theirs.import(&store);
    assert_eq!((more.imported, more.unchanged), (Counts { runs: 1, ..Counts::default() }, ALL));
}

fn changed_rows_are_not_imported_again(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES, ROWS]);
    let store = theirs.timed.open();
    theirs.import(&store);
    // One run is changed here, and other rows in the source.
    store.runs().open(&run("running")).cancel(&Attribution::default()).expect("cancelled");
    theirs.change(&[
        "UPDATE executions SET error = 'another' WHERE id = 'turn'",
        "UPDATE workflow_approvals SET summary = 'another' WHERE id = 'gate-3'",
        "UPDATE cron_overrides SET enabled = 1",
        "UPDATE workflow_overrides SET updated_by = 'bob'",
        "INSERT INTO messaging_messages (session_id, role, content, timestamp) VALUES ('talk', 'user', 'x', '2026')",
    ]);
    let again = theirs.import(&store);
    assert_eq!(again.imported, Counts::default());
    for unit in ["run running", "run failed", "execution turn", "schedule nightly", "workflow explore", "chat talk"] {
        tells(&again, unit, "already exists with other content");
    }
    assert_eq!(again.unchanged, Counts { runs: 1, executions: 1, approvals: 2, ..Counts::default() });
    let chat = ChatId::parse("talk").expect("an id");
    assert_eq!(store.chats().get(&chat).expect("there").message_count, 2, "the existing rows are unchanged");
    assert_eq!(store.runs().summary(&run("running")).expect("there").status, RunStatus::Cancelled);
}

fn the_import_of_a_run_is_atomic(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES, ROWS]);
    let store = theirs.timed.open();
    // An active run of the same workflow and trigger exists here, and so does an execution with the same id.
    let here = super::runs::start(&store, "build", "ada/engine#2").run.id;
    let chat = NewExecution {
        id: None,
        trigger_type: TriggerType::Chat,
        trigger_id: "t".to_owned(),
        skill: "chat".to_owned(),
        session_id: None,
        owner: None,
        repo: None,
        issue_number: None,
        triggered_by: None,
    };
    let taken = store.runs().executions().start(&chat).expect("started").id;
    theirs.change(&[&format!("UPDATE executions SET id = '{taken}' WHERE id = 'plans-again'")]);
    let report = theirs.import(&store);
    tells(&report, "run running", &format!("run {here} of the same workflow and trigger is active"));
    tells(&report, &format!("execution {taken}"), "already exists");
    assert_eq!(report.errors.count(), 2);
    assert_eq!((report.imported.runs, report.imported.executions, report.imported.approvals), (1, 2, 2));
    for id in ["running", "failed"] {
        assert_eq!(store.runs().get(&run(id)).expect_err("not there").kind(), ErrorKind::NotFound);
    }
    // Nothing of the run is imported: neither the executions before the conflict nor their cost.
    let plans = ExecutionId::parse("plans").expect("an id");
    assert_eq!(store.runs().executions().get(&plans).expect_err("not there").kind(), ErrorKind::NotFound);
    let query = RollupQuery { every: RollupInterval::Day, last: 2, zone: None, workflow: Some("build".to_owned()) };
    assert_eq!(store.runs().rollups(&query).expect("summed").iter().map(|day| day.started).sum::<u64>(), 0);
}

fn queued_runs_keep_their_order(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES]);
    let insert = |id: &str, at: &str| {
        format!(
            "INSERT INTO workflow_runs (id, workflow_name, trigger_id, current_phase, status, started_at, updated_at) \
             VALUES ('{id}', 'build', '{id}', '', 'queued', '{at}', '{at}')"
        )
    };
    // Not in the order of insertion: one was requeued.
    let rows = [
        insert("third", "2026-01-01T00:00:03.000Z"),
        insert("first", "2026-01-01T00:00:01.000Z"),
        insert("second", "2026-01-01T00:00:02.000Z"),
    ];
    theirs.change(&rows.each_ref().map(String::as_str));
    let store = theirs.timed.open();
    assert_eq!(theirs.import(&store).imported.runs, 3);
    assert_eq!(theirs.import(&store).unchanged.runs, 3);
    let admitted = store.runs().admit(None, 2).expect("admitted");
    let ids: Vec<&str> = admitted.admitted.iter().map(|(run, _)| run.id.as_str()).collect();
    assert_eq!((ids, admitted.expired.len()), (vec!["first", "second"], 0), "their wait starts now");
}

fn chats_are_imported_with_their_messages(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES]);
    let chats =
        [("old", "NULL", 1, "01"), ("new", "NULL", 1, "02"), ("other", "'9.9'", 1, "01"), ("ended", "NULL", 0, "03")];
    let chats = chats.map(|(id, thread, active, last)| {
        format!(
            "INSERT INTO messaging_sessions VALUES ('{id}', 'slack', 'D', {thread}, 'U', NULL, \
             '2026-05-01T00:00:00.000Z', '2026-05-{last}T00:00:00.000Z', 99, {active});"
        )
    });
    // More than a page; ten have the same timestamp, and one is there twice.
    let messages = (0..450).map(|number| {
        let (id, second) = (if number == 440 { 3 } else { number }, number / 10);
        format!(
            "INSERT INTO messaging_messages (session_id, role, content, timestamp, platform_message_id) VALUES \
             ('new', 'user', 'says {number}', '2026-05-01T00:00:{second:02}.000Z', 'm{id}');"
        )
    });
    let rows: String = chats.into_iter().chain(messages).collect();
    theirs.change(&[&format!("BEGIN; {rows} COMMIT")]);
    let store = theirs.timed.open();
    let report = theirs.import(&store);
    assert_eq!((report.imported.chats, report.imported.messages, report.errors.count()), (4, 449, 0));
    tells(&report, "chat old", "so is a later chat of its conversation");
    tells(&report, "chat new", "message m3 was delivered again");
    let chat = |id: &str| store.chats().get(&ChatId::parse(id).expect("an id")).expect("there");
    assert_eq!(["old", "new", "other", "ended"].map(|id| chat(id).active), [false, true, true, false]);
    assert_eq!((chat("new").message_count, chat("new").key.thread), (449, None));
    let history = store.chats().history(&ChatId::parse("new").expect("an id"), None, 2).expect("read");
    let said: Vec<&str> = history.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(said, ["says 448", "says 449"]);
    let again = theirs.import(&store);
    assert_eq!((again.imported, again.unchanged.messages, again.errors.count()), (Counts::default(), 449, 0));
    theirs.change(&["DELETE FROM messaging_messages WHERE platform_message_id = 'm200'"]);
    tells(&theirs.import(&store), "chat new", "with other content");
}

/// Values that no version writes, and values that do not fit their columns.
const HOSTILE: &str = r#"
    INSERT INTO workflow_runs (id, workflow_name, trigger_id, current_phase, phase_history, status, context, started_at,
        updated_at, finished_at, node_statuses, scratch, restart_count, issue_number) VALUES
    ('bad json', 'build', 't1', 'p', '{', 'failed', 'NaN', '2026-05-26T08:00:00.000Z', 'soon', NULL, '[1]', '{"a":1',
        -3, -1),
    ('bad-json', 'build', 't1', 'p', '[1, {"phase":"x"}]', 'failed', 'NaN', '2026-05-26T08:00:00.000Z', 'soon', NULL,
        '[1]',
        '{"a":1', -3, -1),
    ('unknown', 'build', 't2', 'p', '[]', 'done', NULL, '2026-05-26T08:00:00.000Z', '2026-05-26T08:00:00.000Z', NULL,
        NULL, NULL,
        0, NULL),
    (NULL, 'build', 't3', 'p', '[]', 'failed', NULL, '2026-05-26T08:00:00.000Z', '2026-05-26T08:00:00.000Z', NULL,
        NULL, NULL, 0,
        NULL),
    ('a:colon', 'a:b', 't4', 'p', '[]', 'failed', NULL, '2026-05-26T08:00:00.000Z', '2026-05-26T08:00:00.000Z', NULL,
        NULL, NULL,
        0, NULL),
    ('numbers', 5, 't5', 'p', '[]', 'failed', NULL, 7, 8, NULL, NULL, NULL, 0, NULL),
    ('bytes', x'ff', 't6', 'p', '[]', 'failed', NULL, '2026-05-26T08:00:00.000Z', '', NULL, NULL, NULL, 0, NULL),
    ('ended', 'build', 't7', 'p', '[]', 'cancelled', NULL, '2026-05-26T08:00:00.000Z', '2026-05-26T08:05:00.000Z',
        NULL, NULL,
        NULL, 0, NULL),
    ('twice', 'build', 't8', 'p', '[]', 'running', NULL, '2026-05-26T08:00:00.000Z', '2026-05-26T08:05:00.000Z',
        NULL, NULL,
        NULL, 0, NULL),
    ('twice-2', 'build', 't8', 'p', '[]', 'paused', NULL, '2026-05-26T08:00:00.000Z', '2026-05-26T08:05:00.000Z',
        NULL, NULL,
        NULL, 0, NULL);
    UPDATE workflow_runs SET trigger_id = CAST(x'ff41' AS TEXT) WHERE id = 'bytes';
    INSERT INTO executions (id, trigger_type, trigger_id, skill, started_at, finished_at, success, cost_usd, turns,
        input_tokens, session_id, stop_reason, workflow_run_id) VALUES
    ('negative', 'webhook', 't', 'build:a', '2026-05-26T08:00:00.000Z', '2026-05-26T08:00:00.000Z', 1, -0.5, -1,
        99999999999999,
        '../x', '', 'ended'),
    ('infinite', 'webhook', 't', 'build:b', '2026-05-26T08:00:00.000Z', '2026-05-26T08:00:00.000Z', 1, 9e999, 1.5,
        'many', NULL,
        NULL, 'ended'),
    ('nan', 'smoke', 't', 'build:c', '2026-05-26T08:00:00.000Z', '2026-05-26T08:00:00.000Z', 7, 'NaN', NULL, NULL,
        NULL, NULL,
        'ended'),
    ('in-flight', 'webhook', 't', 'build:d', '2026-05-26T08:00:00.000Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        'ended'),
    ('no-end', 'webhook', 't', 'build:e', '2026-05-26T08:00:00.000Z', NULL, 1, 1e300, NULL, NULL, NULL, NULL, 'ended'),
    ('no-skill', 'webhook', 't', ':x', '2026-05-26T08:00:00.000Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'ended'),
    ('flight-1', 'webhook', 't', 'build:f', '2026-05-26T08:00:00.000Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        'twice'),
    ('flight-2', 'webhook', 't', 'build:f', '2026-05-26T08:00:00.000Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        'twice'),
    ('dangling', 'webhook', 't', 'build:g', '2026-05-26T08:00:00.000Z', '2026-05-26T08:00:01.000Z', 1, 0.25, NULL,
        NULL, NULL,
        NULL, 'nowhere'),
    ('no-time', 'webhook', 't', 'build:g', 'yesterday', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    INSERT INTO workflow_approvals (id, workflow_run_id, gate, summary, status, response, created_at, kind) VALUES
    ('over', 'ended', 'g', 's', 'pending', NULL, '2026-05-26T08:01:00.000Z', 'approve'),
    ('no', 'ended', 'g', 's', 'rejected', 'x', '2026-05-26T08:01:00.000Z', 'reply'),
    ('odd', 'ended', 'g', 's', 'maybe', NULL, '2026-05-26T08:01:00.000Z', 'approve'),
    ('early', 'twice', 'g', 's', 'pending', NULL, '2026-05-26T08:01:00.000Z', 'approve'),
    ('late', 'twice', 'g', 's', 'pending', NULL, '2026-05-26T08:02:00.000Z', 'approve'),
    ('lone', 'nowhere', 'g', 's', 'pending', NULL, '2026-05-26T08:02:00.000Z', 'approve');
    INSERT INTO cron_overrides VALUES ('a', 1, 'every tuesday', '2026-05-27T09:00:00.000Z', ''), ('b', 7, NULL, 'x',
        NULL),
        ('', 1, NULL, '2026-05-27T09:00:00.000Z', NULL);
    INSERT INTO workflow_overrides VALUES ('w', 5, '2026-05-27T09:00:00.000Z', NULL);
    INSERT INTO messaging_sessions VALUES ('c', '', 'C', NULL, 'U', NULL, '2026-05-26T11:00:00.000Z', '', 1, 1),
        ('d', 'slack', 'C', '', 'U', '../..', '2026-05-26T11:00:00.000Z', 'never', 1, 1);
    INSERT INTO messaging_messages (session_id, role, content, timestamp) VALUES ('d', 'system', 'x', ''),
        ('d', 'user', 'a' || char(0) || 'b', 'never'), ('e', 'user', 'x', '2026-05-26T11:00:00.000Z');
"#;

fn hostile_rows_are_noted_and_the_others_imported(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES, ROWS, HOSTILE]);
    let huge = |column: &str, table: &str, id: &str, text: &str| {
        let database = Connection::open(theirs.path()).expect("opens");
        database.execute(&format!("UPDATE {table} SET {column} = ?1 WHERE id = ?2"), (text, id)).expect("runs");
    };
    huge("summary", "workflow_approvals", "over", &"ü".repeat(1 << 20));
    huge("error", "executions", "negative", &"e".repeat(1 << 20));
    huge("current_phase", "workflow_runs", "ended", &"p".repeat(1 << 10));
    huge("scratch", "workflow_runs", "ended", &format!("{{\"big\":\"{}\",\"small\":1}}", "s".repeat(1 << 17)));
    huge("context", "workflow_runs", "ended", &format!("\"{}\"", "c".repeat(1 << 21)));
    huge("output_text", "executions", "infinite", &format!("whole{}", "ö".repeat(1 << 20)));
    huge("content", "messaging_messages", "2", &"m".repeat((1 << 20) + 1));
    theirs.change(&[&format!("UPDATE workflow_runs SET phase_history = '{}' WHERE id = 'twice'", "[".repeat(100_000))]);
    let store = theirs.timed.open();
    let mut seen = Progress::default();
    let report =
        lastlight::import(&store, &theirs.path(), Durability::Process, |so_far| seen = *so_far).expect("taken");
    assert_eq!(seen.done, seen.all, "every row was processed");
    for (unit, words) in [
        ("run bad json", "printable ASCII"),
        ("run bad-json", "phase_history is not an object"),
        ("run bad-json", "context is left out: it is not JSON"),
        ("run bad-json", "scratch is left out: it is not JSON"),
        ("run bad-json", "node_statuses is left out"),
        ("run bad-json", "restart_count is -3"),
        ("run bad-json", "issue_number is -1"),
        ("run bad-json", "updated_at is \"soon\""),
        ("run unknown", "\"done\" is not a run status"),
        ("run without an id", "its id is nothing"),
        ("run a:colon", "colon"),
        ("run numbers", "started_at"),
        ("run bytes", "workflow_name is bytes"),
        ("run ended", "has no end time"),
        ("run ended", "current_phase is 1024 bytes, and is cut to 128"),
        ("run ended", "scratch.big is 131074 bytes"),
        ("run ended", "context is 2097154 bytes"),
        ("run twice-2", "is active"),
        ("run twice", "phase_history is left out: it nests too deep"),
        ("execution negative", "cost_usd is -0.5"),
        ("execution negative", "turns is -1"),
        ("execution negative", "input_tokens is 99999999999999"),
        ("execution negative", "session_id is left out"),
        ("execution negative", "error is 1048576 bytes, and is cut to 16384"),
        ("execution infinite", "cost_usd is inf"),
        ("execution infinite", "turns is a number instead of an integer"),
        ("execution nan", "\"smoke\" is not a trigger type"),
        ("execution nan", "cost_usd is text"),
        ("execution nan", "success is neither 0 nor 1"),
        ("execution nan", "imported as failed"),
        ("execution in-flight", "its run was cancelled"),
        ("execution no-end", "has no end time"),
        ("execution no-end", "cost_usd is 1000000"),
        ("execution no-skill", "has no workflow"),
        ("execution flight-1", "another execution of its phase started later"),
        ("execution dangling", "refers to run nowhere, which does not exist"),
        ("execution no-time", "started_at is \"yesterday\""),
        ("gate over", "its run has ended"),
        ("gate over", "cut to 16384"),
        ("gate no", "not valid for its kind"),
        ("gate odd", "\"maybe\" is not a approval status"),
        ("gate early", "waits at a later gate"),
        ("table workflow_approvals", "1 gates refer to a run that does not exist"),
        ("schedule a", "is left out"),
        ("schedule b", "has nothing that can be imported"),
        ("schedule ", "its name is empty"),
        ("workflow w", "has no enabled flag"),
        ("chat c", "its platform is empty"),
        ("chat d", "agent_session_id is left out"),
        ("a message of chat d", "\"system\" is not a"),
        ("message", "content contains NUL bytes"),
        ("message 2 of chat talk", "is cut to 1048576"),
        ("table messaging_messages", "1 messages refer to a chat that does not exist"),
    ] {
        tells(&report, unit, words);
    }
    let ended = store.runs().get(&run("ended")).expect("there");
    assert_eq!((ended.scratch.len(), ended.context), (1, None));
    assert_eq!(ended.summary.finished_at, Some(ended.summary.updated_at));
    let infinite = ExecutionId::parse("infinite").expect("an id");
    let whole = store.runs().executions().full_output(&infinite).expect("read").expect("kept");
    assert!(whole.starts_with("wholeö") && whole.len() > 2 << 20);
    let running = RunFilter { statuses: vec![RunStatus::Running], ..RunFilter::default() };
    let listed = store.runs().list(&running, &RunPage::new(PAGE_MAX, None)).expect("listed");
    assert_eq!(listed.runs.len(), 2, "one of two with the same trigger");
    let twice = store.runs().get(&run("twice")).expect("there");
    assert_eq!(twice.pending.as_ref().map(ApprovalId::as_str), Some("late"));
    // A second import: truncation is deterministic, so nothing counts as changed.
    let again = theirs.import(&store);
    assert_eq!((again.imported, again.unchanged), (Counts::default(), report.imported));
    assert_eq!(again.errors.count(), report.errors.count(), "{again:#?}");
    assert!(store.doctor().examine(Depth::Deep, |_| {}).is_ok());
}

fn older_versions_lack_tables_and_columns(place: &Place) {
    let theirs = Theirs::of(place, &["CREATE TABLE other (x)"]);
    let store = theirs.timed.open();
    let none = |theirs: &Theirs| lastlight::import(&store, &theirs.path(), Durability::Process, |_| {});
    let error = none(&theirs).expect_err("another program's");
    assert!(error.to_string().contains("it has no tables of Last Light"), "{error}");
    theirs.change(&[
        "CREATE TABLE workflow_runs (id TEXT PRIMARY KEY, workflow_name, trigger_id, status, started_at)",
        "INSERT INTO workflow_runs VALUES ('r', 'build', 'a/b::build', 'succeeded', '2026-05-26 08:00:00')",
        "CREATE TABLE executions (id TEXT PRIMARY KEY, trigger_id TEXT, skill TEXT, started_at TEXT, success INTEGER)",
        "INSERT INTO executions VALUES ('e', 'a/b#1', 'triage', '2026-05-26T08:00:00.000Z', 1)",
        "CREATE TABLE messaging_sessions (id TEXT PRIMARY KEY)",
        "INSERT INTO other VALUES (1), (2)",
        "ALTER TABLE workflow_runs ADD COLUMN trace_id TEXT",
        "UPDATE workflow_runs SET trace_id = 'x'",
    ]);
    let report = none(&theirs).expect("taken");
    assert_eq!(report.imported, Counts { runs: 1, executions: 1, ..Counts::default() });
    tells(&report, "table other", "is not imported: 2 rows");
    tells(&report, "table workflow_runs", "column trace_id is not imported: 1 rows");
    tells(&report, "table messaging_sessions", "it has no column platform, channel_id, user_id, created_at");
    tells(&report, "table workflow_approvals", "does not exist");
    let summary = store.runs().summary(&run("r")).expect("there");
    assert_eq!((summary.trigger_type, summary.current_phase.as_str()), (TriggerType::Cron, ""));
    assert_eq!(none(&theirs).expect("asked").unchanged, report.imported);
    std::fs::write(theirs.path(), "no database at all, but long enough to look like a file of one").expect("written");
    assert!(none(&theirs).is_err());
    std::fs::remove_file(theirs.path()).expect("removed");
    assert!(none(&theirs).is_err());
    assert!(!theirs.path().exists(), "no file is created");
}

/// Every file of a folder, with its bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("lists").flatten();
    let mut files: Vec<_> = entries.map(|entry| (entry.path(), std::fs::read(entry.path()).expect("reads"))).collect();
    files.sort();
    files
}

fn a_journal_that_a_crash_left_is_read(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES]);
    let store = theirs.timed.open();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let live = elsewhere.path().join("live.db");
    std::fs::copy(theirs.path(), &live).expect("copied");
    let carry = |ends: &[&str]| {
        for end in ends {
            let from = format!("{}{end}", live.display());
            std::fs::copy(from, format!("{}{end}", theirs.path().display())).expect("copied");
        }
    };
    // The state after a power loss: all rows are in the write-ahead log, and a transaction is incomplete.
    let writer = Connection::open(&live).expect("opens");
    writer.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0").expect("set");
    writer.execute_batch(ROWS).expect("written");
    writer.execute_batch("BEGIN; DELETE FROM workflow_runs").expect("begun");
    carry(&["", "-wal"]);
    let before = files(theirs.folder.path());
    assert_eq!(before.len(), 2);
    assert_eq!(theirs.import(&store).imported, ALL);
    assert!(files(theirs.folder.path()) == before, "the source is not changed");
    let cache = store.home().cache.clone();
    assert!(!cache.exists() || files(&cache).is_empty(), "no temporary file is left");
    // A transaction that wrote to the file and did not commit must be rolled back.
    writer.execute_batch("COMMIT; PRAGMA journal_mode=DELETE").expect("set");
    std::fs::remove_file(format!("{}-wal", theirs.path().display())).expect("removed");
    writer.execute_batch(ROWS.split("INSERT INTO executions").next().unwrap_or_default()).expect("written");
    writer
        .execute_batch(
            "PRAGMA cache_size=1; BEGIN; UPDATE workflow_runs SET workflow_name = 'wrong', current_phase = \
                          hex(zeroblob(40000)); UPDATE executions SET skill = 'wrong:x', error = hex(zeroblob(40000))",
        )
        .expect("begun");
    carry(&["", "-journal"]);
    let database = std::fs::read(theirs.path()).expect("reads");
    assert!(database.windows(7).any(|bytes| bytes == b"wrong:x"), "it is in the file already");
    let again = theirs.import(&store);
    assert_eq!((again.imported, again.unchanged, told(&again)), (Counts::default(), ALL, Vec::new()));
}

fn many_rows_are_read_in_pieces(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES]);
    let many = |table: &str, columns: &str, values: &str, count: u32| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
             INSERT INTO {table} ({columns}) SELECT {values} FROM n"
        )
    };
    let at = "'2026-05-26T08:00:00.000Z'";
    let runs = "id, workflow_name, trigger_id, current_phase, status, started_at, updated_at";
    theirs.change(&[
        &many("workflow_runs", runs, &format!("'r' || i, 'w', 't' || i, '', 'failed', {at}, {at}"), 300),
        &many("workflow_runs", runs, &format!("'q' || i, 'w', 'u' || i, '', 'queued', {at}, {at}"), 300),
        &many(
            "executions",
            "id, trigger_type, trigger_id, skill, started_at, finished_at, success, cost_usd",
            &format!("'e' || i, 'chat', 't', 'chat', {at}, {at}, 1, 0.01"),
            450,
        ),
    ]);
    let store = theirs.timed.open();
    let mut steps = 0;
    let report = lastlight::import(&store, &theirs.path(), Durability::Process, |_| steps += 1).expect("taken");
    assert_eq!((report.imported.runs, report.imported.executions, steps), (600, 450, 604));
    assert_eq!(store.runs().count(&RunFilter::default()).expect("counted"), 600);
    let query = RollupQuery { every: RollupInterval::Day, last: 2, zone: None, workflow: Some("chat".to_owned()) };
    assert_eq!(store.runs().rollups(&query).expect("summed")[0].cost.to_string(), "4.5");
}

fn concurrent_imports_import_once(place: &Place) {
    let theirs = Theirs::of(place, &[TABLES, ROWS]);
    let (one, two) = (theirs.timed.open(), theirs.timed.open());
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| theirs.import(&two));
        (theirs.import(&one), other.join().expect("imported"))
    });
    let mut all = first.imported;
    all += second.imported;
    assert_eq!(all, ALL, "{first:#?} {second:#?}");
    assert_eq!((told(&first), told(&second)), (Vec::new(), Vec::new()));
    let query = RollupQuery { every: RollupInterval::Day, last: 2, zone: None, workflow: None };
    assert_eq!(one.runs().rollups(&query).expect("summed")[0].started, 5);
}
