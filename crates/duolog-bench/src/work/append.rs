//! Appends of events to one log, one or a hundred per call.

use std::path::{Path, PathBuf};
use std::process::Command;

use duolog::log::Log;
use duolog::{Batch, Durability};

use crate::bare::{self, Bare};
use crate::bench::{Bench, log_file, store_in, tool};
use crate::benchmark::Target;
use crate::events;
use crate::measure::{Case, in_turns};

/// The first argument of a process that only appends.
pub const CHILD: &str = "--appends-for-strace";

/// Prepared events, text that is checked, synced events, and the system calls of one append.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let calls = bench.size(512, 16);
    vec![
        prepared(
            bench,
            ("append/one", "a prepared event per call / lock, stat, write, unlock"),
            Target::AtMost(1.3),
            (1, calls),
            Bare::append,
        ),
        prepared(
            bench,
            ("append/hundred", "100 prepared events per call / a write of the same bytes"),
            Target::AtMost(1.2),
            (100, calls / 16),
            Bare::write,
        ),
        checked(bench, "append/checked one", (1, calls)),
        checked(bench, "append/checked hundred", (100, calls / 16)),
        power(bench),
        system_calls(bench),
    ]
}

/// A log and the bare file that it is compared with.
struct Side {
    log: Log,
    bare: Bare,
    file: PathBuf,
}

impl Side {
    fn new(bench: &Bench) -> Self {
        let directory = bench.new_dir();
        let store = store_in(&directory);
        let session = store.sessions().open_thread("bench").expect("a session");
        let (file, bare) = (log_file(&store, &session), Bare::in_dir(&directory));
        Self { log: store.log(&session.id), bare, file }
    }

    fn append(&self, batch: &Batch, durability: Durability) {
        self.log.append(batch, durability).expect("appended");
    }
}

fn prepared(
    bench: &Bench,
    (name, what): (&str, &str),
    target: Target,
    (lines, calls): (usize, usize),
    bare: fn(&Bare, &[u8]),
) -> Case {
    let (side, batches) = (Side::new(bench), events::batches(calls, lines));
    let rounds = bench.size(41, 1);
    Case::cost(name, what, target, move || {
        let ours = || batches.iter().for_each(|batch| side.append(batch, Durability::Process));
        let limit = || batches.iter().for_each(|batch| bare(&side.bare, batch.as_bytes()));
        let taken = in_turns(rounds, (calls, calls), ours, limit);
        side.bare.assert_same(&side.file);
        taken
    })
}

fn checked(bench: &Bench, name: &str, (lines, calls): (usize, usize)) -> Case {
    let (side, batches) = (Side::new(bench), events::batches(calls, lines));
    let rounds = bench.size(41, 1);
    let mut batch = Batch::default();
    let text = if lines == 1 { "a line".to_owned() } else { format!("{lines} lines") };
    let what = format!("{text} of text per call / serde_json's checks, then lock, stat, write, unlock");
    Case::cost(name, &what, Target::AtMost(1.3), move || {
        let texts: Vec<Vec<&[u8]>> = batches.iter().map(events::lines_of).collect();
        let ours = || {
            for text in &texts {
                batch.clear();
                for line in text {
                    batch.push(line).expect("a line");
                }
                side.append(&batch, Durability::Process);
            }
        };
        let limit = || {
            for (text, whole) in texts.iter().zip(&batches) {
                for line in text {
                    bare::check(line);
                }
                side.bare.append(whole.as_bytes());
            }
        };
        let taken = in_turns(rounds, (calls, calls), ours, limit);
        side.bare.assert_same(&side.file);
        taken
    })
}

fn power(bench: &Bench) -> Case {
    let (side, batches, rounds) = (Side::new(bench), events::batches(16, 1), bench.size(501, 5));
    let what = "a synced event per call / lock, stat, write, unlock, fdatasync";
    Case::cost("append/power", what, Target::AtMost(1.15), move || {
        let (mut ours, mut limit) = (batches.iter().cycle(), batches.iter().cycle());
        let taken = in_turns(
            rounds,
            (1, 1),
            || side.append(ours.next().expect("endless"), Durability::Power),
            || side.bare.append_synced(limit.next().expect("endless").as_bytes()),
        );
        side.bare.assert_same(&side.file);
        taken
    })
}

/// Counts with strace the additional system calls of a process with more appends.
fn system_calls(bench: &Bench) -> Case {
    let (few, more) = (100, 1100);
    let (directories, program) = ([bench.new_dir(), bench.new_dir()], std::env::current_exe().expect("this program"));
    let what = "system calls of one append / getpid (finds a forked process), lock, stat, write, unlock";
    // Each run has a few system calls that vary.
    let case = Case::count("append/calls", what, Target::AtMost(1.02), move || {
        let calls = |directory: &Path, appends: usize| {
            let (home, counts) = (tempfile::tempdir_in(directory).expect("a directory"), directory.join("strace"));
            let mut strace = Command::new("strace");
            strace.args(["-c", "-f", "-o"]).arg(&counts).arg(&program);
            let ended = strace.arg(CHILD).arg(home.path()).arg(appends.to_string()).status().expect("it starts");
            assert!(ended.success(), "{ended}");
            let text = std::fs::read_to_string(&counts).expect("counts");
            let total = text.lines().find(|line| line.ends_with(" total")).expect("a total");
            total.split_ascii_whitespace().nth(3).and_then(|calls| calls.parse::<f64>().ok()).expect("a number")
        };
        ((calls(&directories[1], more) - calls(&directories[0], few)) / (more - few) as f64, 5.0)
    });
    case.needs(&tool("strace"))
}

/// Appends `count` events, one per call.
pub fn child(home: &Path, count: usize) {
    let store = store_in(home);
    let log = store.log(&store.sessions().open_thread("bench").expect("a session").id);
    let batches = events::batches(16, 1);
    for batch in batches.iter().cycle().take(count) {
        log.append(batch, Durability::Process).expect("appended");
    }
    // Closing folds, which is not counted; both processes must end alike.
    std::process::exit(0);
}
