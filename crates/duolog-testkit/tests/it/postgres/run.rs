use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use duolog_testkit::postgres::{Access, Server};

use super::{data_of, postmaster_of, wait_end, wait_released};

const BINARY: &str = env!("CARGO_BIN_EXE_duolog-postgres");
/// Prints the data directory of the shared server.
const WHERE: &str = r#"psql -X -At -d "$DUOLOG_TEST_POSTGRES" -c "SHOW data_directory""#;

fn run(script: &str) -> Output {
    Command::new(BINARY).args(["run", "--", "sh", "-c", script]).output().expect("a run")
}

/// Returns the data directory that the command printed, after its server and its keeper ended.
fn gone(output: &Output) -> PathBuf {
    let data = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    assert!(data.ends_with("data"), "{output:?}");
    wait_released(&data);
    data
}

#[test]
fn the_exit_code_is_that_of_the_command_and_the_server_is_removed() {
    let output = run(&format!("{WHERE}; exit 7"));
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(!gone(&output).parent().expect("a parent").exists());
}

#[test]
fn a_signal_is_that_of_the_command_and_the_server_is_removed() {
    for signal in [2, 9, 15] {
        let output = run(&format!("{WHERE}; kill -{signal} $$"));
        assert_eq!(output.status.signal(), Some(signal), "{output:?}");
        assert!(!gone(&output).parent().expect("a parent").exists());
    }
}

#[test]
fn the_command_has_no_extra_child() {
    let output = run("cat /proc/$$/task/$$/children");
    assert_eq!(String::from_utf8_lossy(&output.stdout).split_whitespace().count(), 1, "only cat: {output:?}");
}

#[test]
fn a_failure_of_the_wrapper_has_its_own_exit_code() {
    let absent = Command::new(BINARY).args(["run", "--", "/no/such/command"]).output().expect("a run");
    let said = String::from_utf8_lossy(&absent.stderr);
    assert!(absent.status.code() == Some(125) && said.contains("/no/such/command"), "{absent:?}");
    for wrong in [&[][..], &["run"], &["run", "--"], &["run", "true"]] {
        let output = Command::new(BINARY).args(wrong).output().expect("a run");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn when_its_starter_is_killed_a_server_stops_and_the_next_start_sweeps() {
    let mut starter = Command::new(BINARY);
    starter.args(["keep", &std::process::id().to_string()]).stdout(Stdio::piped());
    let mut starter = starter.spawn().expect("a starter");
    let mut line = String::new();
    BufReader::new(starter.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let access = Access::parse(line.trim_end().strip_prefix("ready ").expect("a URL")).expect("a URL");
    let data = data_of(&access);
    let pid = postmaster_of(&data);

    starter.kill().expect("SIGKILL");
    starter.wait().expect("its end");
    wait_end(pid);
    assert!(data.exists(), "no process is left to remove it");
    let next = Server::start().expect("a server");
    assert!(!data.parent().expect("a parent").exists());
    assert!(next.data().exists());
}

/// The server never runs as root; here the process that starts it is not root either.
#[test]
fn somebody_who_is_not_root_can_start_a_server() {
    let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let binary = place.path().join("duolog-postgres");
    std::fs::copy(BINARY, &binary).expect("a copy");
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    command.env("TMPDIR", place.path()).args(["run", "--", "sh", "-c", WHERE]);
    let output = command.output().expect("a run");
    assert!(output.status.success(), "{output:?}");
    let data = gone(&output);
    assert!(data.starts_with(place.path()) && !data.exists(), "{output:?}");
}
