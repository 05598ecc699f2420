use duolog_log::dialect::detect::{Detector, of_line};
use duolog_log::dialect::usage::{UsageFold, fact};
use duolog_log::dialect::{Dialect, Interpreter, ItemKind, TimelineItem};
use duolog_types::Position;
use proptest::prelude::*;

use crate::dialects::made_of_each;

/// Each was found in a real file, or is what a broken writer would leave.
const NASTY: &[&str] = &[
    "null",
    "[1,2]",
    "\"text\"",
    "17",
    "not json",
    "{",
    "}",
    "{}",
    "{\"type\":\"user\"",
    "\u{0}\u{0}\u{0}",
    "\u{feff}{\"type\":\"user\"}",
    r#"{"type":null}"#,
    r#"{"type":5,"message":7}"#,
    r#"{"type":"user","message":null}"#,
    r#"{"type":"user","message":{"role":"user","content":null}}"#,
    r#"{"type":"user","message":{"role":"user","content":{"a":1}}}"#,
    r#"{"type":"user","message":{"role":"user","content":[null,1,"x",[],{}]}}"#,
    r#"{"type":"assistant","message":{"content":[{"type":"text"},{"type":"tool_use"},{"type":"tool_result"}]}}"#,
    r#"{"type":"assistant","message":{"content":[{"type":"text","text":"\ud83d half a pair"}]}}"#,
    r#"{"type":"assistant","message":{"content":"x","usage":{"input_tokens":-1,"output_tokens":1e999,"cache_read_input_tokens":"9"}}}"#,
    r#"{"type":"assistant","message":{"content":"x","usage":{"input_tokens":18446744073709551615,"output_tokens":18446744073709551615}}}"#,
    r#"{"type":"result","subtype":7,"total_cost_usd":-1,"num_turns":"many"}"#,
    r#"{"type":"result","subtype":"success","total_cost_usd":1e400,"total_input_tokens":18446744073709551615}"#,
    r#"{"type":"system","subtype":"duolog.","timestamp":"yesterday"}"#,
    r#"{"kind":"step"}"#,
    r#"{"kind":"step","stepResult":null,"timestamp":1e18}"#,
    r#"{"kind":"step","stepResult":{"type":"new_kind","x":1}}"#,
    r#"{"kind":"user_message","userInput":[[[[[[[[1]]]]]]]]}"#,
    r#"{"kind":"final_result","finalResult":"text"}"#,
    r#"{"t": NaN, "iter": Infinity, "agent_id": "pro", "role": "agent", "content": "said", "metadata": {"drift": -Infinity}}"#,
    r#"{"t": 1e300, "iter": -1, "agent_id": null, "role": 3, "content": {"a": NaN}}"#,
    r#"{"timestamp":"x","type":"event_msg","payload":null}"#,
    r#"{"timestamp":"x","type":"event_msg","payload":{"type":"token_count","info":null}}"#,
    r#"{"timestamp":"x","type":"response_item","payload":{"type":"function_call_output","output":[1,2]}}"#,
    r#"{"timestamp":"x","type":"response_item","payload":{"type":"reasoning","summary":"s"}}"#,
    r#"{"type":"user","type":"assistant","message":{"content":"twice"},"message":{"content":"last"}}"#,
    "{\"type\":\"user\",\"message\":{\"content\":\"raw tab\tand bell\u{7}\"}}",
    "{\"kind\":\"user_message\",\"userInput\":\"sep\u{2028}arator\"}",
];

fn render(dialect: Dialect, line: &str) -> Vec<TimelineItem> {
    let mut items = Vec::new();
    Interpreter::new(dialect).line(Position(7), line, &mut items);
    items
}

#[test]
fn nasty_lines_are_shown_in_every_dialect() {
    for dialect in Dialect::ALL {
        for line in NASTY {
            let items = render(dialect, line);
            assert!(!items.is_empty(), "{dialect}: {line}");
            assert!(items.iter().all(|item| item.position == Position(7)));
        }
    }
    assert!(render(Dialect::Envelope, " \t ").is_empty(), "a blank line has no item");
}

#[test]
fn a_bad_member_hides_no_good_one() {
    let text = |dialect, line| render(dialect, line).into_iter().map(|item| (item.kind, item.text)).collect::<Vec<_>>();
    let half = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"\ud83d half a pair"}]}}"#;
    assert_eq!(text(Dialect::Envelope, half), [(ItemKind::Assistant, "\u{fffd} half a pair".to_owned())]);
    let python = NASTY.iter().find(|line| line.starts_with(r#"{"t": NaN"#)).expect("there");
    assert_eq!(text(Dialect::Transcript, python), [(ItemKind::Assistant, "said".to_owned())]);
    let bell = NASTY.iter().find(|line| line.contains("bell")).expect("there");
    assert_eq!(text(Dialect::Envelope, bell), [(ItemKind::User, "raw tab\tand bell\u{7}".to_owned())]);
    let usage = NASTY.iter().find(|line| line.contains("1e999")).expect("there");
    assert_eq!(text(Dialect::Claude, usage), [(ItemKind::Assistant, "x".to_owned())]);
}

#[test]
fn bytes_that_are_not_utf8_are_replaced_and_shown() {
    let mut items = Vec::new();
    let line = b"{\"kind\":\"user_message\",\"userInput\":\"milk \xf0\x9f\"}";
    Interpreter::new(Dialect::Turns).bytes(Position::ZERO, line, &mut items);
    assert_eq!((items[0].kind, items[0].text.as_str()), (ItemKind::User, "milk \u{fffd}"));
}

#[test]
fn an_unknown_line_becomes_a_bounded_note() {
    let line = r#"{"type":"from_the_future","payload_of":{"x":1}}"#;
    for dialect in Dialect::ALL {
        let items = render(dialect, line);
        assert_eq!((items[0].kind, items[0].text.as_str()), (ItemKind::Note, line));
        assert_eq!(items[0].what.as_deref(), Some("from_the_future"));
    }
    let long = format!(r#"{{"type":"from_the_future","x":"{}"}}"#, "ü".repeat(1_000_000));
    assert!(render(Dialect::Turns, &long)[0].text.len() <= 16 * 1024);
}

#[test]
fn the_memory_of_a_reader_is_bounded() {
    // Hundreds of thousands of calls without a result: the state keeps only a few of them.
    let mut interpreter = Interpreter::new(Dialect::Codex);
    let mut items = Vec::new();
    for number in 0..100_000 {
        items.clear();
        let line = format!(
            r#"{{"timestamp":"2026-01-01T00:00:00Z","type":"response_item","payload":{{"type":"function_call","name":"shell","arguments":"{{}}","call_id":"c{number}"}}}}"#
        );
        interpreter.line(Position(number), &line, &mut items);
    }
    assert!(format!("{interpreter:?}").len() < 64 * 1024);
}

/// JSON with the member names of the dialects and arbitrary values.
fn lookalike() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "type",
        "kind",
        "message",
        "role",
        "content",
        "text",
        "thinking",
        "usage",
        "id",
        "model",
        "payload",
        "info",
        "total_token_usage",
        "last_token_usage",
        "input_tokens",
        "t",
        "iter",
        "agent_id",
        "error",
        "actions",
        "metadata",
        "stepResult",
        "finalResult",
        "userInput",
        "toolName",
        "subtype",
        "timestamp",
        "isSidechain",
        "requestId",
        "cache_creation",
        "output",
        "summary",
        "stats",
        "tokens",
        "cost",
    ]);
    let words = prop::sample::select(vec![
        "user",
        "assistant",
        "system",
        "result",
        "tool_use",
        "tool_result",
        "text",
        "thinking",
        "step",
        "user_message",
        "final_result",
        "event_msg",
        "response_item",
        "session_meta",
        "turn_context",
        "token_count",
        "message",
        "function_call",
        "function_call_output",
        "reasoning",
        "message_end",
        "tool_execution_end",
        "usage_snapshot",
        "session",
        "agent_end",
        "fatal_error",
        "toolCall",
        "duolog.x",
        "2026-01-01T00:00:00Z",
    ]);
    let leaf = prop_oneof![
        words.prop_map(|word| format!("\"{word}\"")),
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("1e999".to_owned()),
        Just("NaN".to_owned()),
        Just(r#""\ud83d""#.to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
        "\\PC{0,12}".prop_map(|s| serde_json::to_string(&s).expect("serialises")),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec((names.clone(), inner), 0..7).prop_map(|v| {
                let members: Vec<_> = v.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn nothing_panics(line: &str) {
    for dialect in Dialect::ALL {
        let items = render(dialect, line);
        assert_eq!(items.is_empty(), line.trim().is_empty(), "{dialect}: {line}");
    }
    let mut detector = Detector::default();
    detector.line(line);
    let _ = (detector.dialect(), of_line(line), fact(line));
    let mut fold = UsageFold::default();
    (0..3).for_each(|_| fold.line(line));
    assert!(UsageFold::from_bytes(&fold.to_bytes()).is_some());
}

proptest! {
    #[test]
    fn lookalikes_do_no_harm(line in lookalike()) {
        nothing_panics(&line);
    }

    #[test]
    fn no_text_does_harm(line in "\\PC*") {
        nothing_panics(&line);
    }

    #[test]
    fn no_bytes_do_harm(line in prop::collection::vec(any::<u8>(), 0..200)) {
        for dialect in Dialect::ALL {
            let mut items = Vec::new();
            Interpreter::new(dialect).bytes(Position::ZERO, &line, &mut items);
        }
        let _ = UsageFold::from_bytes(&line);
    }

    #[test]
    fn damaged_real_lines_do_no_harm(
        which in any::<prop::sample::Index>(),
        line in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        put in prop_oneof![Just(String::new()), "\\PC", Just("\"".to_owned()), Just("[".to_owned()), Just("\\u".to_owned())],
    ) {
        let all = made_of_each();
        let lines = &which.get(&all).1.lines;
        let mut chars: Vec<char> = line.get(lines).chars().collect();
        let at = at.index(chars.len());
        chars.splice(at..=at, put.chars());
        nothing_panics(&chars.into_iter().collect::<String>());
    }
}
