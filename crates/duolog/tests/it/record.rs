use std::os::unix::fs::PermissionsExt as _;

use duolog::log::{As, Full, ItemKind, RecordOptions, Recorded, Replay, Replayable as _, Told, View};
use duolog::{Durability, SessionId, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, lines};

on_both_engines!(
    events_become_envelopes_that_stand_in_the_log,
    a_resumed_session_repeats_no_prompt,
    what_is_long_is_kept_whole_beside_the_log,
    lines_are_kept_as_they_are_in_other_dialects,
);

fn said(text: &str) -> String {
    format!(
        r#"{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}]}}}}"#
    )
}

const END: &str = r#"{"type":"agent_end","messages":[]}"#;

fn record(store: &Store, session: &SessionId, prompt: &str, events: &[&str]) -> Recorded {
    let prompt = Some(prompt.to_owned());
    let options = RecordOptions { prompt, durability: Durability::Power, ..RecordOptions::default() };
    let mut recording = store.log(session).record(options).expect("begins");
    for event in events {
        recording.event(event.as_bytes()).expect("taken");
        recording.flush().expect("appended");
    }
    recording.finish().expect("ended")
}

/// What is told of a log, as kinds and texts.
fn told(store: &Store, session: &SessionId, view: View) -> Vec<(ItemKind, String)> {
    let log = store.log(session);
    let mut replay = Replay::new(log.dialect().expect("reads"), view);
    let mut told = Vec::new();
    let mut tell = |piece: Told<'_>| {
        if let Told::Item { item, .. } = piece {
            told.push((item.kind, item.text.clone()));
        }
        Ok::<(), std::convert::Infallible>(())
    };
    log.read(duolog::log::ReadFrom::Start, |entry| {
        if let duolog::log::Entry::Line(line) = entry {
            replay.line(&line, &mut tell).expect("told");
        }
        std::ops::ControlFlow::Continue(())
    })
    .expect("reads");
    replay.finish(&mut tell).expect("told");
    told
}

fn events_become_envelopes_that_stand_in_the_log(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made").id;
    let recorded = record(&store, &session, "do it", &[&said("on it"), "not JSON", "", &said("done"), END]);
    assert_eq!((recorded.events, recorded.lines, recorded.blobs), (5, 5, 0));
    assert_eq!(recorded.cursor.expect("an end").position, store.log(&session).end().expect("reads"));
    let every: Vec<_> = told(&store, &session, View::Every).into_iter().map(|(kind, _)| kind.word()).collect();
    assert_eq!(every, ["user", "assistant", "note", "assistant", "result"]);
    let short = told(&store, &session, View::Conversation);
    let expected = [(ItemKind::User, "do it"), (ItemKind::Assistant, "done"), (ItemKind::Result, "done")];
    assert_eq!(short, expected.map(|(kind, text)| (kind, text.to_owned())));
}

fn a_resumed_session_repeats_no_prompt(place: &Place) {
    let apart = Apart::of(place);
    let prompts = |store: &Store, session: &SessionId| {
        lines(store, session).iter().filter(|line| line.starts_with("{\"type\":\"user\"")).count()
    };
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made").id;
    record(&store, &session, "do it", &[&said("half")]);
    store.close().expect("closes");
    let store = apart.open();
    record(&store, &session, "do it", &[&said("whole"), END]);
    assert_eq!(prompts(&store, &session), 1, "it was being answered");
    record(&store, &session, "do it", &[&said("again"), END]);
    assert_eq!(prompts(&store, &session), 2, "the turn had ended");
}

fn what_is_long_is_kept_whole_beside_the_log(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made").id;
    let whole = "🥛".repeat(30_000);
    let event = |id: &str| format!(r#"{{"type":"tool_execution_end","toolCallId":"{id}","result":"{whole}"}}"#);
    let recorded = record(&store, &session, "p", &[&event("a"), &event("b")]);
    assert_eq!((recorded.lines, recorded.blobs), (3, 2));
    let reference = {
        let line = lines(&store, &session).pop().expect("a line");
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        value["message"]["content"][0]["fullOutput"].as_str().expect("a name").to_owned()
    };
    let log = store.log(&session);
    assert_eq!(log.full(&reference).expect("reads"), Full::Whole(whole));
    let id = reference.strip_prefix("blob:").expect("a name of ours");
    let folder = apart.home().state.join("blobs").join(&id[..2]);
    let names: Vec<_> = folder.read_dir().expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, [id], "once, and nothing is left aside");
    let file = folder.join(id);
    let mode = |path: &std::path::Path| path.metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
    std::fs::write(&file, "something else").expect("written");
    assert_eq!(log.full(&reference).expect("reads"), Full::Damaged);
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(log.full(&reference).expect("reads"), Full::Missing);
    for name in ["blob:../../etc/passwd", "blob:", "file:x", &reference.to_uppercase()] {
        assert_eq!(log.full(name).expect("reads"), Full::Elsewhere, "{name}");
    }
}

fn lines_are_kept_as_they_are_in_other_dialects(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made").id;
    let options = RecordOptions { form: As::Turns, ..RecordOptions::default() };
    let mut recording = store.log(&session).record(options).expect("begins");
    let given = [r#"{"kind":"user_message","userInput":"a", "timestamp":"t"}"#, r#"{"other" : 1}"#];
    for line in given {
        recording.event(line.as_bytes()).expect("taken");
    }
    let bad = recording.event(b"not JSON").expect("taken").expect("a log takes no such line");
    assert_eq!((bad.number, bad.is_kept), (3, true), "{bad}");
    recording.event(given[0].as_bytes()).expect("taken");
    let recorded = recording.finish().expect("ended");
    assert_eq!((recorded.lines, recorded.others, recorded.remarks, recorded.refused), (4, 1, 1, 0));
    let lines = lines(&store, &session);
    assert_eq!((&lines[..2], lines[3].as_str()), (&given.map(str::to_owned)[..], given[0]));
    assert!(lines[2].contains(r#""content":"not JSON""#), "{}", lines[2]);
}
