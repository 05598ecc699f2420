use std::path::Path;
use std::process::{Command, Output};

use duolog_testkit::postgres::{SHARED_ENV, Shared};
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_duolog-bench");

/// The benchmarks that must exist, by the start of their names.
const BENCHMARKS: &[&str] = &[
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

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// Workloads check their own results; this test checks that all of them ran and gave finite ratios.
#[test]
fn every_workload_runs_and_its_results_are_right() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (dir, json) = (directory.path().to_str().expect("text"), directory.path().join("bench.json"));
    let server = Shared::get().expect("a server").admin_url();
    let mut command = Command::new(BENCH);
    command.args(["--smoke", "--dir", dir, "--json"]).arg(&json).env(SHARED_ENV, server);
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{}", text_of(&output));
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("a report")).expect("JSON");
    let benchmarks = report["benchmarks"].as_array().expect("a report");
    for name in BENCHMARKS {
        let of = |benchmark: &Value| benchmark["name"].as_str().is_some_and(|of| of.starts_with(name));
        assert!(benchmarks.iter().any(of), "{name} is missing\n{}", text_of(&output));
    }
    for benchmark in benchmarks {
        assert!(benchmark["runs"][0]["ratio"].is_number() && benchmark["failed"].is_null(), "{benchmark}");
    }
    let left: Vec<_> =
        directory.path().read_dir().expect("a directory").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["bench.json"], "temporary files are removed");
}

#[test]
fn a_missing_server_or_command_fails_the_benchmark() {
    for (args, why) in [
        (&["--only", "postgres/list"][..], "FAILED\n    DUOLOG_TEST_POSTGRES is not set"),
        (&["--only", "commands/append", "--binary", "/nowhere/duolog"], "FAILED\n    /nowhere/duolog is not built"),
    ] {
        let output = bench(&[&["--smoke", "--dir", env!("CARGO_TARGET_TMPDIR")], args].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
        assert!(text_of(&output).contains(why), "{}", text_of(&output));
    }
}

#[test]
fn a_directory_in_memory_is_refused() {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let output = bench(&["--smoke", "--dir", "/dev/shm", "--only", "read"]);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(text_of(&output).contains("tmpfs"), "{}", text_of(&output));
    }
}

#[test]
fn unknown_arguments_are_refused_and_the_workloads_are_listed() {
    for wrong in [&["--fast"][..], &["--only", "nothing-like-it"], &["--json"], &["--smoke", "--docs", "x.md"]] {
        let output = bench(wrong);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(text_of(&output).contains("commands follow search"), "{}", text_of(&output));
    }
}

#[test]
fn help_prints_the_usage() {
    for flag in ["--help", "-h"] {
        let output = bench(&[flag]);
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
        assert!(
            output.stdout.starts_with(b"duolog-bench [--smoke]") && output.stderr.is_empty(),
            "{}",
            text_of(&output)
        );
    }
}
