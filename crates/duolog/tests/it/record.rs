use std::os::unix::fs::PermissionsExt as _;

use duolog::log::{
    Full, ItemKind, RecordFormat, RecordOptions, Recorded, Replay, ReplayDetail, ReplayEvent, Replayable as _,
};
use duolog::{Durability, SessionId, Store};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, lines};

on_both_engines!(
    events_become_envelopes_in_the_log,
    a_resumed_session_repeats_no_prompt,
    long_texts_are_stored_as_blobs,
    lines_are_kept_as_they_are_in_other_dialects,
    an_error_beside_a_result_is_kept,
    the_same_result_with_another_error_flag_is_not_a_repetition,
    bytes_that_are_not_text_are_a_bad_line,
    partial_snapshots_are_kept_together,
    unfinished_events_of_a_dead_agent_are_kept,
    unknown_fields_are_kept,
    a_byte_order_mark_is_skipped,
    a_resumed_turn_counts_answers_without_usage,
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

/// Returns the replay of a log, as kinds and texts.
fn told(store: &Store, session: &SessionId, view: ReplayDetail) -> Vec<(ItemKind, String)> {
    let log = store.log(session);
    let mut replay = Replay::new(log.dialect().expect("reads"), view);
    let mut told = Vec::new();
    let mut tell = |piece: ReplayEvent<'_>| {
        if let ReplayEvent::Item { item, .. } = piece {
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

fn events_become_envelopes_in_the_log(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made").id;
    let recorded = record(&store, &session, "do it", &[&said("on it"), "not JSON", "", &said("done"), END]);
    assert_eq!((recorded.events, recorded.lines, recorded.blobs), (5, 5, 0));
    assert_eq!(recorded.cursor.expect("an end").position, store.log(&session).end().expect("reads"));
    let every: Vec<_> = told(&store, &session, ReplayDetail::All).into_iter().map(|(kind, _)| kind.word()).collect();
    assert_eq!(every, ["user", "assistant", "note", "assistant", "result"]);
    let short = told(&store, &session, ReplayDetail::Conversation);
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
    assert_eq!(prompts(&store, &session), 2, "the turn had ended, so it is a new prompt");
}

fn long_texts_are_stored_as_blobs(place: &Place) {
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
    assert_eq!(log.full(&reference).expect("reads"), Full::Found(whole));
    let id = reference.strip_prefix("blob:").expect("a name of ours");
    let folder = apart.home().state.join("blobs").join(&id[..2]);
    let names: Vec<_> = folder.read_dir().expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, [id], "stored once, without a temporary file");
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
    let options = RecordOptions { form: RecordFormat::Turns, ..RecordOptions::default() };
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

/// Returns the lines that a recording leaves in the log of a new session, as JSON.
fn left(place: &Place, events: &[&[u8]]) -> (Recorded, Vec<serde_json::Value>) {
    let apart = Apart::of(place);
    let store = apart.open();
    // Homes of one place may share a state, and so the names of threads.
    let session = store.sessions().open_thread(SessionId::new().as_str()).expect("made").id;
    let mut recording = store.log(&session).record(RecordOptions::default()).expect("begins");
    for event in events {
        recording.event(event).expect("taken");
    }
    let recorded = recording.finish().expect("ended");
    let lines = lines(&store, &session);
    (recorded, lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

fn an_error_beside_a_result_is_kept(place: &Place) {
    let (_, lines) = left(
        place,
        &[
            br#"{"type":"tool_execution_end","toolCallId":"1","result":"","error":"boom"}"#,
            br#"{"type":"tool_execution_end","toolCallId":"2","result":"ok","error":"also"}"#,
            br#"{"type":"tool_execution_end","toolCallId":"3","result":"fine","error":null}"#,
        ],
    );
    let results: Vec<_> = lines.iter().filter(|line| line["type"] == "user").collect();
    let told = |at: usize| {
        (&results[at]["message"]["content"][0]["content"], &results[at]["message"]["content"][0]["is_error"])
    };
    assert_eq!(told(0), (&"boom".into(), &true.into()));
    assert_eq!(told(1), (&"ok".into(), &true.into()));
    assert_eq!(told(2), (&"fine".into(), &serde_json::Value::Null));
    let kept: Vec<_> = lines.iter().filter(|line| line["subtype"] == "tool_execution_end").collect();
    assert_eq!((kept.len(), &kept[0]["event"]["error"]), (1, &"also".into()), "{lines:?}");
}

fn the_same_result_with_another_error_flag_is_not_a_repetition(place: &Place) {
    let end = br#"{"type":"tool_execution_end","toolCallId":"c","result":"r"}"#;
    let failed =
        br#"{"type":"message_end","message":{"role":"toolResult","toolCallId":"c","content":"r","isError":true}}"#;
    let (_, lines) = left(place, &[end, failed]);
    let flags: Vec<_> = lines.iter().map(|line| &line["message"]["content"][0]["is_error"]).collect();
    assert_eq!(flags, [&serde_json::Value::Null, &true.into()], "{lines:?}");
    let same = br#"{"type":"message_end","message":{"role":"toolResult","toolCallId":"c","content":"r"}}"#;
    assert_eq!(left(place, &[end, same]).1.len(), 1, "with the same flag it is one");
}

fn bytes_that_are_not_text_are_a_bad_line(place: &Place) {
    let (recorded, lines) = left(place, &[b"{\"type\":\"x\",\"a\":\"\xff\xfe\"}", said("on it").as_bytes()]);
    assert_eq!((recorded.remarks, recorded.lines), (1, 2));
    assert!(lines[0]["content"].as_str().expect("a remark").contains(r"\xff\xfe"), "{lines:?}");
}

fn partial_snapshots_are_kept_together(place: &Place) {
    let (_, lines) = left(
        place,
        &[
            br#"{"type":"usage_snapshot","stats":{"tokens":{"input":100},"cost":0.25}}"#,
            br#"{"type":"usage_snapshot","stats":{"tokens":{"output":5},"cost":0}}"#,
        ],
    );
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["event"]["stats"], serde_json::json!({"tokens":{"input":100,"output":5},"cost":0.25}));
}

fn unfinished_events_of_a_dead_agent_are_kept(place: &Place) {
    let start =
        br#"{"type":"tool_execution_start","toolCallId":"t1","toolName":"bash","args":{"command":"rm -rf build"}}"#;
    let (_, lines) = left(
        place,
        &[
            br#"{"type":"session","id":"abc"}"#,
            br#"{"type":"message_start","message":{"role":"assistant","content":[]}}"#,
            br#"{"type":"message_update","message":{"role":"assistant","content":[{"type":"text","text":"half an answer"}]}}"#,
            start,
            br#"{"type":"tool_execution_update","toolCallId":"t1","partialResult":"deleted 10 files"}"#,
        ],
    );
    assert_eq!(lines[0]["message"]["content"][0]["text"], "half an answer");
    assert_eq!(lines[1]["subtype"], "unfinished");
    let call = &lines[2]["message"]["content"][0];
    assert_eq!(
        (&call["type"], &call["id"], &call["input"]["command"]),
        (&"tool_use".into(), &"t1".into(), &"rm -rf build".into())
    );
    assert_eq!(lines[3]["event"]["partialResult"], "deleted 10 files");
    assert_eq!((&lines[4]["subtype"], lines.len()), (&"unfinished".into(), 5), "{lines:?}");
    // A call that its end repeats is written once.
    let said = br#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"toolCall","id":"t1","name":"bash","arguments":{}}]}}"#;
    let end = br#"{"type":"tool_execution_end","toolCallId":"t1","result":"done"}"#;
    assert_eq!(left(place, &[said, start, end]).1.len(), 2);
    let (_, lines) = left(place, &[said, start]);
    let calls = lines.iter().filter(|line| line["type"] == "assistant").count();
    assert_eq!((calls, lines.len()), (1, 2), "the call is there already: {lines:?}");
}

fn unknown_fields_are_kept(place: &Place) {
    let (_, lines) = left(
        place,
        &[
            br#"{"type":"session","id":"abc","cwd":"/srv/x","version":3}"#,
            br#"{"type":"fatal_error","error":{"message":"m","code":"E42","stack":"line 1"},"exitCode":137}"#,
            br#"{"type":"fatal_error","error":{"name":"Error","message":"m"}}"#,
        ],
    );
    let kept = |subtype: &str| lines.iter().filter(|line| line["subtype"] == subtype).collect::<Vec<_>>();
    assert_eq!(kept("session")[0]["event"]["cwd"], "/srv/x");
    let fatal = kept("fatal_error");
    assert_eq!((fatal.len(), &fatal[0]["event"]["exitCode"]), (1, &137.into()), "{lines:?}");
    assert_eq!(
        (&fatal[0]["event"]["error"]["code"], &fatal[0]["event"]["error"]["stack"]),
        (&"E42".into(), &"line 1".into())
    );
}

fn a_byte_order_mark_is_skipped(place: &Place) {
    let first = [b"\xef\xbb\xbf".as_slice(), said("on it").as_bytes()].concat();
    let (recorded, lines) = left(place, &[&first]);
    assert_eq!((recorded.remarks, &lines[0]["type"]), (0, &"assistant".into()), "{lines:?}");
}

fn a_resumed_turn_counts_answers_without_usage(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("plan").expect("made").id;
    record(&store, &session, "do it", &[&said("half")]);
    record(&store, &session, "do it", &[&said("whole"), END]);
    let result: serde_json::Value =
        serde_json::from_str(&lines(&store, &session).pop().expect("a line")).expect("JSON");
    assert_eq!(result["num_turns"], 2);
}
