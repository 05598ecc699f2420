use std::convert::Infallible;
use std::sync::Arc;

use duolog_log::dialect::recorder::{Known, Options, RecordError, Recorder, Sink};
use duolog_log::dialect::turn::TurnFold;
use duolog_log::dialect::{Dialect, ItemKind, TimelineItem};
use duolog_testkit::FixedClock;
use duolog_types::line::check_line;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::dialects::render;

/// The output of a recorder.
#[derive(Default)]
pub struct Written {
    pub lines: Vec<String>,
    pub blobs: Vec<String>,
}

impl Sink for Written {
    type Error = Infallible;

    fn line(&mut self, line: &str) -> Result<(), Infallible> {
        check_line(line.as_bytes(), 64 << 20).expect("a valid line");
        self.lines.push(line.to_owned());
        Ok(())
    }

    fn blob(&mut self, text: &str) -> Result<String, Infallible> {
        self.blobs.push(text.to_owned());
        Ok(format!("blob:{:064x}", self.blobs.len()))
    }
}

impl Written {
    fn values(&self) -> Vec<Value> {
        self.lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn items(&self) -> Vec<TimelineItem> {
        render(Dialect::Envelope, &self.lines)
    }
}

fn options(prompt: &str) -> Options {
    let clock = Arc::new(FixedClock::at(1_779_872_405_000_000));
    Options { prompt: Some(prompt.to_owned()), model: Some("openai/gpt-5.5".to_owned()), clock, ..Options::default() }
}

fn record_into(written: &mut Written, options: Options, known: &Known, events: &[Value]) {
    let mut recorder = Recorder::new(options, known);
    for event in events {
        recorder.event(&event.to_string(), written).expect("recorded");
    }
    recorder.finish(written).expect("finished");
}

fn record(options: Options, events: &[Value]) -> Written {
    let mut written = Written::default();
    record_into(&mut written, options, &Known::default(), events);
    written
}

fn session() -> Value {
    json!({"type":"session","id":"sess1","timestamp":1_779_872_403_000_u64})
}

fn said(text: &str) -> Value {
    json!({
        "type":"message_end","sessionId":"sess1","timestamp":"2026-05-27T09:00:04.500Z",
        "message":{"role":"assistant","content":[{"type":"text","text":text}],"stopReason":"stop",
            "usage":{"input":1200,"output":340,"cacheRead":5000,"cacheWrite":10,"cost":{"total":0.07}}},
    })
}

fn snapshot(turns: u64, cost: f64) -> Value {
    let tokens = json!({"input":100 * turns,"output":10,"cacheRead":1,"cacheWrite":2,"total":113});
    json!({"type":"usage_snapshot","sessionId":"sess1","stats":{"assistantMessages":turns,"tokens":tokens,"cost":cost}})
}

#[test]
fn a_run_becomes_envelopes() {
    let call = json!({
        "type":"message_end","sessionId":"sess1","timestamp":1_779_872_403_500_u64,
        "message":{"role":"assistant","content":[
            {"type":"thinking","thinking":"Let me see"},{"type":"thinking","thinking":""},
            {"type":"text","text":"Looking."},{"type":"toolCall","id":"d0","name":"bash","arguments":{"c":1}}]},
    });
    let answer = json!({"type":"tool_execution_end","sessionId":"sess1","toolCallId":"d0","toolName":"bash","result":"fine","timestamp":1_779_872_404_000_u64});
    let events =
        [session(), call, answer, said("All done."), json!({"type":"agent_end","messages":[]}), snapshot(2, 0.13)];
    let written = record(options("do the thing"), &events);
    let lines = written.lines.iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(
        lines[..3],
        [
            r#"{"type":"user","message":{"role":"user","content":"do the thing"},"timestamp":"2026-05-27T09:00:03.000Z","sessionId":"sess1"}"#,
            r#"{"type":"assistant","message":{"role":"assistant","model":"openai/gpt-5.5","content":[{"type":"thinking","thinking":"Let me see"},{"type":"text","text":"Looking."},{"type":"tool_use","id":"d0","name":"bash","input":{"c":1}}]},"timestamp":"2026-05-27T09:00:03.500Z","sessionId":"sess1"}"#,
            r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"d0","content":"fine"}]},"timestamp":"2026-05-27T09:00:04.000Z","sessionId":"sess1"}"#,
        ]
    );
    assert!(lines[3].contains(
        r#""usage":{"input_tokens":1200,"output_tokens":340,"cache_read_input_tokens":5000,"cache_creation_input_tokens":10}"#
    ));
    let end = &written.values()[4];
    assert_eq!(written.lines.len(), 5);
    assert_eq!(
        (&end["type"], &end["subtype"], &end["result"]),
        (&json!("result"), &json!("success"), &json!("All done."))
    );
    assert_eq!((&end["num_turns"], &end["total_cost_usd"]), (&json!(2), &json!(0.13)));
    assert_eq!((&end["total_input_tokens"], &end["stop_reason"]), (&json!(200), &json!("stop")));
    assert!(end.get("sessionId").is_none(), "the original has none");
}

#[test]
fn thinking_is_kept_only_if_requested() {
    let event = json!({"type":"message_end","sessionId":"s","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"x"}]}});
    let without = Options { keep_thinking: false, ..options("p") };
    let thoughts = |written: &Written| written.items().iter().filter(|item| item.kind == ItemKind::Thinking).count();
    assert_eq!(thoughts(&record(options("p"), std::slice::from_ref(&event))), 1);
    assert_eq!(thoughts(&record(without, &[event])), 0);
}

#[test]
fn of_several_snapshots_the_last_wins_and_a_turn_has_one_result() {
    let end = json!({"type":"agent_end"});
    let events = [session(), said("x"), snapshot(1, 0.01), snapshot(2, 0.02), end, snapshot(3, 0.5)];
    let written = record(options("p"), &events);
    let ends: Vec<_> = written.values().into_iter().filter(|line| line["type"] == "result").collect();
    assert_eq!(ends.len(), 1);
    assert_eq!((&ends[0]["num_turns"], &ends[0]["total_cost_usd"]), (&json!(3), &json!(0.5)));
}

#[test]
fn without_a_snapshot_the_messages_are_summed() {
    let written = record(options("p"), &[session(), said("x"), said("y"), json!({"type":"agent_end"})]);
    let end = written.values().pop().expect("a result");
    assert_eq!(
        (&end["total_input_tokens"], &end["total_cost_usd"], &end["num_turns"]),
        (&json!(2400), &json!(0.14), &json!(2))
    );
}

#[test]
fn a_turn_that_was_cut_off_has_no_result() {
    let written = record(options("p"), &[session(), said("half")]);
    let mut fold = TurnFold::default();
    for item in written.items() {
        assert_eq!(fold.item(&item), None);
    }
    assert!(!fold.last().expect("a turn").is_complete());
}

#[test]
fn a_long_result_is_shortened_at_a_character_and_stored_in_full() {
    // The limit is inside of a character of four bytes.
    let whole = format!("a{}", "🥛".repeat(20_000));
    let event = json!({"type":"tool_execution_end","sessionId":"s","toolCallId":"d0","result":whole,"isError":true});
    let written = record(options("p"), &[event]);
    let items = written.items();
    let answer = items.iter().find(|item| item.kind == ItemKind::ToolResult).expect("an answer");
    assert_eq!(written.blobs, [whole]);
    assert_eq!(answer.full.as_deref(), Some(format!("blob:{:064x}", 1).as_str()));
    assert!(answer.failed);
    let (shown, mark) = answer.text.rsplit_once('\n').expect("a mark");
    assert!(shown.len() <= 65_536 && shown.len() > 65_532);
    let dropped = 20_001 - shown.chars().count();
    assert_eq!(mark, format!("…[truncated {dropped} chars]"));
}

#[test]
fn a_result_at_the_limit_is_not_shortened() {
    let whole = "x".repeat(65_536);
    let event = json!({"type":"tool_execution_end","sessionId":"s","toolCallId":"d0","result":whole});
    let written = record(options("p"), &[event]);
    assert!(written.blobs.is_empty());
    assert_eq!(written.items()[1].text, whole);
}

#[test]
fn a_result_sent_by_two_channels_is_written_once() {
    let first = json!({"type":"tool_execution_end","sessionId":"s","toolCallId":"d0","result":{"content":[{"type":"text","text":"a"}]}});
    let second = json!({"type":"message_end","sessionId":"s","message":{"role":"toolResult","toolCallId":"d0","content":[{"type":"text","text":"a"}]}});
    let written = record(options("p"), &[first, second]);
    let answers: Vec<_> = written.items().into_iter().filter(|item| item.kind == ItemKind::ToolResult).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].text, "a", "the text of the line");
    assert!(written.lines[1].contains(r#"{\"content\":[{\"text\":\"a\",\"type\":\"text\"}]}"#), "{}", written.lines[1]);
}

#[test]
fn a_resumed_session_writes_only_new_prompts() {
    let known_of = |written: &Written| {
        let mut known = Known::default();
        let _ = written.lines.iter().rev().all(|line| known.line_before(line));
        known
    };
    let prompts = |written: &Written| {
        let asked = written.items().into_iter().filter(|item| item.kind == ItemKind::User).map(|item| item.text);
        asked.collect::<Vec<_>>()
    };
    let mut written = record(options("first"), &[session(), said("half")]);
    let known = known_of(&written);
    record_into(&mut written, options("first"), &known, &[session(), said("whole"), json!({"type":"agent_end"})]);
    assert_eq!(prompts(&written), ["first"], "its turn was open");
    let known = known_of(&written);
    record_into(&mut written, options("second"), &known, &[session(), said("more"), json!({"type":"agent_end"})]);
    assert_eq!(prompts(&written), ["first", "second"]);
    let known = known_of(&written);
    record_into(&mut written, options("second"), &known, &[session(), said("again"), json!({"type":"agent_end"})]);
    assert_eq!(prompts(&written), ["first", "second", "second"], "after its turn ended, the same prompt is a new one");
}

#[test]
fn a_reused_call_id_has_its_own_result() {
    let call = |text: &str| json!({"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":text},{"type":"toolCall","id":"c0","name":"bash","arguments":{}}]}});
    let execution = |text: &str| json!({"type":"tool_execution_end","toolCallId":"c0","result":{"content":[{"type":"text","text":text}]}});
    let message = |text: &str| json!({"type":"message_end","message":{"role":"toolResult","toolCallId":"c0","content":[{"type":"text","text":text}]}});
    let user = |text: &str| json!({"type":"message_end","message":{"role":"user","content":text}});
    let end = || json!({"type":"agent_end"});
    let answers = |events: &[Value]| {
        let items = record(options("p"), events).items().into_iter().filter(|item| item.kind == ItemKind::ToolResult);
        items.count()
    };
    let (first, second) = ([call("1"), execution("a"), message("a"), end()], [user("q"), call("2")]);
    let turns = |last: &[Value]| [&first[..], &second[..], last].concat();
    assert_eq!(answers(&turns(&[execution("a"), message("a")])), 2, "both channels");
    assert_eq!(answers(&turns(&[execution("b")])), 2, "one channel");
    assert_eq!(answers(&turns(&[message("a")])), 2, "the other channel");
    let unmatched = [call("1"), execution("a"), end(), user("q"), message("a")];
    assert_eq!(answers(&unmatched), 2, "another turn is another result");
    assert_eq!(answers(&[call("1"), execution("a"), call("2"), message("a")]), 2, "another call in the same turn");
    assert_eq!(answers(&[execution("a"), execution("a"), message("a"), message("a")]), 2, "each is sent twice");
    assert_eq!(answers(&[execution("a"), message("b")]), 2, "other content is not a repetition");
}

#[test]
fn a_repeated_prompt_within_a_turn_is_kept() {
    let user = |text: &str| json!({"type":"message_end","message":{"role":"user","content":text}});
    let asked = |prompt: Option<&str>, events: &[Value]| {
        let items = record(Options { prompt: prompt.map(str::to_owned), ..options("") }, events).items();
        items.iter().filter(|item| item.kind == ItemKind::User).count()
    };
    assert_eq!(asked(None, &[user("go on"), user("go on")]), 2);
    assert_eq!(asked(None, &[user("go on"), said("x"), user("go on")]), 2);
    assert_eq!(asked(Some("go on"), &[user("go on"), said("x"), user("go on")]), 2, "both send the first");
    assert_eq!(asked(Some("go on"), &[user("go on"), user("go on")]), 2);
    assert_eq!(asked(Some("go on"), &[said("x"), user("go on")]), 2, "the runtime sends only the second");
}

#[test]
fn a_resumed_prompt_becomes_a_remark_and_its_repetition_is_kept() {
    let user = |text: &str| json!({"type":"message_end","message":{"role":"user","content":text}});
    let mut written = record(options("go on"), &[session(), said("half")]);
    let mut known = Known::default();
    let _ = written.lines.iter().rev().all(|line| known.line_before(line));
    let end = json!({"type":"agent_end"});
    record_into(&mut written, options("go on"), &known, &[user("go on"), said("more"), user("go on"), said("y"), end]);
    let kinds: Vec<_> = written.items().iter().map(|item| (item.kind.word(), item.text.clone())).collect();
    let resumed = "the same prompt was given again; its turn continues";
    let expected = [
        ("user", "go on"),
        ("assistant", "half"),
        ("note", resumed),
        ("assistant", "more"),
        ("user", "go on"),
        ("assistant", "y"),
        ("result", "y"),
    ];
    assert_eq!(kinds, expected.map(|(kind, text)| (kind, text.to_owned())));
    let result = written.values().pop().expect("a result");
    assert_eq!((&result["num_turns"], &result["total_input_tokens"]), (&json!(3), &json!(3600)), "the sum of the turn");
    assert_eq!(result["total_cost_usd"], json!(0), "the cost of the first response is unknown");
}

#[test]
fn a_partial_snapshot_keeps_earlier_values() {
    let end = json!({"type":"agent_end"});
    let partial = |stats: Value| {
        let snapshot = json!({"type":"usage_snapshot","stats":stats});
        record(options("p"), &[said("x"), said("y"), end.clone(), snapshot]).values().pop().expect("a result")
    };
    let counts = |result: &Value| {
        let names = [
            "num_turns",
            "total_input_tokens",
            "total_output_tokens",
            "total_cache_read_input_tokens",
            "total_cost_usd",
        ];
        names.map(|name| result[name].clone())
    };
    let counted = [json!(2), json!(2400), json!(680), json!(10_000), json!(0.14)];
    assert_eq!(counts(&partial(json!({}))), counted);
    let zeros = json!({"assistantMessages":0,"tokens":{"input":0,"output":0},"cost":0});
    assert_eq!(counts(&partial(zeros)), counted);
    let [turns, _, output, cached, cost] = counted;
    assert_eq!(counts(&partial(json!({"tokens":{"input":7}}))), [turns, json!(7), output, cached, cost]);
}

#[test]
fn the_end_of_input_after_a_snapshot_is_not_a_success() {
    let written = record(options("p"), &[session(), said("half"), snapshot(1, 0.01), snapshot(2, 0.02)]);
    let values = written.values();
    assert!(values.iter().all(|line| line["type"] != "result"), "{values:?}");
    let kept = values.last().expect("a line");
    assert_eq!((&kept["subtype"], &kept["event"]["stats"]["cost"]), (&json!("usage_snapshot"), &json!(0.02)));
    let mut fold = TurnFold::default();
    written.items().iter().for_each(|item| assert_eq!(fold.item(item), None));
    assert!(!fold.last().expect("a turn").is_complete());
}

#[test]
fn a_prompt_that_the_runtime_repeats_is_written_once() {
    let user = |text: &str| json!({"type":"message_end","sessionId":"s","message":{"role":"user","content":[{"type":"text","text":text}]}});
    let events = [
        session(),
        user("p"),
        said("x"),
        json!({"type":"agent_end"}),
        user("next"),
        said("y"),
        json!({"type":"agent_end"}),
    ];
    let written = record(options("p"), &events);
    let kinds: Vec<_> = written.items().iter().map(|item| item.kind.word()).collect();
    assert_eq!(kinds, ["user", "assistant", "result", "user", "assistant", "result"]);
    let again = [
        session(),
        user("p"),
        said("x"),
        json!({"type":"agent_end"}),
        user("p"),
        said("y"),
        json!({"type":"agent_end"}),
    ];
    let asked = record(options("p"), &again).items().iter().filter(|item| item.kind == ItemKind::User).count();
    assert_eq!(asked, 2, "the same text after the turn ended is a new prompt");
}

#[test]
fn failures_are_recorded() {
    let fatal = json!({"type":"fatal_error","sessionId":"s","error":{"name":"Error","message":"no credit"}});
    let written = record(options("p"), &[session(), fatal]);
    let values = written.values();
    assert_eq!((&values[1]["isApiErrorMessage"], &values[1]["error"]), (&json!(true), &json!("no credit")));
    assert_eq!(values[2]["subtype"], "error_fatal");
    let ended = json!({"type":"agent_end","messages":[{"role":"assistant","stopReason":"error","errorMessage":"429"}]});
    assert_eq!(record(options("p"), &[session(), ended]).values()[1]["subtype"], "error_agent");
}

#[test]
fn retries_and_statuses_are_written_as_by_last_light() {
    let events = [
        json!({"type":"extension_status","sessionId":"sess1","extension":"file-search","status":"configured","toolCount":3}),
        json!({"type":"auto_retry_start","sessionId":"sess1","attempt":1,"maxAttempts":3,"delayMs":10000,"errorMessage":"429 RATE_LIMIT_EXCEEDED"}),
        json!({"type":"auto_retry_end","sessionId":"sess1","attempt":2}),
        json!({"type":"auto_retry_end","sessionId":"sess1","attempt":3,"finalError":"still 429"}),
    ];
    let values = record(options("p"), &events).values();
    assert_eq!((&values[1]["type"], &values[1]["subtype"]), (&json!("system"), &json!("extension_status")));
    assert_eq!((&values[1]["extension"], &values[1]["toolCount"]), (&json!("file-search"), &json!(3)));
    assert_eq!(values[2]["role"], "system");
    let told: Vec<_> = values[2..].iter().map(|line| line["content"].as_str().expect("text")).collect();
    assert_eq!(
        told,
        [
            "Auto-retry 1/3 in 10s: 429 RATE_LIMIT_EXCEEDED",
            "Auto-retry recovered after 2 attempts",
            "Auto-retry gave up after 3 attempts: still 429",
        ]
    );
}

#[test]
fn nothing_is_dropped() {
    let mut written = Written::default();
    let mut recorder = Recorder::new(options("p"), &Known::default());
    let strange = r#"{"type":"from_the_future","sessionId":"s","b":1,"a":[1e400,"\ud83d"]}"#;
    recorder.event(strange, &mut written).expect("recorded");
    recorder.event("warning: not JSON at all", &mut written).expect("recorded");
    recorder.event("{\n  \"type\": \"spread\",\r\n  \"over\": \"lines\"\n}", &mut written).expect("recorded");
    let image = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"image","data":"x"}]}}"#;
    recorder.event(image, &mut written).expect("recorded");
    let unannounced = r#"{"type":"tool_execution_end","toolCallId":"never-called","result":"kept"}"#;
    recorder.event(unannounced, &mut written).expect("recorded");
    assert!(written.lines[1].contains(&format!(r#""event":{strange}"#)), "as it was: {}", written.lines[1]);
    assert!(written.lines[2].contains("warning: not JSON at all"));
    assert!(written.lines[3].contains(r#""subtype":"spread""#));
    assert!(written.lines[4].contains(r#""data":"x""#));
    assert!(written.lines[5].contains("kept"));
    let picture = r#"{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","data":"pixels"}]}}"#;
    recorder.event(picture, &mut written).expect("recorded");
    assert!(written.lines[6].contains(r#""content":"look [image]""#));
    assert!(written.lines[7].contains("pixels"));
    let seen = r#"{"type":"message_end","message":{"role":"toolResult","toolCallId":"c9","content":[{"type":"image","data":"dots"}]}}"#;
    recorder.event(seen, &mut written).expect("recorded");
    assert!(written.lines[8].contains("dots"));
    assert_eq!(written.lines.len(), 9);
}

#[test]
fn an_event_too_deep_for_a_log_is_kept_as_text() {
    let mut written = Written::default();
    let mut recorder = Recorder::new(options("p"), &Known::default());
    let deep = format!(r#"{{"type":"deep","x":{}"core"{}}}"#, "[".repeat(500), "]".repeat(500));
    recorder.event(&deep, &mut written).expect("recorded");
    let line: Value = serde_json::from_str(&written.lines[1]).expect("JSON");
    assert_eq!(line["subtype"], "too_deep");
    assert!(line["content"].as_str().expect("text").contains(&deep));
}

#[test]
fn an_error_of_the_sink_is_returned() {
    struct Full;
    impl Sink for Full {
        type Error = std::io::Error;

        fn line(&mut self, _: &str) -> std::io::Result<()> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn blob(&mut self, _: &str) -> std::io::Result<String> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
    }
    let mut recorder = Recorder::new(options("p"), &Known::default());
    assert!(matches!(recorder.event(&session().to_string(), &mut Full), Err(RecordError::Sink(_))));
}

proptest! {
    #[test]
    fn any_input_becomes_valid_lines(events in prop::collection::vec("\\PC{0,60}|\\{\"type\":\"[a-z_]{1,12}\",\"x\":[0-9]{1,3}\\}", 0..12)) {
        let mut written = Written::default();
        let mut recorder = Recorder::new(options("p"), &Known::default());
        for event in &events {
            recorder.event(event, &mut written).expect("recorded");
        }
        recorder.finish(&mut written).expect("finished");
        prop_assert!(!written.lines.is_empty());
    }
}
