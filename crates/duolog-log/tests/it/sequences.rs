use std::sync::Arc;

use duolog_log::dialect::envelope::{Builder, Ending, Usage};
use duolog_log::dialect::recorder::{Known, Options, Recorder};
use duolog_log::dialect::transcript::{Content, Event, TranscriptEvent};
use duolog_log::dialect::turn::{Turn, TurnFold};
use duolog_log::dialect::turns::{Entry, Step};
use duolog_log::dialect::{Dialect, ItemKind, TimelineItem};
use duolog_testkit::FixedClock;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::dialects::render;
use crate::record::Written;

const AT: &str = "2026-05-27T09:00:03.000Z";
/// Longer results are shortened, so that random input covers both cases.
const ANSWER_BYTES_MAX: usize = 40;

/// An event of a runtime.
#[derive(Clone, Debug)]
enum RuntimeEvent {
    Asked(String),
    Said(Vec<Part>),
    Answered { result: String, failed: bool },
    Ended,
    Failed(String),
    Retried,
    Unknown(String),
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Thought(String),
    Called { tool: String, argument: String },
}

/// An item that a reader must return.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expected {
    kind: ItemKind,
    text: String,
    tool: Option<String>,
    call_id: Option<String>,
    failed: bool,
}

impl Expected {
    fn new(kind: ItemKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), tool: None, call_id: None, failed: false }
    }

    fn of(item: &TimelineItem) -> Self {
        let TimelineItem { kind, text, tool, call_id, failed, .. } = item.clone();
        Self { kind, text, tool, call_id, failed }
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{1,60}", "[\\x00-\\x1f\"\\\\\u{2028}\u{7f}é🥛\\[\\]]{1,20}"]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        text().prop_map(Part::Text),
        text().prop_map(Part::Thought),
        ("[a-z_]{1,9}", text()).prop_map(|(tool, argument)| Part::Called { tool, argument }),
    ]
}

fn runtime_event() -> impl Strategy<Value = RuntimeEvent> {
    prop_oneof![
        2 => text().prop_map(RuntimeEvent::Asked),
        4 => prop::collection::vec(part(), 1..5).prop_map(RuntimeEvent::Said),
        3 => (text(), any::<bool>()).prop_map(|(result, failed)| RuntimeEvent::Answered { result, failed }),
        2 => Just(RuntimeEvent::Ended),
        1 => text().prop_map(RuntimeEvent::Failed),
        1 => Just(RuntimeEvent::Retried),
        1 => text().prop_map(RuntimeEvent::Unknown),
    ]
}

/// The events of a run, and the items of its log.
#[derive(Default)]
struct Run {
    events: Vec<Value>,
    expected: Vec<Expected>,
    calls: usize,
    open: Vec<(String, String)>,
    ended: bool,
    failure: bool,
    tool_failed: bool,
    final_text: String,
}

impl Run {
    fn of(all: &[RuntimeEvent]) -> Self {
        let mut run = Self::default();
        run.expected.push(Expected::new(ItemKind::User, "the prompt"));
        for (number, runtime_event) in all.iter().enumerate() {
            run.add(number, runtime_event);
        }
        run.settle();
        run
    }

    fn add(&mut self, number: usize, runtime_event: &RuntimeEvent) {
        let message = |message: Value| json!({"type":"message_end","sessionId":"s","message":message});
        let event = match runtime_event {
            RuntimeEvent::Asked(text) => {
                // A prompt that is being answered would not be written twice.
                let text = format!("{number}: {text}");
                self.settle();
                self.expected.push(Expected::new(ItemKind::User, &text));
                message(json!({"role":"user","content":[{"type":"text","text":text}]}))
            }
            RuntimeEvent::Said(parts) => {
                let parts: Vec<Value> = parts.iter().map(|part| self.part(part)).collect();
                let said: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
                if !said.is_empty() {
                    self.final_text = said;
                }
                message(json!({"role":"assistant","content":parts}))
            }
            RuntimeEvent::Answered { result, failed } => {
                let (id, tool) =
                    self.open.pop().map_or((format!("none-{number}"), None), |(id, tool)| (id, Some(tool)));
                self.tool_failed |= failed;
                let answer = Expected::new(ItemKind::ToolResult, result);
                self.expected.push(Expected { tool, call_id: Some(id.clone()), failed: *failed, ..answer });
                json!({"type":"tool_execution_end","toolCallId":id,"result":result,"isError":failed})
            }
            RuntimeEvent::Ended => {
                self.ended = true;
                json!({"type":"agent_end","messages":[]})
            }
            RuntimeEvent::Failed(text) => {
                (self.ended, self.failure) = (true, true);
                self.expected.push(Expected { failed: true, ..Expected::new(ItemKind::Error, text) });
                json!({"type":"fatal_error","error":{"message":text}})
            }
            RuntimeEvent::Retried => {
                self.expected.push(Expected::new(ItemKind::Note, "Auto-retry recovered after 2 attempts"));
                json!({"type":"auto_retry_end","attempt":2})
            }
            RuntimeEvent::Unknown(text) => {
                let event = json!({"type":"from_the_future","x":text});
                self.expected.push(Expected::new(ItemKind::Note, format!("{{\"event\":{event}}}")));
                event
            }
        };
        self.events.push(event);
    }

    fn part(&mut self, part: &Part) -> Value {
        match part {
            Part::Text(text) => {
                self.expected.push(Expected::new(ItemKind::Assistant, text));
                json!({"type":"text","text":text})
            }
            Part::Thought(text) => {
                self.expected.push(Expected::new(ItemKind::Thinking, text));
                json!({"type":"thinking","thinking":text})
            }
            Part::Called { tool, argument } => {
                self.calls += 1;
                let (id, arguments) = (format!("call-{}", self.calls), json!({"a":argument}));
                let call = Expected::new(ItemKind::ToolCall, arguments.to_string());
                self.expected.push(Expected { tool: Some(tool.clone()), call_id: Some(id.clone()), ..call });
                self.open.push((id.clone(), tool.clone()));
                json!({"type":"toolCall","id":id,"name":tool,"arguments":arguments})
            }
        }
    }

    /// A complete turn has one result with the last answer.
    fn settle(&mut self) {
        let (ended, text) = (std::mem::take(&mut self.ended), std::mem::take(&mut self.final_text));
        let (failure, tool_failed) = (std::mem::take(&mut self.failure), std::mem::take(&mut self.tool_failed));
        if ended {
            let failed = failure || (tool_failed && text.is_empty());
            self.expected.push(Expected { failed, ..Expected::new(ItemKind::Result, text) });
        }
    }
}

proptest! {
    /// No event of a runtime is lost in the recorder, the log or the reader.
    #[test]
    fn recorded_events_are_read_back(all in prop::collection::vec(runtime_event(), 0..25)) {
        let run = Run::of(&all);
        let clock = Arc::new(FixedClock::at(1_779_872_405_000_000));
        let prompt = Some("the prompt".to_owned());
        let options = Options { prompt, tool_result_bytes_max: ANSWER_BYTES_MAX, clock, ..Options::default() };
        let mut written = Written::default();
        let mut recorder = Recorder::new(options, &Known::default());
        for event in &run.events {
            recorder.event(&event.to_string(), &mut written).expect("recorded");
        }
        recorder.finish(&mut written).expect("finished");
        let items = render(Dialect::Envelope, &written.lines);
        let read: Vec<_> = items
            .iter()
            .map(|item| {
                // The line of a long result has a part of it, and names the blob.
                let whole = item.full.as_deref().and_then(|full| usize::from_str_radix(full.strip_prefix("blob:")?, 16).ok());
                let text = whole.map_or_else(|| item.text.clone(), |number| written.blobs[number - 1].clone());
                Expected { text, ..Expected::of(item) }
            })
            .collect();
        prop_assert_eq!(read, run.expected);
        prop_assert!(items.iter().all(|item| item.at.is_some()));
    }

    #[test]
    fn written_turns_are_read_back(
        turns in prop::collection::vec((text(), prop::collection::vec(text(), 0..4), any::<bool>()), 1..8),
    ) {
        let (mut lines, mut expected, mut complete) = (Vec::new(), Vec::new(), Vec::new());
        for (asked, steps, ends) in &turns {
            let mut put = |entry: Entry<'_>, kind, text: &str| {
                lines.push(entry.to_text(AT).expect("serialises"));
                expected.push((kind, text.to_owned()));
            };
            put(Entry::UserMessage(asked), ItemKind::User, asked);
            for step in steps {
                put(Entry::Step(Step::Text { text: step }), ItemKind::Assistant, step);
            }
            if *ends {
                put(Entry::FinalResult { text: asked, model: None }, ItemKind::Result, asked);
            }
            complete.push(*ends);
        }
        let items = render(Dialect::Turns, &lines);
        prop_assert_eq!(items.iter().map(|item| (item.kind, item.text.clone())).collect::<Vec<_>>(), expected);
        let mut fold = TurnFold::default();
        let mut found: Vec<_> = items.iter().filter_map(|item| fold.item(item)).collect();
        found.extend(fold.last());
        prop_assert_eq!(found.iter().map(Turn::is_complete).collect::<Vec<_>>(), complete);
    }

    #[test]
    fn a_written_transcript_is_read_back(
        all in prop::collection::vec((text(), "[a-z]{1,6}", prop::sample::select(vec!["user", "agent", "moderator"]), any::<bool>()), 1..12),
    ) {
        let (mut lines, mut expected) = (Vec::new(), Vec::new());
        for (number, (words, who, role, fails)) in (0_u32..).zip(&all) {
            let content = TranscriptEvent::Content { content: Content::Text(words), metadata: None, actions: None };
            let said = if *fails { TranscriptEvent::Error(words) } else { content };
            let event =
                Event { t: 1.5e9 + f64::from(number), iter: u64::from(number), agent_id: who, role, said, latency_ms: None };
            lines.push(event.to_text().expect("serialises"));
            let kind = match (*fails, *role) {
                (true, _) => ItemKind::Error,
                (_, "user") => ItemKind::User,
                _ => ItemKind::Assistant,
            };
            expected.push((kind, words.clone(), Some(who.clone()), Some((*role).to_owned()), Some(u64::from(number))));
        }
        let items = render(Dialect::Transcript, &lines);
        let read = items.into_iter().map(|item| (item.kind, item.text, item.author, item.role, item.round));
        prop_assert_eq!(read.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn ends_failures_and_remarks_of_an_envelope_are_read_back(said in text(), subtype in "[a-z_]{1,12}", value in text()) {
        let frame = Builder { timestamp: AT, session_id: Some("s") };
        let cost = RawValue::from_string("0.25".to_owned()).expect("JSON");
        let (tokens, stop_reason) = (Usage::default(), Some("stop"));
        let ending = Ending { subtype: &subtype, text: &said, turns: 3, cost: &cost, tokens, stop_reason, duration_ms: 7 };
        let event = RawValue::from_string(json!({"a":value}).to_string()).expect("JSON");
        let lines = [
            frame.result(&ending),
            frame.failure(&said),
            frame.remark(&subtype, &said),
            frame.system(&subtype, &event),
            frame.status(&subtype, vec![("x", &event)]),
        ];
        let lines: Vec<_> = lines.iter().map(|line| line.to_text().expect("serialises")).collect();
        let items = render(Dialect::Envelope, &lines);
        let failed = !matches!(subtype.as_str(), "success" | "result");
        let read: Vec<_> = items.iter().map(|item| (item.kind, item.text.clone(), item.failed)).collect();
        prop_assert_eq!(read, [
            (ItemKind::Result, said.clone(), failed),
            (ItemKind::Error, said.clone(), true),
            (ItemKind::Note, said, false),
            (ItemKind::Note, format!("{{\"event\":{event}}}"), false),
            (ItemKind::Note, format!("{{\"x\":{event}}}"), false),
        ]);
        prop_assert!(items.iter().skip(2).all(|item| item.what.as_deref() == Some(&subtype)));
    }
}
