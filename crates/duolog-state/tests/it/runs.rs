use duolog_state::owned::workflow_runs::{self, RunRow, RunsOf};
use duolog_state::owned::{workflow_run_bodies, workflow_run_scratch};
use duolog_state::{OpenState, State};
use duolog_testkit::written_ahead;
use duolog_types::Durability::Process;
use duolog_types::{RunId, RunStatus, TriggerType};

use super::{at, checkpoint, home, open};

fn run(name: &str) -> RunRow {
    RunRow {
        id: RunId::parse(name).expect("a run id"),
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
        lease_expires_at: Some(at(61)),
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
        started_at: at(1),
        updated_at: at(1),
        finished_at: None,
    }
}

/// However much data a run has, a change of its status writes its row and the indexes on the status, and nothing else.
#[test]
fn a_change_of_status_writes_few_pages() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = open(dir.path());
    state
        .write(Process, |tx| {
            // Neighbours, so that the pages are as full as in real use.
            for number in 0..500 {
                let ended = RunRow {
                    status: RunStatus::Succeeded,
                    lease_expires_at: None,
                    finished_at: Some(at(2)),
                    ..run(&format!("old-{number}"))
                };
                workflow_runs::insert(tx, &ended)?;
            }
            let row = run("r");
            workflow_runs::insert(tx, &row)?;
            workflow_run_bodies::insert(tx, &row.id, Some(&"x".repeat(64 << 10)))?;
            workflow_run_scratch::put(tx, &row.id, "key", &"1".repeat(64 << 10)).map(drop)
        })
        .expect("writes");
    let wal = dir.path().join("state.db-wal");
    let mut row = run("r");
    for (status, lease, end) in [
        (RunStatus::Paused, None, None),
        (RunStatus::Running, Some(at(99)), None),
        (RunStatus::Succeeded, None, Some(at(9))),
    ] {
        checkpoint(&state);
        let before = wal.metadata().map_or(0, |file| file.len());
        let (from, to) = (row.clone(), RunRow { status, lease_expires_at: lease, finished_at: end, ..row.clone() });
        row = to.clone();
        assert!(state.write(Process, move |tx| workflow_runs::put(tx, &from, &to)).expect("writes"));
        let bytes = written_ahead(&wal);
        assert!((1..=20_000).contains(&bytes), "{status}: {bytes} bytes of write-ahead log, {before} before");
    }
}

/// Returns a state with that many runs: one in a hundred failed, one in a thousand is running, the others succeeded.
fn filled(runs: u32) -> (tempfile::TempDir, rusqlite::Connection) {
    let dir = tempfile::tempdir().expect("a directory");
    open(dir.path()).close();
    let connection = rusqlite::Connection::open(dir.path().join("state.db")).expect("opens");
    let sql = format!(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {runs})
         INSERT INTO workflow_runs (id, home_id, workflow_name, trigger_type, trigger_id, owner, repo, current_phase,
             status, active_rank, restart_cap, lease_expires_at, started_at, updated_at, finished_at)
         SELECT printf('run-%09d', n), '{home}', 'w' || (n % 7), 'cli', 't' || n, 'o', 'r' || (n % 50), '',
             CASE WHEN n % 1000 = 0 THEN 'running' WHEN n % 100 = 1 THEN 'failed' ELSE 'succeeded' END,
             CASE WHEN n % 1000 = 0 THEN 0 ELSE 3 END, 3,
             CASE WHEN n % 1000 = 0 THEN '{at}' END, printf('2026-01-01T00:00:00.%06dZ', n % 1000000),
             '{at}', CASE WHEN n % 1000 <> 0 THEN '{at}' END FROM n",
        home = home(),
        at = at(1),
    );
    connection.execute_batch(&sql).expect("fills");
    (dir, connection)
}

/// The cost of the newest twenty of each kind does not depend on the number of runs.
#[test]
fn a_page_costs_the_same_for_any_number_of_runs() {
    use rusqlite::StatementStatus::{FullscanStep, Sort, VmStep};

    let states = [1_000, 100_000].map(filled);
    for condition in [
        "status = 'succeeded'",
        "status = 'failed'",
        "workflow_name = 'w3'",
        "COALESCE(owner, '') = 'o' AND repo = 'r7'",
        "started_at >= '2026-01-01T00:00:00.000000Z'",
        "status = 'succeeded' AND (started_at, id) < ('2026-01-01T00:00:00.000900Z', 'run-000000900')",
    ] {
        let sql = format!(
            "SELECT id, workflow_name, trigger_id, status, started_at FROM workflow_runs WHERE {condition} \
             ORDER BY started_at DESC, id DESC LIMIT 20"
        );
        let [few, many] = [&states[0], &states[1]].map(|(_, connection)| {
            let mut statement = connection.prepare(&sql).expect("prepares");
            let rows = statement.query_map([], |row| row.get::<_, String>(0)).expect("runs").count();
            let [steps, scans, sorts] = [VmStep, FullscanStep, Sort].map(|what| statement.get_status(what));
            assert_eq!((scans, sorts), (0, 0), "{condition}");
            (rows, steps)
        });
        assert!(many.0 == 20 && many.1 <= 2 * few.1.max(100), "{condition}: {few:?} against {many:?}");
    }
}

/// Returns the number of bytes that this process has read from files.
fn bytes_read() -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").expect("the system counts");
    let read = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("what was read");
    read.parse().expect("a number")
}

/// A listed run costs at most one page, however many there are; its body, which has seventeen pages, costs none.
#[test]
fn a_page_of_runs_reads_no_bodies() {
    for count in [1_000, 100_000] {
        let (dir, connection) = filled(count);
        for status in RunStatus::ALL {
            let sql = "INSERT INTO workflow_run_bodies (run_id, context) SELECT id, printf('%065536d', 0) \
                       FROM workflow_runs WHERE status = ?1 ORDER BY started_at DESC, id DESC LIMIT 21";
            connection.execute(sql, [status.as_str()]).expect("adds bodies");
        }
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("moves pages");
        drop(connection);
        let state = State::open(OpenState::at(dir.path()).read_only()).expect("opens");
        let (mut rows, mut read) = (0, 0);
        for status in RunStatus::ALL {
            let before = bytes_read();
            let of = RunsOf::Status(*status);
            let listed = state.read(|tx| workflow_runs::list(tx, &of, None, None, 21)).expect("lists").len();
            let pages = (bytes_read() - before) / 4096;
            assert!(pages <= listed as u64 + 10, "{status}: {pages} pages for {listed} of {count} runs");
            (rows, read) = (rows + listed, read + pages);
        }
        assert!(rows >= 30 && read >= 10, "{rows} of {count}, {read} pages: is anything counted?");
    }
}
