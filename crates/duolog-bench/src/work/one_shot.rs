//! One line from a shell: the whole life of a process.

use std::path::Path;
use std::process::{Command, Stdio};

use super::rows::LINE;
use crate::bench::{Bench, log_file, store_in};
use crate::measure::{Figure, Target, in_turns};

/// `duolog log append` against what a shell does by itself; and the start of a process alone.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let Some(duolog) = bench.command() else {
        println!("one-shot: there is no duolog command; build duolog-cli, or name one with --binary");
        return Vec::new();
    };
    let room = bench.room();
    let (store, session) = store_in(room.path());
    let (home, log) = (room.path().join("home"), log_file(&store, &session));
    store.close().expect("closed");
    let bare = room.path().join("bare.jsonl");
    let line = std::str::from_utf8(LINE).expect("text");
    let rounds = bench.size(201, 2);
    let append = || {
        let mut command = Command::new(&duolog);
        finish(command.args(["log", "append", "--session", "bench", "--line", line]).env("DUOLOG_HOME", &home));
    };
    let print = || finish(Command::new("sh").args(["-c", r#"printf '%s\n' "$1" >> "$2""#, "sh", line]).arg(&bare));
    let appended = in_turns(rounds, (1, 1), append, print);
    assert_same(&log, &bare, rounds + 1);
    let started = in_turns(
        rounds,
        (1, 1),
        || finish(Command::new(&duolog).arg("--version")),
        || finish(Command::new("sh").args(["-c", ":"])),
    );
    vec![
        appended.cost("one-shot/append", "duolog log append --line / sh -c 'printf >> file'", Target::AtMost(5.0)),
        started.cost("one-shot/start", "duolog --version / sh -c :", Target::Told),
    ]
}

fn finish(command: &mut Command) {
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
    assert!(ended.success(), "{command:?}: {ended}");
}

fn assert_same(log: &Path, bare: &Path, lines: usize) {
    let (log, bare) = (std::fs::read(log).expect("a log"), std::fs::read(bare).expect("a file"));
    assert!(log == bare && memchr::memchr_iter(b'\n', &log).count() == lines, "every line stands once");
}
