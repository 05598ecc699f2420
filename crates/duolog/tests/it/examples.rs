//! Runs the programs in `examples/`. Cargo builds them with the tests.

use std::path::PathBuf;
use std::process::Command;

/// Runs an example and returns its output.
fn run(name: &str) -> Vec<String> {
    // This test is target/PROFILE/deps/it-HASH.
    let deps = std::env::current_exe().expect("a path").parent().map(PathBuf::from).expect("a directory");
    let program = deps.parent().expect("a directory").join("examples").join(name);
    let output = Command::new(&program).output().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed: {told}");
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn follow_prints_each_line_once() {
    assert_eq!(
        run("follow"),
        [
            r#"line 1: {"type":"user","text":"What is the plan?"}"#,
            r#"line 2: {"type":"user","text":"Read, change, test."}"#,
            r#"line 3: {"type":"user","text":"Go."}"#,
            "followed to byte 117",
        ]
    );
}

#[test]
fn conversation_forks_and_compacts() {
    let (name, red, blue) = (
        r#"{"role":"user","text":"Name a color"}"#,
        r#"{"role":"assistant","text":"Red"}"#,
        r#"{"role":"assistant","text":"Blue"}"#,
    );
    assert_eq!(
        run("conversation"),
        [
            format!("main: {name} {red}"),
            format!("retry: {name} {blue}"),
            r#"main, compacted: {"role":"system","text":"They named red"}"#.to_owned(),
            format!("main, undone: {name} {red}"),
        ]
    );
}

#[test]
fn worker_survives_a_kill() {
    assert_eq!(
        run("worker"),
        [
            "first: plan begins",
            "first: build begins",
            "first: killed",
            "second: plan is done already",
            "second: build begins",
            "second: publish begins",
            "run: succeeded",
        ]
    );
}

#[test]
fn gate_is_approved_from_another_thread() {
    let expected =
        ["waiting: Deploy v1.0 to production?", "approved by ada: the run is running", "finished: succeeded"];
    assert_eq!(run("gate"), expected);
}

#[test]
fn search_finds_words_and_prefixes() {
    let told = run("search");
    let counts: Vec<&String> = told.iter().filter(|line| line.ends_with(" found")).collect();
    assert_eq!(counts, ["deadlock: 2 found", "deadlock -tests: 1 found", "deploy*: 1 found"]);
    assert!(told.iter().any(|line| line == "  friday: Deployed."), "{told:?}");
}

#[test]
fn usage_lists_models_without_a_price() {
    let told = run("usage");
    assert_eq!(told[0], "2026-01-03: 1000 in, 200 out");
    assert_eq!(told.len(), 5, "{told:?}");
    assert!(told[3].starts_with("total: 3 responses, $0.0"), "{told:?}");
    assert_eq!(told[4], "no price is known for a-model-of-mine");
}

#[test]
fn exchange_moves_a_session_once() {
    assert_eq!(run("exchange"), ["exported: 1 branch, 2 messages, 1 line", "imported: 2 messages", "again: conflict"]);
}

#[test]
fn async_tasks_receive_lines_through_a_channel() {
    assert_eq!(
        run("async_tasks"),
        [r#"received {"n":1}"#, r#"received {"n":2}"#, r#"received {"n":3}"#, "follower stopped", "closed"]
    );
}
