//! Events that are serialised already, appended so that they survive the death of the process.

use duolog::{Durability, Store, StoreOptions};

use crate::bare::Bare;
use crate::bench::{Bench, log_file, options_in};
use crate::measure::{Figure, Target, in_turns};
use crate::{calls, events};

/// One per call, a hundred per call, one per call while a thread folds; and the system calls of one.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let one = Case { lines: 1, calls: bench.size(512, 32), rounds: bench.size(101, 1) };
    let hundred = Case { lines: 100, calls: bench.size(16, 2), rounds: bench.size(61, 1) };
    vec![
        one.figure(
            bench,
            "append/one",
            "prepared event per call / write(2)",
            Target::AtMost(3.0),
            StoreOptions::one_shot,
        ),
        hundred.figure(
            bench,
            "append/hundred",
            "prepared batch of 100 per call / write(2) of the same bytes",
            Target::AtMost(1.2),
            StoreOptions::one_shot,
        ),
        one.figure(
            bench,
            "append/one, folding",
            "the same as append/one while a thread folds the log into derived rows",
            Target::Told,
            |options| options,
        ),
        calls_of_one(bench),
    ]
}

struct Case {
    lines: usize,
    calls: usize,
    rounds: usize,
}

impl Case {
    fn figure(
        &self,
        bench: &Bench,
        name: &str,
        what: &str,
        target: Target,
        how: impl Fn(StoreOptions) -> StoreOptions,
    ) -> Figure {
        let room = bench.room();
        let store = Store::open(how(options_in(room.path()))).expect("a store");
        let session = store.sessions().open_thread("bench").expect("a session");
        let log = store.log(&session.id);
        let bare = Bare::in_dir(room.path());
        let batches = events::batches(self.calls, self.lines);
        let pairs = in_turns(
            self.rounds,
            (self.calls, self.calls),
            || {
                for batch in &batches {
                    log.append(batch, Durability::Process).expect("appended");
                }
            },
            || {
                for batch in &batches {
                    bare.write(batch.as_bytes());
                }
            },
        );
        bare.assert_same(&log_file(&store, &session));
        pairs.cost(name, what, target)
    }
}

fn calls_of_one(bench: &Bench) -> Figure {
    let by_disk = calls::by_disk(bench);
    let (calls, how) = match calls::by_strace(bench) {
        Some(calls) => (calls, "by strace -c -f"),
        None => (by_disk, "by counting disk calls: strace is not there"),
    };
    // It is the difference of two runs, and a run has calls of its own that come and go.
    assert!(calls > by_disk - 0.1, "strace sees every disk call: {calls} of {by_disk}");
    let what = format!("system calls of one append / one write(2), {how}");
    Figure::counted("append/calls", &what, calls, 1.0, Target::AtMost(4.0))
}
