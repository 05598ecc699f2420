//! The script of the demo's agent, as log lines in the envelope format.

use std::fmt::Write as _;

use duolog::{Clock as _, SessionId, SystemClock};
use serde::Serialize;
use serde_json::json;

/// The approximate size of the large tool result.
const LARGE_BYTES: usize = 2 << 20;

/// One event of the script.
#[derive(Clone, Copy)]
pub enum Step {
    /// The user asks.
    Ask(&'static str),
    /// The assistant says something.
    Say(&'static str),
    /// The assistant calls a tool.
    Call {
        /// The call.
        id: &'static str,
        /// The tool.
        tool: &'static str,
        /// The input.
        input: &'static str,
    },
    /// The result of a tool.
    Answer {
        /// The call.
        id: &'static str,
        /// The answer.
        text: &'static str,
    },
    /// A large result of a tool.
    Flood {
        /// The call.
        id: &'static str,
    },
}

const WHOLE_LOG: &str = "call_3";

/// The batches up to the call with the large answer.
pub const BEGIN: &[&[Step]] = &[
    &[Step::Ask("The nightly build is red. Find out why, and fix it.")],
    &[
        Step::Say("I will look at the last run."),
        Step::Call { id: "call_1", tool: "Bash", input: "ci runs --branch main --last 1" },
    ],
    &[Step::Answer { id: "call_1", text: "run 4711: 24,130 tests, 1 failed (server::takes_a_port)" }],
    &[
        Step::Say("One test failed. I will read it."),
        Step::Call { id: "call_2", tool: "Read", input: "tests/server.rs" },
    ],
    &[Step::Answer { id: "call_2", text: "let server = Server::bind(\"127.0.0.1:8080\")?;" }],
    &[CALL],
];

/// The call with the large answer.
pub const CALL: Step = Step::Call { id: WHOLE_LOG, tool: "Bash", input: "ci log 4711 --whole" };
/// Its answer.
pub const FLOOD: Step = Step::Flood { id: WHOLE_LOG };

/// The batches after the large answer.
pub const FINISH: &[&[Step]] = &[
    &[
        Step::Say("Another test still held port 8080. I will take a free one."),
        Step::Call { id: "call_4", tool: "Edit", input: "tests/server.rs: bind 127.0.0.1:0" },
    ],
    &[Step::Answer { id: "call_4", text: "1 line changed" }],
    &[Step::Call { id: "call_5", tool: "Bash", input: "cargo test server" }],
    &[Step::Answer { id: "call_5", text: "test result: ok. 212 passed; 0 failed" }],
    &[Step::Say("Fixed: the test takes a free port now, and all 212 tests pass.")],
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    r#type: &'static str,
    message: Message,
    timestamp: String,
    session_id: &'a str,
    uuid: String,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: [serde_json::Value; 1],
}

/// Returns the log line of a step, with a new timestamp and id.
pub fn line(session: &SessionId, step: Step) -> Vec<u8> {
    let (role, content) = match step {
        Step::Ask(text) => ("user", json!({"type": "text", "text": text})),
        Step::Say(text) => ("assistant", json!({"type": "text", "text": text})),
        Step::Call { id, tool, input } => {
            ("assistant", json!({"type": "tool_use", "id": id, "name": tool, "input": {"text": input}}))
        }
        Step::Answer { id, text } => ("user", json!({"type": "tool_result", "tool_use_id": id, "content": text})),
        Step::Flood { id } => ("user", json!({"type": "tool_result", "tool_use_id": id, "content": flood()})),
    };
    let envelope = Envelope {
        r#type: role,
        message: Message { role, content: [content] },
        timestamp: SystemClock.now().to_string(),
        session_id: session.as_str(),
        uuid: uuid::Uuid::now_v7().to_string(),
    };
    // Serialization cannot fail; the log would reject an empty line.
    serde_json::to_vec(&envelope).unwrap_or_default()
}

/// Returns a long test log.
fn flood() -> String {
    let mut text = String::with_capacity(LARGE_BYTES + 128);
    let mut number = 0;
    while text.len() < LARGE_BYTES {
        number += 1;
        let _ = writeln!(text, "test module_{:03}::case_{number:05} ... ok {:>4} ms", number % 211, number * 7 % 997);
    }
    text
}

/// Returns the kind and the text of a line.
pub fn describe(line: &[u8]) -> (&'static str, String) {
    let unknown = || ("event", String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned());
    let Ok(event) = serde_json::from_slice::<serde_json::Value>(line) else { return unknown() };
    let content = &event["message"]["content"][0];
    let text = |field: &serde_json::Value| field.as_str().unwrap_or_default().to_owned();
    match (content["type"].as_str(), event["type"].as_str()) {
        (Some("tool_use"), _) => {
            ("tool call", format!("{}: {}", text(&content["name"]), text(&content["input"]["text"])))
        }
        (Some("tool_result"), _) => ("result", text(&content["content"])),
        (Some("text"), Some("user")) => ("user", text(&content["text"])),
        (Some("text"), _) => ("assistant", text(&content["text"])),
        _ => unknown(),
    }
}

/// Returns true if a line is a tool call.
pub fn is_call(line: &[u8]) -> bool {
    describe(line).0 == "tool call"
}
