use duolog_log::dialect::envelope::{Block, Builder, Ending, Usage};
use duolog_log::dialect::transcript::{Content, Event, TranscriptEvent};
use duolog_log::dialect::turns::{Entry, Step};
use duolog_log::dialect::{Dialect, ItemKind, TimelineItem};
use duolog_types::line::check_line;
use proptest::prelude::*;
use serde_json::value::{RawValue, to_raw_value};

use crate::dialects::render;

const AT: &str = "2026-05-27T20:11:02.489Z";

fn read(dialect: Dialect, line: &str) -> Vec<TimelineItem> {
    check_line(line.as_bytes(), 1 << 20).expect("a valid line");
    let items = render(dialect, &[line.to_owned()]);
    assert!(items.iter().all(|item| item.at.is_some()), "{line}");
    items
}

fn raw(json: &serde_json::Value) -> Box<RawValue> {
    to_raw_value(json).expect("serialises")
}

#[test]
fn envelopes_look_as_last_light_writes_them() {
    let line = Builder { timestamp: AT, session_id: Some("s-1") };
    let input = raw(&serde_json::json!({"c":1}));
    let cost = raw(&serde_json::json!(0.13));
    let tokens =
        Usage { input_tokens: 1, output_tokens: 2, cache_read_input_tokens: 3, cache_creation_input_tokens: 4 };
    let ending =
        Ending { subtype: "success", text: "ok", turns: 7, cost: &cost, tokens, stop_reason: None, duration_ms: 1000 };
    let blocks = vec![
        Block::Thinking { thinking: "hm" },
        Block::Text { text: "ok ü" },
        Block::ToolUse { id: "d0", name: "bash", input: &input },
    ];
    let cases = [
        (
            line.user("q0"),
            r#"{"type":"user","message":{"role":"user","content":"q0"},"timestamp":"2026-05-27T20:11:02.489Z","sessionId":"s-1"}"#,
        ),
        (
            line.assistant(Some("m"), blocks, Some(tokens)),
            r#"{"type":"assistant","message":{"role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"ok ü"},{"type":"tool_use","id":"d0","name":"bash","input":{"c":1}}],"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}},"timestamp":"2026-05-27T20:11:02.489Z","sessionId":"s-1"}"#,
        ),
        (
            line.tool_result("d0", "fine", false, None),
            r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"d0","content":"fine"}]},"timestamp":"2026-05-27T20:11:02.489Z","sessionId":"s-1"}"#,
        ),
        (
            line.tool_result("d0", "bad", true, Some("blob:00")),
            r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"d0","content":"bad","is_error":true,"fullOutput":"blob:00"}]},"timestamp":"2026-05-27T20:11:02.489Z","sessionId":"s-1"}"#,
        ),
        (
            line.failure("no credit"),
            r#"{"type":"assistant","isApiErrorMessage":true,"error":"no credit","timestamp":"2026-05-27T20:11:02.489Z","sessionId":"s-1"}"#,
        ),
        (
            line.result(&ending),
            r#"{"type":"result","subtype":"success","result":"ok","num_turns":7,"total_cost_usd":0.13,"total_input_tokens":1,"total_output_tokens":2,"total_cache_read_input_tokens":3,"total_cache_creation_input_tokens":4,"duration_ms":1000,"timestamp":"2026-05-27T20:11:02.489Z"}"#,
        ),
        (
            line.remark("auto_retry_start", "Auto-retry 1/3"),
            r#"{"role":"system","subtype":"auto_retry_start","content":"Auto-retry 1/3","timestamp":"2026-05-27T20:11:02.489Z","sessionId":"s-1"}"#,
        ),
        (
            line.status("extension_status", vec![("extension", &input)]),
            r#"{"type":"system","subtype":"extension_status","extension":{"c":1},"timestamp":"2026-05-27T20:11:02.489Z","sessionId":"s-1"}"#,
        ),
        (
            line.system("new_kind", &input),
            r#"{"type":"system","subtype":"new_kind","event":{"c":1},"timestamp":"2026-05-27T20:11:02.489Z","sessionId":"s-1"}"#,
        ),
    ];
    for (line, text) in cases {
        assert_eq!(line.to_text().expect("serialises"), text);
        read(Dialect::Envelope, text);
    }
}

#[test]
fn turns_look_as_skillet_writes_them() {
    let agent_name = "todo_list_agent";
    let cases = [
        (
            Entry::UserMessage("what's on my list?"),
            r#"{"kind":"user_message","userInput":"what's on my list?","timestamp":"2026-05-27T20:11:02.489Z"}"#,
        ),
        (
            Entry::Step(Step::AgentToolStart { agent_name, tool_name: "run", tool_arguments_str: "{\"a\":1}" }),
            r#"{"kind":"step","stepResult":{"type":"agent_tool_start","agentName":"todo_list_agent","toolName":"run","toolArgumentsStr":"{\"a\":1}"},"timestamp":"2026-05-27T20:11:02.489Z"}"#,
        ),
        (
            Entry::Step(Step::Handoff { agent_name, to_agent_name: "list-tasks" }),
            r#"{"kind":"step","stepResult":{"type":"handoff","agentName":"todo_list_agent","toAgentName":"list-tasks"},"timestamp":"2026-05-27T20:11:02.489Z"}"#,
        ),
        (
            Entry::FinalResult { text: "done", model: Some("openai:gpt-4.1-mini") },
            r#"{"kind":"final_result","finalResult":{"text":"done"},"timestamp":"2026-05-27T20:11:02.489Z","model":"openai:gpt-4.1-mini"}"#,
        ),
    ];
    for (entry, text) in cases {
        assert_eq!(entry.to_text(AT).expect("serialises"), text);
        read(Dialect::Turns, text);
    }
}

#[test]
fn transcripts_look_as_agentrylab_writes_them() {
    let event =
        |said, latency_ms| Event { t: 1_775_037_601.371_06, iter: 0, agent_id: "pro", role: "agent", said, latency_ms };
    let content = TranscriptEvent::Content {
        content: Content::Text("reply #2 🤖 "),
        metadata: Some("{\"provider\": \"fake\"}"),
        actions: None,
    };
    assert_eq!(
        event(content, Some(0.534_534_454_345_703_1)).to_text().expect("serialises"),
        r#"{"t": 1775037601.37106, "iter": 0, "agent_id": "pro", "role": "agent", "content": "reply #2 🤖 ", "metadata": {"provider": "fake"}, "actions": null, "latency_ms": 0.5345344543457031}"#
    );
    assert_eq!(
        event(TranscriptEvent::Error("LLMProviderError: no"), None).to_text().expect("serialises"),
        r#"{"t": 1775037601.37106, "iter": 0, "agent_id": "pro", "role": "agent", "error": "LLMProviderError: no"}"#
    );
}

/// Texts with characters that JSON must escape, and ones that it must not.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,40}", "[\\x00-\\x1f\"\\\\\u{2028}\u{7f}é🥛]{0,20}", Just(String::new())]
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z_\"\\\\ü]{1,12}"
}

proptest! {
    #[test]
    fn a_written_envelope_is_read_back(
        said in text(), thought in text(), id in name(), tool in name(), model in name(), argument in text(), failed in any::<bool>(),
    ) {
        let line = Builder { timestamp: AT, session_id: Some(&id) };
        let asked = read(Dialect::Envelope, &line.user(&said).to_text().expect("serialises"));
        prop_assert_eq!((asked[0].kind, &asked[0].text), (ItemKind::User, &said));

        let input = raw(&serde_json::json!({"a": argument}));
        let blocks = vec![
            Block::Thinking { thinking: &thought },
            Block::Text { text: &said },
            Block::ToolUse { id: &id, name: &tool, input: &input },
        ];
        let items = read(Dialect::Envelope, &line.assistant(Some(&model), blocks, None).to_text().expect("serialises"));
        let kinds: Vec<_> = items.iter().map(|item| item.kind).collect();
        prop_assert_eq!(kinds, [ItemKind::Thinking, ItemKind::Assistant, ItemKind::ToolCall]);
        prop_assert_eq!((&items[0].text, &items[1].text, items[2].text.as_str()), (&thought, &said, input.get()));
        prop_assert_eq!((items[2].tool.as_ref(), items[2].call_id.as_ref()), (Some(&tool), Some(&id)));
        prop_assert!(items.iter().all(|item| item.model.as_ref() == Some(&model)));

        let answer = line.tool_result(&id, &said, failed, Some("blob:ab")).to_text().expect("serialises");
        let answer = &read(Dialect::Envelope, &answer)[0];
        prop_assert_eq!((answer.kind, &answer.text, answer.failed), (ItemKind::ToolResult, &said, failed));
        prop_assert_eq!((answer.call_id.as_ref(), answer.full.as_deref()), (Some(&id), Some("blob:ab")));
    }

    #[test]
    fn a_written_entry_is_read_back(said in text(), agent in name(), tool in name(), model in name()) {
        let first = |entry: Entry<'_>| read(Dialect::Turns, &entry.to_text(AT).expect("serialises")).remove(0);
        let asked = first(Entry::UserMessage(&said));
        prop_assert_eq!((asked.kind, &asked.text), (ItemKind::User, &said));
        let step = first(Entry::Step(Step::AgentToolStart { agent_name: &agent, tool_name: &tool, tool_arguments_str: &said }));
        prop_assert_eq!((step.kind, &step.text), (ItemKind::ToolCall, &said));
        prop_assert_eq!((step.author.as_ref(), step.tool.as_ref()), (Some(&agent), Some(&tool)));
        let step = first(Entry::Step(Step::AgentToolEnd { agent_name: &agent, tool_name: &tool, result: &said }));
        prop_assert_eq!((step.kind, &step.text, step.tool.as_ref()), (ItemKind::ToolResult, &said, Some(&tool)));
        let step = first(Entry::Step(Step::Handoff { agent_name: &agent, to_agent_name: &tool }));
        prop_assert_eq!((step.author.as_ref(), &step.text), (Some(&agent), &tool));
        let step = first(Entry::Step(Step::Text { text: &said }));
        prop_assert_eq!((step.kind, &step.text), (ItemKind::Assistant, &said));
        let end = first(Entry::FinalResult { text: &said, model: Some(&model) });
        prop_assert_eq!((end.kind, &end.text, end.model.as_ref()), (ItemKind::Result, &said, Some(&model)));
    }

    #[test]
    fn a_written_event_is_read_back(
        said in text(), who in name(), role in name(), iter in any::<u32>(), micros in 0_u32..1_000_000,
    ) {
        let metadata = serde_json::json!({"model": who}).to_string();
        let actions = r#"{"type": "STOP", "rollback": 0}"#;
        let t = 1_775_000_000.0 + f64::from(micros) / 1e6;
        let event = Event {
            t,
            iter: u64::from(iter),
            agent_id: &who,
            role: &role,
            said: TranscriptEvent::Content { content: Content::Text(&said), metadata: Some(&metadata), actions: Some(actions) },
            latency_ms: Some(f64::from(micros) / 7.0),
        };
        let items = read(Dialect::Transcript, &event.to_text().expect("serialises"));
        prop_assert_eq!((&items[0].text, items[0].author.as_ref(), items[0].role.as_ref()), (&said, Some(&who), Some(&role)));
        prop_assert_eq!((items[0].round, items[0].model.as_ref()), (Some(u64::from(iter)), Some(&who)));
        prop_assert_eq!(items[0].at.map(duolog_types::Timestamp::as_micros), Some(1_775_000_000_000_000 + i64::from(micros)));
        prop_assert_eq!((items[1].what.as_deref(), items[1].text.as_str()), (Some("actions"), actions));
        let failed = Event { said: TranscriptEvent::Error(&said), ..event };
        let items = read(Dialect::Transcript, &failed.to_text().expect("serialises"));
        prop_assert_eq!((items[0].kind, &items[0].text), (ItemKind::Error, &said));
    }
}
