use std::net::TcpListener;
use std::process::{Command, Stdio};

use duolog_testkit::postgres::{Access, Error, NewRole, Options, SHARED_ENV, Server, Shared};

use super::{data_of, postmaster_of, wait_end};

/// Tells a test that it runs in a separate process.
const CHILD: &str = "DUOLOG_TEST_CHILD";

fn count(server: &Access) -> String {
    server.run_sql("postgres", "SELECT count(*) FROM t").expect("a count")
}

#[test]
fn a_server_keeps_its_promises_and_listens_on_loopback_only() {
    let server = Server::start().expect("a server");
    for (setting, value) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("password_encryption", "scram-sha-256"),
        ("TimeZone", "UTC"),
        ("max_connections", "100"),
        ("server_encoding", "UTF8"),
    ] {
        assert_eq!(server.run_sql("postgres", &format!("SHOW {setting}")).expect("an answer"), value, "{setting}");
    }
    let sorted = server.run_sql("postgres", "SELECT v FROM (VALUES ('a'), ('B'), ('c')) t (v) ORDER BY v");
    assert_eq!(sorted.expect("rows"), "a\nB\nc", "the default order is not that of bytes");
}

#[test]
fn without_the_password_nobody_gets_in() {
    let server = Server::start().expect("a server");
    let wrong = Access::parse(&format!("postgresql://postgres:wrong@{}/postgres", server.address())).expect("a URL");
    let error = wrong.run_sql("postgres", "SELECT 1").expect_err("a wrong password").to_string();
    assert!(error.contains("password authentication failed"), "{error}");
}

#[test]
fn settings_and_the_limit_of_connections_are_as_asked() {
    let options = Options::default().connections(5).settings(&[("fsync", "off"), ("application_name", "it's")]);
    let server = options.start().expect("a server");
    let shown = |name: &str| server.run_sql("postgres", &format!("SHOW {name}")).expect("an answer");
    assert_eq!([shown("fsync"), shown("max_connections")], ["off", "5"]);
}

#[test]
fn a_setting_that_does_not_exist_is_an_error_with_the_servers_words() {
    let error = Options::default().settings(&[("no_such_setting", "1")]).start().expect_err("no such setting");
    assert!(matches!(&error, Error::NotReady { log } if log.contains("no_such_setting")), "{error}");
}

#[test]
fn two_servers_live_side_by_side() {
    let [one, two] = std::thread::scope(|scope| {
        [scope.spawn(Server::start), scope.spawn(Server::start)].map(|started| started.join().expect("a thread"))
    });
    // The threads that started them have ended; the servers must run.
    let (one, two) = (one.expect("a server"), two.expect("a server"));
    assert_ne!(one.port(), two.port());
    assert_ne!(one.data(), two.data());
    one.run_sql("postgres", "CREATE TABLE t (v int)").expect("a table");
    let error = two.run_sql("postgres", "SELECT * FROM t").expect_err("another server");
    assert_eq!(error.sqlstate(), Some("42P01"));
}

#[test]
fn whatever_ends_a_server_a_restart_keeps_its_rows_and_its_port() {
    let mut server = Server::start().expect("a server");
    let port = server.port();
    server.run_sql("postgres", "CREATE TABLE t (v int)").expect("a table");
    let ends: [fn(&mut Server); 4] = [
        |server| server.kill().expect("killed"),
        |server| server.stop_immediate().expect("stopped"),
        |server| server.stop().expect("stopped"),
        |_| (),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        server.run_sql("postgres", "INSERT INTO t VALUES (1)").expect("a row");
        let before = postmaster_of(&server.data());
        end(&mut server);
        server.restart().expect("restarted");
        assert_ne!(postmaster_of(&server.data()), before);
        assert_eq!((count(&server), server.port()), ((number + 1).to_string(), port));
    }
}

#[test]
fn a_killed_server_is_gone_with_all_its_processes() {
    let mut server = Server::start().expect("a server");
    let pids = server.run_sql("postgres", "SELECT pid FROM pg_stat_activity").expect("processes");
    assert!(pids.lines().count() > 3, "{pids}");
    server.kill().expect("killed");
    for pid in pids.lines() {
        wait_end(pid.parse().expect("a process id"));
    }
    let error = server.run_sql("postgres", "SELECT 1").expect_err("no server").to_string();
    assert!(error.contains("Connection refused"), "{error}");
    assert_eq!(server.pid(), None);
}

#[test]
fn a_dropped_server_leaves_nothing() {
    for kill_first in [false, true] {
        let mut server = Server::start().expect("a server");
        let (data, pid) = (server.data(), postmaster_of(&server.data()));
        if kill_first {
            server.kill().expect("killed");
        }
        drop(server);
        wait_end(pid);
        assert!(!data.parent().expect("a parent").exists());
    }
}

#[test]
fn a_database_goes_with_its_guard_whoever_is_connected() {
    let server = Server::start().expect("a server");
    let (one, two) = (server.create_database().expect("a database"), server.create_database().expect("a database"));
    assert_ne!(one.name(), two.name());
    one.run_sql("CREATE TABLE t (v int)").expect("a table");
    assert_eq!(two.run_sql("SELECT to_regclass('t') IS NULL").expect("an answer"), "t");

    let mut client = Command::new("psql");
    client.args(["-X", "-At", "-d", &one.url()]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = client.spawn().expect("a client");
    let mut said = std::io::BufReader::new(client.stdout.take().expect("its output"));
    let mut stdin = client.stdin.take().expect("its input");
    std::io::Write::write_all(&mut stdin, b"SELECT 'connected';\n").expect("a question");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).expect("an answer");
    assert_eq!(line, "connected\n");

    let name = one.name().to_owned();
    drop(one);
    let left = server.run_sql("postgres", "SELECT datname FROM pg_database WHERE datname LIKE 'duolog%'");
    let left = left.expect("names");
    assert!(!left.contains(&name) && left.contains(two.name()), "{left}");
    drop(stdin);
    client.wait().expect("its end");
}

#[test]
fn a_role_has_its_own_password_and_limit() {
    let server = Server::start().expect("a server");
    let limited = NewRole { connections: Some(0), attributes: "CREATEDB".to_owned() };
    let (free, limited) =
        (server.create_role(&NewRole::default()).expect("a role"), server.create_role(&limited).expect("a role"));
    let database = server.create_database_for(&free).expect("a database");
    let access = Access::parse(&database.url_as(&free)).expect("a URL");
    let who = access.run_sql(database.name(), "CREATE TABLE t (v int); SELECT current_user").expect("an answer");
    assert_eq!(who, free.name());
    let refused = Access::parse(&database.url_as(&limited)).expect("a URL");
    let error = refused.run_sql(database.name(), "SELECT 1").expect_err("no connection is left").to_string();
    assert!(error.contains("too many connections for role"), "{error}");
    let name = free.name().to_owned();
    drop(database);
    drop(free);
    let sql = format!("SELECT count(*) FROM pg_roles WHERE rolname = '{name}'");
    assert_eq!(server.run_sql("postgres", &sql).expect("a count"), "0");
}

#[test]
fn statements_before_a_failing_one_stay_and_those_after_do_not_run() {
    let server = Server::start().expect("a server");
    let error = server.run_sql("postgres", "CREATE TABLE t (v int); SELECT 1/0; INSERT INTO t VALUES (1)");
    assert_eq!(error.expect_err("a division by zero").sqlstate(), Some("22012"));
    assert_eq!(count(&server), "0");
}

/// Runs a test of this binary in a separate process, started by `command`.
fn again(mut command: Command, test: &str) {
    command.args(["--exact", test]).env(CHILD, "1");
    let output = command.output().expect("a run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Runs itself twice, alone and under `duolog-postgres run`, because the shared server belongs to a process.
#[test]
fn shared_is_the_given_server_or_else_one_of_this_process() {
    if std::env::var_os(CHILD).is_none() {
        let name = "postgres::server::shared_is_the_given_server_or_else_one_of_this_process";
        let this = std::env::current_exe().expect("this binary");
        let mut alone = Command::new(&this);
        alone.env_remove(SHARED_ENV);
        again(alone, name);
        let mut wrapped = Command::new(env!("CARGO_BIN_EXE_duolog-postgres"));
        wrapped.args(["run", "--"]).arg(this);
        again(wrapped, name);
        return;
    }
    let shared = Shared::get().expect("a server");
    assert!(std::ptr::eq(shared, Shared::get().expect("the same")));
    let database = shared.create_database().expect("a database");
    assert_eq!(database.run_sql("SELECT 1").expect("an answer"), "1");
    let children = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    let children = children.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let ours =
        children.collect::<String>().split_whitespace().any(|pid| pid == postmaster_of(&data_of(shared)).to_string());
    match std::env::var(SHARED_ENV) {
        Ok(given) => assert!(!ours && shared.admin_url() == given),
        Err(_) => assert!(ours, "the server is a child of this process"),
    }
}

#[test]
fn a_restart_waits_for_a_port_that_somebody_has_for_a_while() {
    let mut server = Server::start().expect("a server");
    let log = server.data().parent().expect("a parent").join("log");
    server.stop().expect("stopped");
    let other = TcpListener::bind(("127.0.0.1", server.port())).expect("the port");
    std::thread::scope(|scope| {
        let restarted = scope.spawn(|| server.restart());
        while !std::fs::read_to_string(&log).is_ok_and(|log| log.contains("could not bind")) {
            std::thread::yield_now();
        }
        drop(other);
        restarted.join().expect("a thread").expect("restarted");
    });
    assert_eq!(server.run_sql("postgres", "SELECT 1").expect("an answer"), "1");
}
