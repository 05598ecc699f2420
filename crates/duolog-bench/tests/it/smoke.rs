use std::path::Path;
use std::process::{Command, Output};

use duolog_testkit::postgres::{SHARED_ENV, Shared};
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_duolog-bench");

/// The figures that must be there, by the beginning of their names.
const FIGURES: &[&str] = &[
    "append/one",
    "append/hundred",
    "append/power",
    "append/calls",
    "read/lines",
    "read/replay",
    "read/cat",
    "read/last",
    "read/backup",
    "many/round-robin",
    "many/first list",
    "many/backup",
    "sessions/open",
    "sessions/search",
    "sessions/doctor",
    "sessions/stats",
    "conversations/one",
    "conversations/group",
    "conversations/fork",
    "runs/workflow and rare status",
    "runs/transition",
    "vectors/cosine",
    "vectors/postgres",
    "postgres/transition",
    "postgres/list",
    "commands/append",
    "commands/new home",
    "follow/process",
    "search/indexing",
    "search/rare",
    "search/append",
];

fn bench(args: &[&str]) -> Output {
    Command::new(BENCH).args(args).env_remove(SHARED_ENV).output().expect("starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// Workloads assert their own results; here it shows that all of them ran and gave finite ratios.
#[test]
fn every_workload_runs_and_its_results_are_right() {
    let room = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (dir, json) = (room.path().to_str().expect("text"), room.path().join("bench.json"));
    let server = Shared::get().expect("a server").admin_url();
    let mut command = Command::new(BENCH);
    command.args(["--smoke", "--dir", dir, "--json"]).arg(&json).env(SHARED_ENV, server);
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("figures")).expect("JSON");
    let figures = report["figures"].as_array().expect("figures");
    for name in FIGURES {
        let of = |figure: &Value| figure["name"].as_str().is_some_and(|of| of.starts_with(name));
        assert!(figures.iter().any(of), "{name} is missing\n{}", said(&output));
    }
    for figure in figures {
        assert!(figure["runs"][0]["ratio"].is_number() && figure["failed"].is_null(), "{figure}");
    }
    let left: Vec<_> = room.path().read_dir().expect("a directory").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["bench.json"], "the room is left as it was");
}

#[test]
fn a_missing_server_or_command_fails_the_figure() {
    for (args, why) in [
        (&["--only", "postgres/list"][..], "FAILED\n    no PostgreSQL server is named in DUOLOG_TEST_POSTGRES"),
        (&["--only", "commands/append", "--binary", "/nowhere/duolog"], "FAILED\n    /nowhere/duolog is not built"),
    ] {
        let output = bench(&[&["--smoke", "--dir", env!("CARGO_TARGET_TMPDIR")], args].concat());
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
}

#[test]
fn memory_is_no_place_to_measure() {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let output = bench(&["--smoke", "--dir", "/dev/shm", "--only", "read"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("tmpfs"), "{}", said(&output));
    }
}

#[test]
fn unknown_arguments_are_refused_and_the_workloads_are_listed() {
    for wrong in [&["--fast"][..], &["--only", "nothing-like-it"], &["--json"], &["--smoke", "--docs", "x.md"]] {
        let output = bench(wrong);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("commands follow search"), "{}", said(&output));
    }
}
