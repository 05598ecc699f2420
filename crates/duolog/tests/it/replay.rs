use std::convert::Infallible;
use std::ops::ControlFlow;

use duolog::limits::Limits;
use duolog::log::{Dialect, Entry, Foreign, ItemKind, ReadFrom, Replay, ReplayDetail, ReplayEvent, Replayable};
use duolog::{ErrorKind, Position};
use duolog_testkit::transcripts::{self, Cut, GeneratedLog};

/// One generated log of each dialect, with this number of turns.
fn made(turns: u64) -> [(Dialect, GeneratedLog); 5] {
    [
        (Dialect::Envelope, transcripts::envelope(7, turns)),
        (Dialect::Turns, transcripts::turns(7, turns, Cut::LastTurn)),
        (Dialect::Transcript, transcripts::transcript(7, turns)),
        (Dialect::Claude, transcripts::claude(7, turns)),
        (Dialect::Codex, transcripts::codex(7, turns, false)),
    ]
}

/// The events of a replay.
#[derive(Default)]
struct Heard {
    kinds: Vec<ItemKind>,
    turns: u64,
    cut: u64,
    left_out: u64,
    progress: u64,
}

fn hear(log: &dyn Replayable, from: ReadFrom, dialect: Dialect, view: ReplayDetail) -> Heard {
    let (mut replay, mut heard) = (Replay::new(Some(dialect), view), Heard::default());
    let mut tell = |told: ReplayEvent<'_>| {
        match told {
            ReplayEvent::Item { item, .. } => heard.kinds.push(item.kind),
            ReplayEvent::TurnEnd(end) => {
                heard.turns += 1;
                heard.cut += u64::from(end.is_cut);
                heard.left_out += end.left_out;
                heard.progress += end.progress;
            }
        }
        Ok::<(), Infallible>(())
    };
    log.entries(from, &mut |entry| {
        if let Entry::Line(line) = entry {
            replay.line(&line, &mut tell).expect("told");
        }
        ControlFlow::Continue(())
    })
    .expect("reads");
    replay.finish(&mut tell).expect("told");
    heard
}

fn file(text: &str) -> (tempfile::TempDir, Foreign) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("foreign.jsonl");
    std::fs::write(&path, text).expect("written");
    let foreign = Foreign::open(&path, &Limits::default()).expect("opens");
    (directory, foreign)
}

#[test]
fn each_dialect_is_detected_and_replayed_by_turn() {
    for (dialect, made) in made(12) {
        let (_directory, log) = file(&made.text());
        assert_eq!(log.dialect().expect("reads"), Some(dialect));
        let [short, every] =
            [ReplayDetail::Conversation, ReplayDetail::All].map(|view| hear(&log, ReadFrom::Start, dialect, view));
        assert_eq!((short.turns, every.turns), (made.turns, made.turns), "{dialect}");
        assert!(short.kinds.iter().filter(|kind| **kind == ItemKind::User).count() >= 12, "{dialect}");
        let steps = [ItemKind::Thinking, ItemKind::ToolCall, ItemKind::ToolResult, ItemKind::Note];
        assert!(!short.kinds.iter().any(|kind| steps.contains(kind)), "{dialect}");
        assert_eq!(short.cut, u64::from(dialect == Dialect::Turns), "{dialect}: only a cut turn is marked");
        let progress = if dialect == Dialect::Claude { made.turns } else { 0 };
        assert!(every.kinds.len() > short.kinds.len(), "{dialect}");
        assert_eq!((every.left_out, every.progress), (progress, progress), "{dialect}: only progress is left out");
    }
}

#[test]
fn the_last_turns_are_found_from_the_end() {
    for (dialect, made) in made(40) {
        let (_directory, log) = file(&made.text());
        for count in [1, 2, 3, 39, 40, 41, 1000] {
            let from = log.start_of_turns(count, dialect).expect("reads");
            let heard = hear(&log, from, dialect, ReplayDetail::All);
            assert_eq!(heard.turns, made.turns.min(count as u64), "{dialect}: the last {count}");
        }
        assert_eq!(hear(&log, log.start_of_turns(0, dialect).expect("reads"), dialect, ReplayDetail::All).turns, 0);
        let huge = log.start_of_turns(usize::MAX, dialect).expect("reads");
        assert_eq!(hear(&log, huge, dialect, ReplayDetail::All).turns, made.turns);
    }
}

#[test]
fn a_foreign_file_is_replayed_completely_and_not_changed() {
    let made = transcripts::claude(3, 2);
    let text = made.text() + "not JSON\n{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"unended\"}}";
    let (directory, log) = file(&text);
    let heard = hear(&log, ReadFrom::Start, Dialect::Claude, ReplayDetail::All);
    assert_eq!(heard.kinds[heard.kinds.len() - 2..], [ItemKind::Note, ItemKind::User]);
    let mut last = Vec::new();
    log.entries(ReadFrom::Last(1), &mut |entry| {
        if let Entry::Line(line) = entry {
            last.push(String::from_utf8_lossy(line.bytes).into_owned());
        }
        ControlFlow::Continue(())
    })
    .expect("reads");
    assert!(last.len() == 1 && last[0].contains("unended"), "{last:?}");
    let names: Vec<_> = directory.path().read_dir().expect("reads").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["foreign.jsonl"], "no file is created beside it");
    assert_eq!(std::fs::read_to_string(directory.path().join("foreign.jsonl")).expect("reads"), text);
    let inside = log.entries(ReadFrom::Position(Position(3)), &mut |_| ControlFlow::Continue(()));
    assert_eq!(inside.expect_err("no line begins there").kind(), ErrorKind::Invalid);
}

#[test]
fn a_path_that_is_not_a_file_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(Foreign::open(directory.path(), &Limits::default()).is_err());
    assert!(Foreign::open(&directory.path().join("absent"), &Limits::default()).is_err());
    let (_directory, empty) = file("");
    assert_eq!(empty.dialect().expect("reads"), None);
    assert_eq!(hear(&empty, ReadFrom::Start, Dialect::Envelope, ReplayDetail::All).turns, 0);
}
