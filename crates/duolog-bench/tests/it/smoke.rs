use std::path::Path;
use std::process::{Command, Output};

use duolog_testkit::postgres::{SHARED_ENV, Shared};
use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_duolog-bench");

fn bench(args: &[&str]) -> Output {
    Command::new(BENCH).args(args).output().expect("starts")
}

/// The same with a server to measure on.
fn bench_with_server(args: &[&str]) -> Output {
    let server = Shared::get().expect("a server").admin_url();
    Command::new(BENCH).args(args).env(SHARED_ENV, server).output().expect("starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// Workloads assert their own results; here it shows that all of them ran and told finite ratios.
#[test]
fn every_workload_runs_and_its_results_are_right() {
    let room = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (dir, json) = (room.path().to_str().expect("text"), room.path().join("bench.json"));
    let output = bench_with_server(&["--smoke", "--dir", dir, "--json", json.to_str().expect("text")]);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&std::fs::read(&json).expect("figures")).expect("JSON");
    let figures = report["figures"].as_array().expect("figures");
    for workload in [
        "append",
        "checked",
        "power",
        "group",
        "scan",
        "last",
        "open",
        "list",
        "conversations",
        "vectors/cosine",
        "vectors/l2",
        "engines/sqlite",
        "engines/postgres",
        "one-shot",
        "wake",
        "tail",
        "search/indexing",
        "search/rare",
        "search/append",
    ] {
        let of = |figure: &&Value| figure["name"].as_str().is_some_and(|name| name.starts_with(workload));
        assert!(figures.iter().any(|figure| of(&figure)), "{workload} told nothing\n{}", said(&output));
    }
    for figure in figures {
        assert!(figure["ratio"]["median"].is_number() && figure["verdict"] == "not judged", "{figure}");
    }
    let left: Vec<_> = room.path().read_dir().expect("a directory").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["bench.json"], "the room is left as it was");
}

#[test]
fn memory_is_no_place_to_measure() {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let output = bench(&["--smoke", "--dir", "/dev/shm", "scan"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("tmpfs"), "{}", said(&output));
    }
}

#[test]
fn what_is_not_known_is_refused_and_what_is_known_is_listed() {
    for wrong in [&["--fast"][..], &["nothing-like-it"], &["--json"]] {
        let output = bench(wrong);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("one-shot wake tail search"), "{}", said(&output));
    }
}
