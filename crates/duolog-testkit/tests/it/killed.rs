use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use duolog_testkit::crash::kill::{Options, run};

/// The seed is random and is in the message; `duolog-crash kill ROUNDS SEED` repeats the run.
#[test]
fn processes_killed_at_any_moment_lose_nothing_acknowledged() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_duolog-crash"));
    let home = tempfile::tempdir_in(binary.parent().expect("a directory")).expect("a directory");
    let options = Options { rounds: 10, writers: 4, seed, dir: home.path().to_owned(), binary };
    let tally = run(&options).unwrap_or_else(|broken| panic!("{}", broken.0));
    assert_eq!(tally.rounds, 10);
    assert!(tally.acknowledged > 0 && tally.renames > 0 && tally.followed > 0, "{tally:?}");
}
