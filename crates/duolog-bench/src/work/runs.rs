//! Runs: pages, and a transition against its statements with the bare driver.

use std::path::Path;
use std::rc::Rc;

use duolog::runs::{Attribution, End, NewRun, RunFilter, RunPage};
use duolog::{Clock as _, Durability, RunId, RunStatus, Store, SystemClock, TriggerType};
use rusqlite::{Connection, params};

use crate::bare::Bare;
use crate::bench::{Bench, database_in, options_in, store_in};
use crate::benchmark::Target;
use crate::database::{self, TELL, new_id};
use crate::measure::{Case, in_turns, repeat};

const PAGE: u32 = 20;
const WORKFLOW: &str = "bench";
/// The number of cancelled runs, independent of the total.
const RARE: usize = 20;
/// The number of threads that create runs and share their commits; also the limit on running runs.
const THREADS: usize = 4;

/// Changes the status of a run, in the syntax of both engines once its parameters are numbered.
pub const TURN: &str = "UPDATE workflow_runs SET status = ?2, active_rank = ?3, lease_expires_at = ?4, updated_at = ?5 \
    WHERE id = ?1 AND status = ?6 AND fence = 0";

/// Pages of many runs against pages of few, a rare status against a common one, and a transition.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let (many, few) = (bench.size(30_000, 400), bench.size(300, 100));
    let (large, small) = (Rc::new(Runs::of(bench, many)), Rc::new(Runs::of(bench, few)));
    let rounds = bench.size(201, 3);
    let filter = |status, of_workflow: bool| RunFilter {
        statuses: vec![status],
        workflow_name: of_workflow.then(|| WORKFLOW.to_owned()),
        ..RunFilter::default()
    };
    let mut cases = Vec::new();
    for (name, which, filter) in [
        ("runs/first page", "first", RunFilter::default()),
        ("runs/common page", "newest succeeded", filter(RunStatus::Succeeded, false)),
        ("runs/rare page", "newest cancelled", filter(RunStatus::Cancelled, false)),
    ] {
        let (large, small) = (Rc::clone(&large), Rc::clone(&small));
        let what = format!("the {which} 20 of {many} runs / of {few}");
        cases.push(Case::growth(name, &what, Target::AtMost(2.0), move || {
            in_turns(rounds, (1, 1), || large.list(&filter), || small.list(&filter))
        }));
    }
    let (rare, common) = (filter(RunStatus::Cancelled, true), filter(RunStatus::Succeeded, true));
    let what = format!("20 cancelled runs of a workflow among {many} / 20 succeeded");
    cases.push(Case::growth("runs/workflow and rare status", &what, Target::AtMost(2.0), move || {
        in_turns(rounds, (1, 1), || large.list(&rare), || large.list(&common))
    }));
    cases.push(transition(bench));
    cases
}

/// A home with ended runs.
struct Runs {
    store: Store,
}

impl Runs {
    fn of(bench: &Bench, count: usize) -> Self {
        let directory = bench.new_dir();
        let store = store_in(&directory);
        let session = store.sessions().open_thread("runs").expect("a session").id;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, session) = (&store, &session);
                scope.spawn(move || {
                    let runs = store.runs().durable(Durability::Process);
                    for number in (thread..count).step_by(THREADS) {
                        let mut new = NewRun::new(WORKFLOW, TriggerType::Webhook, &format!("acme/site#{number}"));
                        new.session_id = Some(session.clone());
                        let run = runs.open(&runs.start(&new).expect("started").run.id);
                        if number % (count / RARE) == 3 {
                            run.cancel(&Attribution::default()).expect("cancelled");
                        } else {
                            run.finish(&End::Succeeded, None).expect("finished");
                        }
                    }
                });
            }
        });
        Self { store }
    }

    fn list(&self, filter: &RunFilter) {
        let list = self.store.runs().list(filter, &RunPage::new(PAGE, None)).expect("a page");
        assert_eq!(list.runs.len(), PAGE as usize);
        assert!(list.runs.iter().all(|run| filter.statuses.iter().all(|status| *status == run.status)));
    }
}

/// Starts a run.
pub fn start(store: &Store, trigger: &str) -> RunId {
    let runs = store.runs().durable(Durability::Process);
    runs.start(&NewRun::new(WORKFLOW, TriggerType::Cli, trigger)).expect("started").run.id
}

/// Pauses and resumes a run.
pub fn turn(store: &Store, run: &RunId) {
    let open = store.runs().durable(Durability::Process).open(run);
    assert!(open.pause(&Attribution::default()).expect("paused").changed);
    assert!(open.resume(&Attribution::default()).expect("resumed").changed);
}

/// Returns the log line of a transition.
pub fn line(run: &RunId, id: &str, now: &str, before: &str, after: &str) -> String {
    format!(
        "{{\"type\":\"system\",\"subtype\":\"duolog.run\",\"uuid\":\"{id}\",\"timestamp\":\"{now}\",\
         \"sessionId\":\"{run}\",\"run\":\"{run}\",\"event\":\"turn\",\"status\":\"{after}\",\
         \"previousStatus\":\"{before}\"}}"
    )
}

/// A pause or a resume, with its line in the log.
fn transition(bench: &Bench) -> Case {
    // As a long-running process opens it: a thread folds.
    let store = Store::open(options_in(&bench.new_dir())).expect("a store");
    let run = start(&store, "turned");
    let bare = StatusChange::new(&bench.new_dir());
    let (rounds, each) = (bench.size(201, 3), 5);
    let what = "a pause or a resume / its UPDATE, its outbox INSERT and its line with bare code";
    Case::cost("runs/transition", what, Target::AtMost(1.5), move || {
        in_turns(
            rounds,
            (each * 2, each * 2),
            || repeat(each, || turn(&store, &run)),
            || {
                repeat(each, || {
                    bare.turn("running", "paused");
                    bare.turn("paused", "running");
                });
            },
        )
    })
}

/// A run that is changed with bare code, in a database with the same schema.
struct StatusChange {
    connection: Connection,
    run: RunId,
    log: Bare,
}

impl StatusChange {
    fn new(directory: &Path) -> Self {
        let store = store_in(directory);
        let run = start(&store, "turned");
        store.close().expect("closed");
        let connection = database::open(&database_in(directory), Durability::Process);
        Self { connection, run, log: Bare::in_dir(directory) }
    }

    fn turn(&self, before: &str, after: &str) {
        let (connection, now, id) = (&self.connection, SystemClock.now().to_string(), new_id());
        let (run, lease) = (self.run.to_string(), (after == "running").then_some(&now));
        database::run(connection, "BEGIN IMMEDIATE", []);
        let rank = i64::from(after == "paused");
        assert_eq!(database::run(connection, TURN, params![run, after, rank, lease, now, before]), 1);
        let mut line = line(&self.run, &id, &now, before, after);
        assert_eq!(database::run(connection, TELL, params![run, id, now, line]), 1);
        database::run(connection, "COMMIT", []);
        line.push('\n');
        self.log.append(line.as_bytes());
    }
}
