//! One large log, read in several ways.

use std::ops::ControlFlow;
use std::process::Command;

use duolog::log::{Entry, Log, ReadFrom, Replay, ReplayDetail, ReplayEvent};
use duolog::{Durability, Store};

use super::backup;
use crate::bare;
use crate::bench::{Bench, finish, log_file, store_in, tool};
use crate::benchmark::Target;
use crate::events::{self, Event};
use crate::measure::{Case, in_turns};

/// The number of lines that are read from the end.
const LAST: u64 = 50;

/// The lines of a log, its conversation, the command that prints it, its end, and its backup.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let directory = bench.new_dir();
    let (mib, rounds) = (bench.size(512, 4), bench.size(5, 1));
    let store = store_in(&directory);
    let (small, large) = (fill(&store, "small", 1 << 20), fill(&store, "large", mib << 20));
    let file = log_file(&store, &store.sessions().open_thread("large").expect("a session"));
    store.catch_up(|_| {}).expect("caught up");

    let (log, path) = (large.clone(), file.clone());
    let mut buffer = Vec::new();
    let what = format!("Log::read of {mib} MiB / a loop with the same checks: UTF-8, no NUL, braces");
    let lines = Case::speed("read/lines", &what, Target::AtLeast(0.7), move || {
        let (mut ours, mut limit) = (0_u64, 0_u64);
        let taken = in_turns(
            rounds,
            (1, 1),
            || ours = count_lines(&log),
            || {
                limit = 0;
                bare::for_each_line(&path, &mut buffer, |line| limit += u64::from(bare::is_readable(line)));
            },
        );
        assert!(ours == limit && ours > 0);
        taken
    });

    let (log, path) = (large.clone(), file.clone());
    let mut buffer = Vec::new();
    let what = format!("Replay of {mib} MiB, every item / serde_json's typed parse of the same lines");
    let replay = Case::cost("read/replay", &what, Target::AtMost(2.0), move || {
        let (mut ours, mut limit) = (0, 0);
        let taken = in_turns(
            rounds,
            (1, 1),
            || ours = replayed_bytes(&log),
            || {
                limit = 0;
                bare::for_each_line(&path, &mut buffer, |line| {
                    let event: Event<'_> = serde_json::from_slice(line).expect("an event");
                    limit += event.message.content.len();
                    std::hint::black_box(event);
                });
            },
        );
        assert_eq!(ours, limit, "both saw the same texts");
        taken
    });

    let (duolog, home, path) = (bench.duolog(), directory.join("home"), file);
    let binary = duolog.clone().unwrap_or_default();
    let what = format!("duolog log cat of {mib} MiB / cat, both to /dev/null");
    let cat = Case::cost("read/cat", &what, Target::AtMost(3.0), move || {
        in_turns(
            rounds,
            (1, 1),
            || finish(Command::new(&binary).args(["log", "cat", "large"]).env("DUOLOG_HOME", &home)),
            || finish(Command::new("cat").arg(&path)),
        )
    });

    let often = bench.size(301, 3);
    let what = format!("the last {LAST} lines of {mib} MiB / of 1 MiB");
    let last = Case::growth("read/last", &what, Target::AtMost(2.0), move || {
        let read = |log: &Log| assert_eq!(log.last(LAST).expect("lines").len() as u64, LAST);
        in_turns(often, (1, 1), || read(&large), || read(&small))
    });
    let copy = backup::case(bench, "read/backup", &format!("one log of {mib} MiB"), &store);
    vec![lines, replay, cat.needs(&duolog).needs(&tool("cat")), last, copy]
}

/// Appends events until the log has at least this many bytes.
fn fill(store: &Store, name: &str, bytes: usize) -> Log {
    let log = store.log(&store.sessions().open_thread(name).expect("a session").id);
    let batch = events::batches(1, 1024).remove(0);
    let mut written = 0;
    while written < bytes {
        log.append(&batch, Durability::Process).expect("appended");
        written += batch.as_bytes().len();
    }
    log
}

fn count_lines(log: &Log) -> u64 {
    let mut lines = 0;
    log.read(ReadFrom::Start, |entry| {
        lines += u64::from(matches!(entry, Entry::Line(_)));
        ControlFlow::Continue(())
    })
    .expect("read");
    lines
}

fn replayed_bytes(log: &Log) -> usize {
    let (mut replay, mut bytes) = (Replay::new(None, ReplayDetail::All), 0);
    let mut tell = |told: ReplayEvent<'_>| {
        if let ReplayEvent::Item { item, .. } = told {
            bytes += item.text.len();
        }
        Ok::<_, std::convert::Infallible>(())
    };
    log.read(ReadFrom::Start, |entry| {
        if let Entry::Line(line) = entry {
            let Ok(()) = replay.line(&line, &mut tell);
        }
        ControlFlow::Continue(())
    })
    .expect("read");
    let Ok(()) = replay.finish(&mut tell);
    bytes
}
