use std::path::Path;
use std::process::Command;

use duolog_testkit::postgres::{Access, Database, Plan, Proxy, Shared};

const INSERT: &str = "BEGIN; INSERT INTO t VALUES (1); COMMIT";

/// A database with an empty table, and a client that connects through a proxy.
struct Bench {
    proxy: Proxy,
    client: Access,
    database: Database,
}

impl Bench {
    fn new() -> Self {
        let shared = Shared::get().expect("a server");
        let database = shared.create_database().expect("a database");
        database.run_sql("CREATE TABLE t (v int)").expect("a table");
        let proxy = Proxy::start(shared.address()).expect("a proxy");
        let client = Access::parse(&proxy.url(&database.url())).expect("a URL");
        Self { proxy, client, database }
    }

    fn run(&self, sql: &str) -> Result<String, String> {
        self.client.run_sql(self.database.name(), sql).map_err(|error| error.to_string())
    }

    /// Returns the rows without the proxy, after all other connections to the database ended.
    fn rows(&self) -> String {
        let alone = "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
            AND backend_type = 'client backend' AND pid <> pg_backend_pid())
            LOOP PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$;";
        self.database.run_sql(&format!("{alone} SELECT count(*) FROM t")).expect("a count")
    }
}

#[test]
fn without_a_plan_everything_is_forwarded() {
    let bench = Bench::new();
    bench.run(INSERT).expect("a row");
    let long = bench.run("SELECT repeat('x', 1000000)").expect("a long row");
    assert_eq!((long.len(), bench.rows(), bench.proxy.fired()), (1_000_000, "1".to_owned(), 0));
    let sent = bench.run(&format!("SELECT length('{}')", "y".repeat(1_000_000))).expect("a long question");
    assert_eq!(sent, "1000000");
}

#[test]
fn after_a_cut_before_the_commit_there_is_no_row() {
    let bench = Bench::new();
    bench.proxy.plan(Plan::cut_before("commit"));
    let error = bench.run(INSERT).expect_err("cut");
    assert!(error.contains("server closed the connection"), "{error}");
    assert_eq!((bench.rows(), bench.proxy.fired()), ("0".to_owned(), 1));
    bench.run(INSERT).expect("a plan acts once");
    assert_eq!(bench.rows(), "1");
}

#[test]
fn after_a_cut_after_the_commit_there_is_a_row_and_the_client_has_an_error() {
    let bench = Bench::new();
    bench.proxy.plan(Plan::cut_after("commit"));
    let error = bench.run(INSERT).expect_err("cut");
    assert!(error.contains("server closed the connection"), "{error}");
    assert_eq!((bench.rows(), bench.proxy.fired()), ("1".to_owned(), 1));
}

#[test]
fn a_stalled_commit_waits_on_its_side_until_the_next_plan() {
    for (plan, meanwhile) in [(Plan::stall_before("commit"), "0"), (Plan::stall_after("commit"), "1")] {
        let bench = Bench::new();
        bench.proxy.plan(plan);
        std::thread::scope(|scope| {
            let client = scope.spawn(|| bench.run(INSERT));
            assert!(bench.proxy.wait_fired(1));
            let seen = bench.database.run_sql("SELECT count(*) FROM t").expect("a count");
            assert_eq!((seen.as_str(), client.is_finished()), (meanwhile, false));
            bench.proxy.plan(Plan::Pass);
            client.join().expect("a thread").expect("committed");
        });
        assert_eq!(bench.rows(), "1");
    }
}

#[test]
fn a_client_sees_another_version() {
    let bench = Bench::new();
    let ask = "\\echo :SERVER_VERSION_NAME";
    assert_ne!(bench.run(ask).expect("a version"), "13.4");
    bench.proxy.plan(Plan::Version("13.4".to_owned()));
    assert_eq!(bench.run(ask).expect("a version"), "13.4");
    assert_eq!(bench.run(ask).expect("a version"), "13.4", "every new client is told");
}

#[test]
fn a_proxy_that_refuses_keeps_open_connections_until_they_are_cut() {
    let bench = Bench::new();
    bench.proxy.plan(Plan::stall_before("commit"));
    std::thread::scope(|scope| {
        let client = scope.spawn(|| bench.run(INSERT));
        assert!(bench.proxy.wait_fired(1));
        bench.proxy.cut();
        client.join().expect("a thread").expect_err("cut");
    });
    bench.proxy.plan(Plan::Refuse);
    bench.run("SELECT 1").expect_err("refused");
    bench.proxy.plan(Plan::Pass);
    assert_eq!(bench.run("SELECT 1").expect("an answer"), "1");
    assert_eq!(bench.rows(), "0", "the stalled commit was lost with its connection");
}

/// Drivers prepare statements and send several at once; a message then has only the name of a statement.
#[test]
fn prepared_and_pipelined_commits_are_caught_too() {
    let pipelined = "\\startpipeline\nBEGIN;\nINSERT INTO t VALUES (1);\nCOMMIT;\n\\endpipeline\n";
    let one_by_one = "BEGIN;\nINSERT INTO t VALUES (1);\nCOMMIT;\n";
    for (script, mode) in [(one_by_one, "prepared"), (one_by_one, "extended"), (pipelined, "extended")] {
        for (plan, rows) in [(Plan::cut_before("COMMIT"), "0"), (Plan::cut_after("COMMIT"), "1")] {
            let bench = Bench::new();
            let directory = tempfile::tempdir().expect("a directory");
            let file = directory.path().join("script.sql");
            std::fs::write(&file, script).expect("a script");
            bench.proxy.plan(plan.clone());
            let output = pgbench(&file, mode, &bench.proxy.url(&bench.database.url()));
            assert!(output.contains("client 0 aborted"), "{mode} {plan:?}: {output}");
            assert_eq!((bench.rows().as_str(), bench.proxy.fired()), (rows, 1), "{mode} {plan:?} {script}");
        }
    }
}

fn pgbench(script: &Path, mode: &str, url: &str) -> String {
    let mut command = Command::new("pgbench");
    command.args(["--no-vacuum", "--transactions=1", "--protocol", mode, "--file"]).arg(script).arg(url);
    let output = command.output().expect("pgbench runs");
    String::from_utf8_lossy(&output.stderr).into_owned()
}
