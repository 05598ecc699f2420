use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use duolog_testkit::blackbox::{Options, Profile, run, summary};
use duolog_testkit::postgres::Shared;

/// The binary beside those of this crate; `make build` puts it there, and so does any run of the whole workspace.
fn duolog() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_duolog-blackbox")).with_file_name("duolog");
    assert!(beside.is_file(), "{} is not built: cargo build -p duolog-cli", beside.display());
    beside
}

fn options(profile: Profile, rounds: u32) -> Options {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let binary = duolog();
    let directory = binary.parent().expect("a directory").to_owned();
    Options {
        seed,
        rounds,
        time: None,
        processes: 8,
        steps: 20,
        profile,
        binary,
        store: None,
        directory,
        keep: true,
        keep_going: false,
    }
}

/// The seed is another each time and is printed; `duolog-blackbox --seed SEED` plays it again.
#[allow(clippy::print_stdout)]
fn holds(options: &Options) {
    println!("seed {}", options.seed);
    let tally = run(options, &mut |line| println!("{line}"));
    println!("{}", summary(&tally).join("\n"));
    assert_eq!((tally.passed, tally.failed), (options.rounds, 0), "seed {}", options.seed);
    assert!(tally.lines > 0, "nothing was acknowledged");
}

#[test]
fn random_commands_of_many_processes_keep_every_promise() {
    holds(&options(Profile::All, 6));
}

#[test]
fn random_commands_on_a_server_keep_every_promise() {
    let store = Shared::get().unwrap_or_else(|error| panic!("a server: {error}"));
    holds(&Options { store: Some(store.clone()), ..options(Profile::All, 2) });
}

#[test]
fn append_delete_and_re_create_side_by_side_lose_nothing() {
    holds(&options(Profile::Race, 2));
}
