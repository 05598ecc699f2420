//! A line that we write in a dialect is read back unchanged.

use duolog_log::dialect::detect::of_line;
use duolog_log::dialect::envelope::{Block, Builder, Ending, Line, Usage};
use duolog_log::dialect::transcript::{Content, Event, TranscriptEvent};
use duolog_log::dialect::turns::{Entry, Step};
use duolog_log::dialect::{Boundary, Dialect, Interpreter, ItemKind, TimelineItem};
use duolog_types::Position;
use duolog_types::line::check_line;
use serde_json::value::RawValue;

use super::choice;

const AT: &str = "2026-05-27T09:00:03.000Z";

pub(super) fn target(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (one, other) = text.split_at(text.floor_char_boundary(choice(input, 1) % (text.len() + 1)));
    turns(one, other);
    transcript(one, other, choice(input, 2) as u64);
    envelope(one, other, choice(input, 3) as u64);
}

fn read(dialect: Dialect, line: &str) -> Vec<TimelineItem> {
    assert_eq!(check_line(line.as_bytes(), 64 << 20), Ok(()), "a log rejects the line {line:.300}");
    assert_eq!(of_line(line), Some(dialect), "the dialect of the line {line:.300}");
    let mut items = Vec::new();
    Interpreter::new(dialect).line(Position::ZERO, line, &mut items);
    items
}

fn word(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn turns(one: &str, other: &str) {
    let step = |step| Entry::Step(step);
    let cases = [
        (Entry::UserMessage(one), ItemKind::User, one, None, None),
        (Entry::FinalResult { text: one, model: Some(other) }, ItemKind::Result, one, None, None),
        (step(Step::Text { text: one }), ItemKind::Assistant, one, None, None),
        (step(Step::AgentStart { agent_name: one }), ItemKind::Note, "", word(one), None),
        (step(Step::AgentEnd { agent_name: one }), ItemKind::Note, "", word(one), None),
        (step(Step::Handoff { agent_name: one, to_agent_name: other }), ItemKind::Note, other, word(one), None),
        (
            step(Step::AgentToolStart { agent_name: "a", tool_name: one, tool_arguments_str: other }),
            ItemKind::ToolCall,
            other,
            Some("a"),
            word(one),
        ),
        (
            step(Step::AgentToolEnd { agent_name: "a", tool_name: one, result: other }),
            ItemKind::ToolResult,
            other,
            Some("a"),
            word(one),
        ),
    ];
    for (entry, kind, text, author, tool) in cases {
        let items = read(Dialect::Turns, &entry.to_text(AT).expect("a line"));
        assert_eq!(items.len(), 1);
        let item = &items[0];
        assert_eq!((item.kind, item.text.as_str()), (kind, text));
        assert_eq!((item.author.as_deref(), item.tool.as_deref()), (author, tool));
        assert!(item.at.is_some());
        if let Entry::FinalResult { model, .. } = entry {
            assert_eq!(item.model.as_deref(), model.and_then(word));
        }
    }
}

fn transcript(one: &str, other: &str, number: u64) {
    let json = serde_json::to_string(&[one, other]).expect("JSON");
    let words = |content| TranscriptEvent::Content { content, metadata: None, actions: None };
    let iter = number % 1000;
    for role in ["user", "agent", one] {
        for said in [words(Content::Text(other)), words(Content::Json(&json)), TranscriptEvent::Error(other)] {
            let event = Event {
                t: 1.5e9 + f64::from(u32::try_from(iter).expect("small")),
                iter,
                agent_id: one,
                role,
                said,
                latency_ms: Some(0.5),
            };
            let items = read(Dialect::Transcript, &event.to_text().expect("a line"));
            assert_eq!(items.len(), 1);
            let item = &items[0];
            let (kind, text) = match said {
                TranscriptEvent::Error(error) => (ItemKind::Error, error.to_owned()),
                TranscriptEvent::Content { content: Content::Text(text), .. } => (spoken(role), text.to_owned()),
                TranscriptEvent::Content { .. } => (spoken(role), told(&[one, other])),
            };
            assert_eq!((item.kind, &item.text), (kind, &text));
            assert_eq!((item.author.as_deref(), item.role.as_deref()), (word(one), word(role)));
            assert_eq!((item.round, item.at.is_some()), (Some(iter), true));
        }
    }
}

fn spoken(role: &str) -> ItemKind {
    if role == "user" { ItemKind::User } else { ItemKind::Assistant }
}

/// Returns a list of texts as content shows it: a text that looks like a named part is on its own line.
fn told(parts: &[&str]) -> String {
    let mut whole = String::new();
    for part in parts {
        if !whole.is_empty() && part.starts_with('[') && !whole.ends_with(char::is_whitespace) {
            whole.push(' ');
        }
        whole.push_str(part);
    }
    whole
}

fn envelope(one: &str, other: &str, number: u64) {
    let frame = Builder { timestamp: AT, session_id: Some("s") };
    let line = |line: &Line<'_>| read(Dialect::Envelope, &line.to_text().expect("a line"));
    let asked = &line(&frame.user(one))[0];
    assert_eq!((asked.kind, asked.boundary, asked.text.as_str()), (ItemKind::User, Boundary::Opens, one));
    let failed = number.is_multiple_of(2);
    let answer = &line(&frame.tool_result("call", other, failed, Some("blob:x")))[0];
    assert_eq!((answer.kind, answer.text.as_str(), answer.failed), (ItemKind::ToolResult, other, failed));
    assert_eq!((answer.call_id.as_deref(), answer.full.as_deref()), (Some("call"), Some("blob:x")));
    let input = RawValue::from_string(serde_json::to_string(one).expect("JSON")).expect("JSON");
    let blocks = vec![
        Block::Thinking { thinking: one },
        Block::Text { text: other },
        Block::ToolUse { id: "call", name: other, input: &input },
    ];
    let said = line(&frame.assistant(Some("m"), blocks, Some(Usage { input_tokens: number, ..Usage::default() })));
    let kinds: Vec<_> = said.iter().map(|item| (item.kind, item.text.as_str(), item.tool.as_deref())).collect();
    assert_eq!(
        kinds,
        [
            (ItemKind::Thinking, one, None),
            (ItemKind::Assistant, other, None),
            (ItemKind::ToolCall, input.get(), word(other)),
        ]
    );
    let cost = RawValue::from_string("0.25".to_owned()).expect("JSON");
    let ending = Ending {
        subtype: "success",
        text: one,
        turns: number,
        cost: &cost,
        tokens: Usage::default(),
        stop_reason: Some(other),
        duration_ms: number,
    };
    let end = &line(&frame.result(&ending))[0];
    assert_eq!((end.kind, end.boundary, end.text.as_str()), (ItemKind::Result, Boundary::Closes, one));
    let failure = &line(&frame.failure(one))[0];
    assert_eq!((failure.kind, failure.failed), (ItemKind::Error, true));
    let remark = &line(&frame.remark("output", one))[0];
    assert_eq!((remark.kind, remark.text.as_str()), (ItemKind::Note, one));
}
