use duolog_testkit::fuzz::{Campaign, Target};

/// Mutations of each target that run with the tests; `duolog-fuzz` runs as many as one likes.
const RUNS: u64 = 600;
const SEED: u64 = 20_260_101;

fn holds(target: Target) {
    let corpus = target.corpus();
    assert!(corpus.len() >= 5, "{}", target.word());
    for (path, input) in corpus {
        if let Err(broken) = Campaign::Runs(0).run(target, &[input], SEED) {
            panic!("{}\n{}", path.display(), broken.why);
        }
    }
    if let Err(broken) = Campaign::Runs(RUNS).run(target, &target.seeds(), SEED) {
        panic!("{} after {:?}\n{}", broken.input.escape_ascii(), broken.after, broken.why);
    }
}

macro_rules! targets {
    ($($name:ident: $target:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                holds(Target::$target);
            }
        )*

        #[test]
        fn no_target_is_left_out() {
            assert_eq!([$(Target::$target),*], Target::ALL);
        }
    };
}

targets! {
    every_byte_of_a_log_is_accounted_for: Lines,
    whatever_a_writer_finds_is_kept: Recovery,
    a_file_of_torn_bytes_may_hold_anything: Torn,
    every_dialect_takes_any_line: Dialects,
    a_dialect_is_told_by_lines_alone: Detect,
    a_digest_may_stop_anywhere: Digest,
    whatever_a_runtime_says_is_recorded: Recorder,
    what_we_write_is_read_back: Written,
}
