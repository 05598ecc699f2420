//! Rules for arbitrary bytes: each is a function that takes an input and panics if the rule is violated.
//!
//! The stored inputs of `corpus/` run first, then mutations of them. `PROPTEST_CASES` sets their number; the same
//! `PROPTEST_RNG_SEED` gives the same inputs.

mod detect;
mod dialects;
mod digest;
mod lines;
mod mutation;
mod recorder;
mod recovery;
mod torn;
mod written;

use std::path::{Path, PathBuf};

use duolog_testkit::transcripts::{self, Cut};
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// The number of mutations per target.
const CASES: u32 = 600;
const SEED: u64 = 20_260_101;

fn holds(folder: &str, target: fn(&[u8])) {
    let stored = stored(folder);
    assert!(stored.len() >= 5, "{folder}");
    for (path, input) in &stored {
        let held = std::panic::catch_unwind(|| target(input)).is_ok();
        assert!(held, "the stored input {} violates a rule", path.display());
    }
    let made = [
        transcripts::envelope(1, 2),
        transcripts::turns(2, 2, Cut::LastTurn),
        transcripts::transcript(3, 2),
        transcripts::claude(4, 2),
        transcripts::codex(5, 2, true),
    ];
    let made = made.iter().map(|made| made.text().into_bytes());
    let seeds: Vec<_> = stored.into_iter().map(|(_, input)| input).chain(made).collect();

    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(SEED);
    }
    let held = TestRunner::new(config).run(&mutation::mutated(&seeds), |input| {
        target(&input.0);
        Ok(())
    });
    if let Err(broken) = held {
        panic!("{broken}");
    }
}

/// Returns the inputs of a folder of `corpus/`.
fn stored(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
    let paths = folder.read_dir().expect("a folder of inputs").map(|entry| entry.expect("an entry").path());
    let mut inputs: Vec<_> = paths.map(|path| (path.clone(), std::fs::read(&path).expect("an input"))).collect();
    inputs.sort();
    inputs
}

#[test]
fn every_byte_of_a_log_is_accounted_for() {
    holds("lines", lines::target);
}

#[test]
fn a_writer_keeps_existing_bytes() {
    holds("recovery", recovery::target);
}

#[test]
fn a_file_of_torn_bytes_may_hold_anything() {
    holds("torn", torn::target);
}

#[test]
fn every_dialect_takes_any_line() {
    holds("dialects", dialects::target);
}

#[test]
fn a_dialect_is_detected_by_lines_alone() {
    holds("detect", detect::target);
}

#[test]
fn a_digest_may_stop_anywhere() {
    holds("digest", digest::target);
}

#[test]
fn any_output_of_a_runtime_is_recorded() {
    holds("recorder", recorder::target);
}

#[test]
fn written_lines_are_read_back() {
    holds("written", written::target);
}

/// Derives a choice for a target from the first line of the input, so that shrinking the rest of the input keeps the
/// choice.
fn choice(input: &[u8], salt: u64) -> usize {
    let hash = blake3::Hasher::new().update(lines_in(input)[0]).update(&salt.to_le_bytes()).finalize();
    let number = u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("eight bytes"));
    usize::try_from(number >> 1).expect("a 64-bit machine")
}

/// Returns the lines of an input, including an incomplete last one.
fn lines_in(input: &[u8]) -> Vec<&[u8]> {
    input.split(|byte| *byte == b'\n').collect()
}
