//! The turns dialect: Skillet's replay log: `user_message`, any number of `step`s, `final_result`.
//!
//! A turn starts with its `user_message` and ends with its `final_result`; a turn that is cut off by the next
//! `user_message` or the end of the log is incomplete. Calls have no id, so results are not linked to calls.

use serde::Serialize;
use serde_json::value::RawValue;

use super::object::Object;
use super::timeline::{Boundary, ItemKind, TimelineItem, content_text};

/// Returns true if a line is in this dialect.
pub(crate) fn recognises(line: &Object<'_>) -> bool {
    matches!(line.text("kind").as_deref(), Some("user_message" | "step" | "final_result"))
}

/// Renders a line; false if it is not in this dialect.
pub(crate) fn render(line: &Object<'_>, out: &mut Vec<TimelineItem>) -> bool {
    let item = match line.text("kind").as_deref() {
        Some("user_message") => TimelineItem {
            boundary: Boundary::Opens,
            ..TimelineItem::new(ItemKind::User, content_text(line.raw("userInput").unwrap_or("null")))
        },
        Some("step") => match line.object("stepResult") {
            Some(step) => render_step(line, &step),
            None => TimelineItem::note("step", line.raw("stepResult").unwrap_or_default()),
        },
        Some("final_result") => {
            let text = match line.object("finalResult") {
                Some(result) => content_text(result.raw("text").unwrap_or("null")).into_owned(),
                None => line.raw("finalResult").unwrap_or_default().to_owned(),
            };
            TimelineItem {
                what: Some("final_result".to_owned()),
                boundary: Boundary::Closes,
                model: line.word("model"),
                ..TimelineItem::new(ItemKind::Result, text)
            }
        }
        _ => return false,
    };
    out.push(item);
    true
}

fn render_step(line: &Object<'_>, step: &Object<'_>) -> TimelineItem {
    let kind = step.text("type").unwrap_or_default();
    let text = |name| content_text(step.raw(name).unwrap_or("null")).into_owned();
    let item = match &*kind {
        "text" => TimelineItem::new(ItemKind::Assistant, text("text")),
        "agent_tool_start" => TimelineItem::new(ItemKind::ToolCall, text("toolArgumentsStr")),
        "agent_tool_end" => TimelineItem {
            full: step.word("fullOutput").or_else(|| line.word("fullOutput")),
            ..TimelineItem::new(ItemKind::ToolResult, text("result"))
        },
        "agent_start" | "agent_end" => TimelineItem::new(ItemKind::Note, ""),
        "handoff" => TimelineItem::new(ItemKind::Note, text("toAgentName")),
        _ => TimelineItem::new(ItemKind::Note, line.raw("stepResult").unwrap_or_default()),
    };
    let what = if kind.is_empty() { "step".to_owned() } else { kind.into_owned() };
    TimelineItem { what: Some(what), author: step.word("agentName"), tool: step.word("toolName"), ..item }
}

/// A line to write, with the members in the order of Skillet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A person's prompt.
    UserMessage(&'a str),
    /// A step of the agent.
    Step(Step<'a>),
    /// The final answer and its model.
    FinalResult {
        /// The answer.
        text: &'a str,
        /// The model.
        model: Option<&'a str>,
    },
}

/// A step of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Step<'a> {
    /// An agent starts.
    AgentStart {
        /// The agent.
        agent_name: &'a str,
    },
    /// An agent ends.
    AgentEnd {
        /// The agent.
        agent_name: &'a str,
    },
    /// A tool call.
    AgentToolStart {
        /// The calling agent.
        agent_name: &'a str,
        /// The tool.
        tool_name: &'a str,
        /// The arguments.
        tool_arguments_str: &'a str,
    },
    /// A tool result.
    AgentToolEnd {
        /// The calling agent.
        agent_name: &'a str,
        /// The tool.
        tool_name: &'a str,
        /// The result.
        result: &'a str,
    },
    /// A handoff between agents.
    Handoff {
        /// The agent that hands over.
        agent_name: &'a str,
        /// The agent that takes over.
        to_agent_name: &'a str,
    },
    /// Text.
    Text {
        /// The text.
        text: &'a str,
    },
}

#[derive(Serialize)]
struct UserMessageLine<'a> {
    kind: &'static str,
    #[serde(rename = "userInput")]
    user_input: &'a str,
    timestamp: &'a str,
}

#[derive(Serialize)]
struct StepLine<'a> {
    kind: &'static str,
    #[serde(rename = "stepResult")]
    step_result: &'a RawValue,
    timestamp: &'a str,
}

#[derive(Serialize)]
struct FinalResultLine<'a> {
    kind: &'static str,
    #[serde(rename = "finalResult")]
    final_result: FinalText<'a>,
    timestamp: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
}

#[derive(Serialize)]
struct FinalText<'a> {
    text: &'a str,
}

impl Entry<'_> {
    /// Returns the exact text of the line, without a newline. `timestamp` is ISO text with milliseconds.
    pub fn to_text(&self, timestamp: &str) -> serde_json::Result<String> {
        match self {
            Self::UserMessage(user_input) => {
                serde_json::to_string(&UserMessageLine { kind: "user_message", user_input, timestamp })
            }
            Self::Step(step) => {
                let raw = serde_json::value::to_raw_value(step)?;
                serde_json::to_string(&StepLine { kind: "step", step_result: &raw, timestamp })
            }
            Self::FinalResult { text, model } => serde_json::to_string(&FinalResultLine {
                kind: "final_result",
                final_result: FinalText { text },
                timestamp,
                model: *model,
            }),
        }
    }
}
