use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use duolog_testkit::postgres::{Access, Shared};
use duolog_testkit::replay::{Cases, Fault, Options, kills, pauses, run, transactions};

/// The binary beside those of this crate; `make build` puts it there, and so does any run of the whole workspace.
fn duolog() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_duolog-crash")).with_file_name("duolog");
    assert!(beside.is_file(), "{} is not built: cargo build -p duolog-cli", beside.display());
    beside
}

/// Another each time; the message has it, and `duolog-crash` plays it again.
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
fn whatever_system_call_of_the_binary_a_crash_falls_on_nothing_acknowledged_is_lost() {
    replayed(&[], 40);
}

#[test]
fn whatever_system_call_of_the_binary_fails_nothing_acknowledged_is_lost() {
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
fn a_command_that_is_stopped_at_any_step_while_others_work_is_explained_by_some_order() {
    stopped(24, None);
}

#[test]
fn a_command_that_is_stopped_at_any_step_on_a_server_is_explained_by_some_order() {
    stopped(12, Some(Shared::get().expect("a server")));
}

#[test]
fn a_command_that_is_killed_at_any_step_and_given_again_happens_once() {
    killed(40, None);
}

#[test]
fn a_command_that_is_killed_at_any_step_on_a_server_and_given_again_happens_once() {
    killed(20, Some(Shared::get().expect("a server")));
}

fn whole(count: usize, store: Option<&Access>) {
    let cases = cases(count, store);
    let tried = transactions(&cases).unwrap_or_else(|broken| panic!("seed {}: {broken}", cases.seed));
    assert!(tried > 0);
}

#[test]
fn a_command_that_is_killed_at_any_step_is_done_or_not_begun() {
    whole(200, None);
}

#[test]
fn a_command_that_is_killed_at_any_step_on_a_server_is_done_or_not_begun() {
    whole(70, Some(Shared::get().expect("a server")));
}
