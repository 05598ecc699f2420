use std::process::{Command, Output};

use duolog_testkit::is_help_requested;

const TOOLS: [(&str, &str); 4] = [
    ("duolog-blackbox", env!("CARGO_BIN_EXE_duolog-blackbox")),
    ("duolog-compat", env!("CARGO_BIN_EXE_duolog-compat")),
    ("duolog-crash", env!("CARGO_BIN_EXE_duolog-crash")),
    ("duolog-postgres", env!("CARGO_BIN_EXE_duolog-postgres")),
];

fn run(binary: &str, argument: &str) -> Output {
    Command::new(binary).arg(argument).output().expect("an output")
}

#[test]
fn every_tool_prints_its_usage() {
    for (name, binary) in TOOLS {
        for flag in ["--help", "-h"] {
            let output = run(binary, flag);
            assert_eq!(output.status.code(), Some(0), "{name} {flag}: {output:?}");
            assert!(
                output.stdout.starts_with(name.as_bytes()) && output.stderr.is_empty(),
                "{name} {flag}: {output:?}"
            );
        }
    }
}

#[test]
fn wrong_usage_has_exit_code_2() {
    for (name, binary) in TOOLS.into_iter().filter(|(name, _)| *name != "duolog-compat") {
        assert_eq!(run(binary, "--wrong").status.code(), Some(2), "{name}");
    }
}

#[test]
fn arguments_of_another_command_are_not_a_request_for_help() {
    assert!(is_help_requested(&["replay", "--help"]));
    assert!(!is_help_requested(&["run", "--", "cargo", "--help"]));
}
