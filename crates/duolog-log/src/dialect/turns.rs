//! The turns dialect: Skillet's replay log. `user_message`, any number of `step`s, `final_result`.
//!
//! A turn begins with its `user_message` and ends with its `final_result`; a turn that the next `user_message` or the
//! end of the log cuts off is incomplete. Calls carry no id, so answers are not tied to calls.

use serde::Serialize;
use serde_json::value::RawValue;

use super::object::Object;
use super::timeline::{Boundary, ItemKind, TimelineItem, content_text};

/// Whether a line has this dialect's marks.
pub(crate) fn recognises(line: &Object<'_>) -> bool {
    matches!(line.text("kind").as_deref(), Some("user_message" | "step" | "final_result"))
}

/// Renders one line; false if it is not of this dialect.
pub(crate) fn render(line: &Object<'_>, out: &mut Vec<TimelineItem>) -> bool {
    let item = match line.text("kind").as_deref() {
        Some("user_message") => TimelineItem {
            boundary: Boundary::Opens,
            ..TimelineItem::new(ItemKind::User, content_text(line.raw("userInput").unwrap_or("null")))
        },
        Some("step") => match line.object("stepResult") {
            Some(step) => one_step(line, &step),
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

fn one_step(line: &Object<'_>, step: &Object<'_>) -> TimelineItem {
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

/// A line of this dialect on its way out, in the member order of Skillet's writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// What the person typed.
    UserMessage(&'a str),
    /// Something the agent did.
    Step(Step<'a>),
    /// The answer, and the model that gave it.
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
    /// An agent begins.
    AgentStart {
        /// Which.
        agent_name: &'a str,
    },
    /// An agent ends.
    AgentEnd {
        /// Which.
        agent_name: &'a str,
    },
    /// A tool is called.
    AgentToolStart {
        /// By whom.
        agent_name: &'a str,
        /// Which.
        tool_name: &'a str,
        /// With what.
        tool_arguments_str: &'a str,
    },
    /// A tool answers.
    AgentToolEnd {
        /// Whom.
        agent_name: &'a str,
        /// Which.
        tool_name: &'a str,
        /// What.
        result: &'a str,
    },
    /// One agent hands over to another.
    Handoff {
        /// From.
        agent_name: &'a str,
        /// To.
        to_agent_name: &'a str,
    },
    /// Words.
    Text {
        /// The words.
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
    /// The line's exact text, without a newline. `timestamp` is ISO text with milliseconds.
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
