//! Tests that hold on both engines. Every function here runs as two tests.

mod behind;
mod branches;
mod catalog;
mod compactions;
mod cron_overrides;
mod cron_runs;
mod cron_ticks;
mod digests;
mod execution_bodies;
mod execution_rollups;
mod executions;
mod homes;
mod inbox_cursors;
mod inboxes;
mod log_epochs;
mod log_paths;
mod message_embeddings;
mod message_types;
mod messages;
mod messaging_deliveries;
mod messaging_messages;
mod messaging_sessions;
mod operations;
mod outbox;
mod pool_segments;
mod progression_items;
mod progressions;
mod repairs;
mod responses;
mod seals;
mod session_items;
mod session_owners;
mod sessions;
mod status_transitions;
mod transactions;
mod usage_by_quarter;
mod whole_views;
mod workflow_approvals;
mod workflow_overrides;
mod workflow_queue;
mod workflow_run_bodies;
mod workflow_run_nodes;
mod workflow_run_phases;
mod workflow_run_scratch;
mod workflow_runs;

use std::collections::BTreeSet;
use std::path::Path;

use duolog_state::owned::branches::{self as branch_table, BranchRow};
use duolog_state::owned::executions::ExecutionRow;
use duolog_state::owned::messages::{self as message_table, Content, MessageRow};
use duolog_state::owned::progressions::{self as progression_table, Fresh, ProgressionRow};
use duolog_state::owned::sessions as table;
use duolog_state::owned::workflow_runs::{self as run_table, QueuePlace, RunRow};
use duolog_state::{ConstraintKind, Error, Tx};
use duolog_testkit::engines::Place;
use duolog_types::{BranchId, Durability, ExecutionId, MessageId, RunId, RunStatus, SessionId, TriggerType};

use super::{at, home, id, session};

/// Runs statements in one transaction on a new state with the session `s`.
fn with_session(place: &Place, mut f: impl FnMut(&mut Tx<'_>) -> Result<(), Error> + Send + 'static) {
    let done = place.open().write(Durability::Process, move |tx| {
        table::insert(tx, &session("s"))?;
        f(tx)
    });
    done.expect("writes");
}

/// Returns the path of a session's log.
fn log_of(id: &SessionId) -> String {
    session(id.as_str()).log_path
}

/// Marks a session as deleted and deletes its row. Returns false if it does not exist.
fn remove_session(tx: &mut Tx<'_>, id: &SessionId) -> Result<bool, Error> {
    table::tombstone(tx, id, &log_of(id), at(99))?;
    table::remove(tx, id, &log_of(id))
}

fn run_id(text: &str) -> RunId {
    RunId::parse(text).expect("a run id")
}

/// Returns a running run that was started at this second.
fn run(name: &str, started: i64) -> RunRow {
    RunRow {
        id: run_id(name),
        home_id: home(),
        workflow_name: "build".to_owned(),
        trigger_type: TriggerType::Cli,
        trigger_id: name.to_owned(),
        owner: None,
        repo: None,
        issue_number: None,
        current_phase: String::new(),
        status: RunStatus::Running,
        queued: None,
        session_id: None,
        error: None,
        lease_owner: None,
        lease_expires_at: Some(at(started + 60)),
        fence: 0,
        restart_count: 0,
        restart_cap: 3,
        retry_count: 0,
        triggered_by: None,
        actor: None,
        phases: 0,
        phases_bytes: 0,
        scratch_bytes: 0,
        nodes_bytes: 0,
        cost_picos: None,
        tokens: None,
        started_at: at(started),
        updated_at: at(started),
        finished_at: None,
    }
}

/// Returns a run with this status.
fn run_with_status(status: RunStatus, name: &str, started: i64) -> RunRow {
    let running = status == RunStatus::Running;
    RunRow {
        status,
        queued: (status == RunStatus::Queued).then(|| QueuePlace {
            is_resumed: false,
            ord: started.unsigned_abs(),
            at: at(started),
        }),
        lease_expires_at: running.then(|| at(started + 60)),
        finished_at: status.is_terminal().then(|| at(started + 9)),
        ..run(name, started)
    }
}

/// Runs statements in one transaction on a new state with the run `r`.
fn with_run(place: &Place, mut f: impl FnMut(&mut Tx<'_>) -> Result<(), Error> + Send + 'static) {
    let done = place.open().write(Durability::Process, move |tx| {
        run_table::insert(tx, &run("r", 1))?;
        f(tx)
    });
    done.expect("writes");
}

/// Returns an execution of run `r` in flight.
fn execution(name: &str, phase: &str, started: i64) -> ExecutionRow {
    ExecutionRow {
        id: ExecutionId::parse(name).expect("an execution id"),
        home_id: home(),
        trigger_type: TriggerType::Cli,
        trigger_id: "r".to_owned(),
        skill: format!("build:{phase}"),
        owner: None,
        repo: None,
        issue_number: None,
        started_at: at(started),
        workflow_run_id: Some(run_id("r")),
        triggered_by: None,
        fence: 2,
        session_id: None,
        end: None,
    }
}

fn message(text: &str) -> MessageId {
    MessageId::parse(text).expect("a message id")
}

/// Inserts a message whose content is its id.
fn insert_message(tx: &mut Tx<'_>, text: &str) -> Result<MessageId, Error> {
    let row = MessageRow::new(message(text), "user", Content::Text(format!("{text:?}")), at(1));
    message_table::add(tx, std::slice::from_ref(&row))?;
    Ok(row.id)
}

/// Inserts a branch of session `s` with these new messages.
fn branch_of(tx: &mut Tx<'_>, name: &str, says: &[&str]) -> Result<BranchRow, Error> {
    let mut head = ProgressionRow::new(Some(&id("s")), at(1));
    progression_table::insert(tx, &head)?;
    let row = BranchRow {
        id: BranchId::parse(name).expect("a branch id"),
        created_at: at(1),
        node_metadata: None,
        user_id: None,
        name: Some(name.to_owned()),
        session_id: id("s"),
        progression_id: head.id.clone(),
        system_msg_id: None,
        forked: None,
        is_default: false,
    };
    branch_table::insert(tx, &row)?;
    for text in says {
        let said = insert_message(tx, text)?;
        progression_table::append(tx, &mut head, &said, Fresh::Yes)?;
    }
    Ok(row)
}

fn is_constraint(answer: &Result<impl Sized, Error>, expected: ConstraintKind) -> bool {
    matches!(answer, Err(Error::Constraint { kind, .. }) if *kind == expected)
}

/// Returns the names of the Rust files in a directory of this crate, with their text.
fn files(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let named = folder.read_dir().expect("lists").flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?.strip_suffix(".rs")?.to_owned();
        Some((name, std::fs::read_to_string(entry.path()).expect("reads")))
    });
    named.filter(|(name, _)| name != "mod").collect()
}

/// Every table module has a file of tests here that calls each of its functions, in tests of both engines only.
#[test]
fn every_table_module_is_exercised_on_both_engines() {
    let tests = files("tests/it/conformance");
    let modules: Vec<_> = files("src/owned").into_iter().chain(files("src/derived")).collect();
    assert!(modules.len() >= 8, "{}", modules.len());
    for (module, source) in modules {
        let Some((_, text)) = tests.iter().find(|(name, _)| *name == module) else {
            panic!("{module} has no tests in tests/it/conformance/{module}.rs");
        };
        let functions = source.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split(['(', '<']).next());
        for function in functions {
            assert!(text.contains(&format!("{module}::{function}(")), "{module}::{function} is not called");
        }
    }
    for (name, text) in &tests {
        assert!(!text.contains("#[test]"), "a test in {name} runs on one engine: list it in on_both_engines!");
        let listed = text.split("on_both_engines!(").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
        let listed: BTreeSet<&str> = listed.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        assert!(!listed.is_empty(), "{name}");
        for test in text.lines().filter_map(|line| line.strip_prefix("fn ")?.strip_suffix("(place: &Place) {")) {
            assert!(listed.contains(test), "{name}::{test} is not in on_both_engines!");
        }
    }
}
