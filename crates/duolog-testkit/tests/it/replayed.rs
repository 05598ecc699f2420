use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use duolog_testkit::postgres::{Access, Shared};
use duolog_testkit::replay::{Cases, Fault, Options, kills, pauses, run, transactions};

/// Returns the binary next to those of this crate; `make build` and every run of the whole workspace build it.
fn duolog() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_duolog-crash")).with_file_name("duolog");
    assert!(beside.is_file(), "{} is not built: cargo build -p duolog-cli", beside.display());
    beside
}

/// Returns a random seed; the message has it, and `duolog-crash` repeats the run.
fn seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs()
}

fn replayed(faults: &[Fault], points: usize) {
    let (binary, seed, faults) = (duolog(), seed(), faults.to_vec());
    let scripts = faults.len().max(1) as u64;
    let options = Options { binary, seed, scripts, commands: 30, points: Some(points), faults };
    let summary = run(&options).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(summary.points >= points, "{summary:?}");
}

#[test]
fn a_crash_at_any_system_call_loses_nothing_acknowledged() {
    replayed(&[], 40);
}

#[test]
fn a_failure_of_any_system_call_loses_nothing_acknowledged() {
    replayed(&Fault::ALL, 12);
}

fn cases(cases: usize, store: Option<&Access>) -> Cases {
    Cases { binary: duolog(), seed: seed(), cases: Some(cases), only: None, store: store.cloned() }
}

fn stopped(count: usize, store: Option<&Access>) {
    let cases = cases(count, store);
    let tried = pauses(&cases).unwrap_or_else(|broken| panic!("seed {}: {broken}", cases.seed));
    assert!(tried > 0);
}

fn killed(count: usize, store: Option<&Access>) {
    let cases = cases(count, store);
    let tried = kills(&cases).unwrap_or_else(|broken| panic!("seed {}: {broken}", cases.seed));
    assert!(tried > 0);
}

#[test]
fn an_order_explains_a_command_that_is_stopped_at_any_step_while_others_run() {
    stopped(24, None);
}

#[test]
fn an_order_explains_a_command_that_is_stopped_at_any_step_on_a_server() {
    stopped(12, Some(Shared::get().expect("a server")));
}

#[test]
fn a_command_that_is_killed_at_any_step_and_repeated_happens_once() {
    killed(40, None);
}

#[test]
fn a_command_that_is_killed_at_any_step_on_a_server_and_repeated_happens_once() {
    killed(20, Some(Shared::get().expect("a server")));
}

fn atomic(count: usize, store: Option<&Access>) {
    let cases = cases(count, store);
    let tried = transactions(&cases).unwrap_or_else(|broken| panic!("seed {}: {broken}", cases.seed));
    assert!(tried > 0);
}

#[test]
fn a_command_that_is_killed_at_any_step_is_done_or_not_started() {
    atomic(200, None);
}

#[test]
fn a_command_that_is_killed_at_any_step_on_a_server_is_done_or_not_started() {
    atomic(70, Some(Shared::get().expect("a server")));
}
