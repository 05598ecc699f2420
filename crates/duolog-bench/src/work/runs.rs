//! Runs: what a page costs may not depend on how many there are, nor on what hangs on them; those who look must not hold up
//! who writes; and a transition is held against its statements by the bare driver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duolog::runs::{Act, NewRun, RunFilter, RunPage};
use duolog::{Durability, HomeId, Moment, RunId, RunStatus, Store, TriggerType};
use duolog_state::owned::workflow_run_bodies;
use duolog_state::owned::workflow_runs::{self, RunRow};
use duolog_state::{Checkpoint, Error, OpenState, State};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior, params};
use tempfile::TempDir;

use crate::bench::{Bench, options_in};
use crate::measure::{Figure, Target, in_turns};

const PAGE: u32 = 20;
/// The runs of one transaction.
const CHUNK: usize = 10_000;
/// The newest runs that have a body, and so every one that is listed.
const WITH_BODY: usize = 10_000;
/// What hangs on those.
const BODY_BYTES: usize = 64 << 10;
/// So many were cancelled, however many there are.
const RARE: usize = 20;

/// Pages of many against pages of few, a writer with and without lookers-on, and a transition against its statements.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let (many, few) = (bench.size(1_000_000, 400), bench.size(1_000, 200));
    let (large, small) = (Runs::of(bench, many), Runs::of(bench, few));
    let mut figures = Vec::new();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _until = Until(&over);
        for runs in [&large, &small] {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    runs.turn(1);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let rounds = bench.size(1001, 3);
        for (name, which, statuses) in [
            ("runs/active-first", "first", vec![]),
            ("runs/common", "newest succeeded", vec![RunStatus::Succeeded]),
            ("runs/rare", "newest cancelled", vec![RunStatus::Cancelled]),
        ] {
            let filter = RunFilter { statuses, ..RunFilter::default() };
            let pairs = in_turns(rounds, (1, 1), || large.list(&filter), || small.list(&filter));
            let what = format!("the {which} 20 of {many} runs / of {few}, while a writer runs");
            figures.push(pairs.cost(name, &what, Target::AtMost(2.0)));
        }
    });
    figures.push(large.while_ten_look(bench));
    drop((large, small));
    figures.push(transition(bench));
    figures
}

/// Ends what runs beside a measurement, however that ends.
struct Until<'o>(&'o AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Runs {
    store: Store,
    /// The one that is paused and resumed.
    turned: RunId,
    _room: TempDir,
}

impl Runs {
    fn of(bench: &Bench, count: usize) -> Self {
        let room = bench.room();
        let store = Store::open(options_in(room.path())).expect("a store");
        let state = State::open(OpenState::at(room.path().join("home/state"))).expect("opens");
        fill(&state, store.home_id(), count);
        let turned = start(&store, "turned");
        Self { store, turned, _room: room }
    }

    fn list(&self, filter: &RunFilter) {
        let list = self.store.runs().list(filter, &RunPage::new(PAGE, None)).expect("a page");
        assert!(
            !list.runs.is_empty() && list.runs.iter().all(|run| filter.statuses.iter().all(|one| *one == run.status))
        );
    }

    /// Pauses and resumes so often.
    fn turn(&self, times: usize) {
        turn(&self.store, &self.turned, times);
    }

    /// The writer's speed while ten look ten times a second, against its speed alone.
    fn while_ten_look(&self, bench: &Bench) -> Figure {
        let (looking, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let each = bench.size(100, 2);
        let mut pairs = None;
        std::thread::scope(|scope| {
            let _until = Until(&over);
            for _ in 0..10 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        if looking.load(Ordering::Relaxed) {
                            self.list(&RunFilter::default());
                        }
                        std::thread::sleep(Duration::from_millis(100));
                    }
                });
            }
            let turns = |look| {
                looking.store(look, Ordering::Relaxed);
                self.turn(each);
            };
            pairs = Some(in_turns(bench.size(61, 1), (each * 2, each * 2), || turns(true), || turns(false)));
        });
        let what = "transitions while ten clients list ten times a second / without them";
        pairs.expect("measured").speed("runs/looked-at", what, Target::AtLeast(0.9))
    }
}

fn start(store: &Store, trigger: &str) -> RunId {
    let runs = store.runs().durable(Durability::Process);
    runs.start(&NewRun::new("bench", TriggerType::Cli, trigger)).expect("started").run.id
}

fn turn(store: &Store, run: &RunId, times: usize) {
    let open = store.runs().durable(Durability::Process).open(run);
    for _ in 0..times {
        assert!(open.pause(&Act::default()).expect("paused").changed);
        assert!(open.resume(&Act::default()).expect("resumed").changed);
    }
}

fn at(number: usize) -> Moment {
    Moment::from_micros(1_790_000_000_000_000 + i64::try_from(number).expect("a small number") * 1000)
}

/// Adds ended runs, most of which went well; the newest have bodies of 64 KiB.
fn fill(state: &State, home_id: HomeId, count: usize) {
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(BODY_BYTES));
    for from in (0..count).step_by(CHUNK) {
        let (to, body) = (count.min(from + CHUNK), body.clone());
        let insert = move |tx: &mut duolog_state::Tx<'_>| {
            for number in from..to {
                let row = row(home_id, number, count / RARE);
                workflow_runs::insert(tx, &row)?;
                let has_body = number + WITH_BODY >= count || row.status == RunStatus::Cancelled;
                workflow_run_bodies::insert(tx, &row.id, has_body.then_some(body.as_str()))?;
            }
            Ok::<_, Error>(())
        };
        state.write(Durability::Process, insert).expect("inserted");
    }
    let moved = state.checkpoint().expect("a checkpoint");
    assert!(matches!(moved, Checkpoint::Done(_)), "{moved:?}");
}

fn row(home_id: HomeId, number: usize, rare: usize) -> RunRow {
    let status = if number % rare == 3 {
        RunStatus::Cancelled
    } else if number % 20 == 7 {
        RunStatus::Failed
    } else {
        RunStatus::Succeeded
    };
    RunRow {
        id: RunId::parse(&format!("r-{number:08}")).expect("an id"),
        home_id,
        workflow_name: format!("workflow-{}", number % 7),
        trigger_type: TriggerType::Webhook,
        trigger_id: format!("acme/site#{number}"),
        owner: Some("acme".to_owned()),
        repo: Some(format!("site-{}", number % 11)),
        issue_number: Some(number as u64),
        current_phase: "review".to_owned(),
        status,
        queued: None,
        session_id: None,
        error: None,
        lease_owner: None,
        lease_expires_at: None,
        fence: 1,
        restart_count: 0,
        restart_cap: 3,
        retry_count: 0,
        triggered_by: None,
        actor: None,
        phases: 0,
        phases_bytes: 0,
        scratch_bytes: 0,
        nodes_bytes: 0,
        cost_picos: Some(1_000_000),
        tokens: Some(1_000),
        started_at: at(number),
        updated_at: at(number),
        finished_at: Some(at(number)),
    }
}

/// A pause or a resumption with its line, against the same statements by the bare driver in one transaction.
fn transition(bench: &Bench) -> Figure {
    let (ours, theirs) = (bench.room(), bench.room());
    let store = Store::open(options_in(ours.path())).expect("a store");
    let run = start(&store, "ours");
    let bare = Bare::in_store(&theirs);
    let each = 5;
    let pairs = in_turns(
        bench.size(201, 3),
        (each * 2, each * 2),
        || turn(&store, &run, each),
        || (0..each).for_each(|_| bare.turn()),
    );
    let what = "a pause or a resumption / its UPDATE and its outbox INSERT by the bare driver";
    pairs.cost("runs/transition", what, Target::AtMost(1.5))
}

/// A run that is changed by the bare driver, on a database of the same kind.
struct Bare {
    connection: Connection,
    run: String,
}

const UPDATE: &str = "UPDATE workflow_runs SET current_phase = ?4, error = ?5, lease_owner = ?6, lease_expires_at = ?7, \
    fence = ?8, restart_count = ?9, retry_count = ?10, actor = ?11, phases = ?12, phases_bytes = ?13, \
    scratch_bytes = ?14, nodes_bytes = ?15, cost_picos = ?16, tokens = ?17, updated_at = ?18, finished_at = ?19, \
    status = ?20, active_rank = ?21 WHERE id = ?1 AND status = ?2 AND fence = ?3";
const INSERT: &str = "INSERT INTO outbox_lines (home_id, session_id, seq, uuid, epoch, floor, created_at, line) \
    SELECT s.home_id, s.id, COALESCE((SELECT o.seq + 1 FROM outbox_lines o \
    WHERE o.home_id = s.home_id AND o.session_id = s.id ORDER BY o.seq DESC LIMIT 1), 0), ?2, s.log_epoch, \
    CASE WHEN c.epoch = s.log_epoch THEN c.position ELSE 0 END, ?3, ?4 \
    FROM sessions s LEFT JOIN catalog c ON c.session_id = s.id WHERE s.id = ?1 AND s.deleted_at IS NULL";

impl Bare {
    fn in_store(room: &TempDir) -> Self {
        let store = Store::open(options_in(room.path()).one_shot()).expect("a store");
        let run = start(&store, "theirs").to_string();
        store.close().expect("closed");
        let connection = Connection::open(room.path().join("home/state/state.db")).expect("opens");
        let pragmas = "PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=1000; PRAGMA synchronous=NORMAL";
        connection.execute_batch(pragmas).expect("set");
        // As we do: otherwise the INSERT is prepared again each time, and takes as long as all the rest.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).expect("set");
        Self { connection, run }
    }

    fn turn(&self) {
        self.become_from("running", "paused");
        self.become_from("paused", "running");
    }

    fn become_from(&self, before: &str, after: &str) {
        let now = duolog::Clock::now(&duolog::SystemClock).to_string();
        let tx = rusqlite::Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate).expect("begun");
        let lease = (after == "running").then_some(&now);
        let (none, zero, one) = (None::<&str>, 0_i64, i64::from(after == "paused"));
        let values = params![
            self.run, before, zero, "", none, none, lease, zero, zero, zero, none, zero, zero, zero, zero, none, none,
            now, none, after, one
        ];
        let changed = tx.prepare_cached(UPDATE).expect("prepared").execute(values).expect("updated");
        assert_eq!(changed, 1);
        let line = format!(
            "{{\"type\":\"system\",\"subtype\":\"duolog.run\",\"uuid\":\"01a1e332-3d9d-71fc-a04d-018c3d2aca74\",\
             \"timestamp\":\"{now}\",\"sessionId\":\"{0}\",\"run\":\"{0}\",\"event\":\"turn\",\"status\":\"{after}\",\
             \"previousStatus\":\"{before}\"}}",
            self.run
        );
        let uuid = duolog_types::OutboxId::new().to_string();
        let values = params![self.run, uuid, now, line];
        assert_eq!(tx.prepare_cached(INSERT).expect("prepared").execute(values).expect("inserted"), 1);
        tx.commit().expect("committed");
    }
}
