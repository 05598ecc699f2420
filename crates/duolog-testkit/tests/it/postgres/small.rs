use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use duolog_testkit::postgres::{Options, Server, SmallDisk};

const MB: u64 = 1024 * 1024;
/// Text that does not compress, so that it needs pages.
const ROWS: &str = "INSERT INTO t SELECT repeat(md5(n::text), 30) FROM generate_series(1, 10000) n";

#[test]
fn a_full_disk_of_tables_refuses_rows_until_space_is_freed() {
    let server = Server::start_small(SmallDisk::Tables(64 * MB)).expect("a server");
    let database = server.create_database().expect("a database");
    database.run_sql("CREATE TABLE t (v text)").expect("a table");
    server.fill_disk().expect("full");
    let error = database.run_sql(ROWS).expect_err("no room");
    assert_eq!(error.sqlstate(), Some("53100"), "{error}");
    assert!(error.to_string().contains("No space left on device"), "{error}");
    assert_eq!(database.run_sql("SELECT count(*) FROM t").expect("a count"), "0");
    server.free_disk().expect("room");
    database.run_sql(ROWS).expect("rows");
    assert_eq!(database.run_sql("SELECT count(*) FROM t").expect("a count"), "10000");
}

#[test]
fn a_full_disk_of_the_write_ahead_log_stops_the_server_and_loses_no_row() {
    // Writes only to the write-ahead log: a table that grows would be refused first, and the server would keep running.
    const MESSAGES: &str = "SELECT count(pg_logical_emit_message(true, 'test', repeat('x', 1000000)))
        FROM generate_series(1, 100)";
    // No checkpoint meanwhile: it would be the first to find no space.
    // No automatic restart: a server that is stopped during its own recovery may take minutes to stop.
    let settings = [("max_wal_size", "1GB"), ("restart_after_crash", "off")];
    let options = Options::default().small_disk(SmallDisk::Everything(96 * MB)).settings(&settings);
    let mut server = options.start().expect("a server");
    server.run_sql("postgres", "CREATE TABLE t (v text); INSERT INTO t VALUES ('kept')").expect("a row");
    server.fill_disk().expect("full");
    let error = server.run_sql("postgres", MESSAGES).expect_err("no room");
    assert!(error.to_string().contains("server closed the connection"), "{error}");
    assert_eq!(error.sqlstate(), Some("53100"), "{error}");
    assert!(server.log_tail().contains("PANIC:  could not write to file \"pg_wal/"), "{}", server.log_tail());
    server.free_disk().expect("room");
    server.restart().expect("restarted");
    assert_eq!(server.run_sql("postgres", "SELECT count(*) FROM t WHERE v = 'kept'").expect("a count"), "1");
    server.run_sql("postgres", ROWS).expect("rows");
}

#[test]
fn a_file_that_may_not_grow_is_a_full_disk_too() {
    let server = Server::start_small(SmallDisk::EachFile(4 * MB)).expect("a server");
    let database = server.create_database().expect("a database");
    database.run_sql("CREATE TABLE t (v text)").expect("a table");
    let error = database.run_sql(ROWS).expect_err("no room");
    assert_eq!(error.sqlstate(), Some("53100"), "{error}");
    database.run_sql("INSERT INTO t VALUES ('small')").expect("the server runs on");
}

fn is_mounted(data: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    mounts.contains(data.to_str().expect("text"))
}

#[test]
fn a_small_disk_goes_with_its_server() {
    let server = Server::start_small(SmallDisk::Everything(64 * MB)).expect("a server");
    let data = server.data();
    assert!(is_mounted(&data));
    drop(server);
    assert!(!is_mounted(&data) && !data.exists());
}

/// Runs itself again as the process that dies.
#[test]
fn a_small_disk_of_a_dead_starter_is_taken_off_by_the_next_start() {
    const STARTER: &str = "DUOLOG_TEST_STARTER";
    if let Some(told) = std::env::var_os(STARTER) {
        let server = Server::start_small(SmallDisk::Everything(64 * MB)).expect("a server");
        std::fs::write(told, server.data().to_str().expect("text")).expect("told");
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).expect("dead");
    }
    let told = tempfile::NamedTempFile::new().expect("a file");
    let mut starter = Command::new(std::env::current_exe().expect("this binary"));
    starter.args(["--exact", "postgres::small::a_small_disk_of_a_dead_starter_is_taken_off_by_the_next_start"]);
    let output = starter.env(STARTER, told.path()).output().expect("a run");
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    let data = PathBuf::from(std::fs::read_to_string(told.path()).expect("a path"));
    let _next = Server::start().expect("a server");
    assert!(!is_mounted(&data) && !data.exists());
}
