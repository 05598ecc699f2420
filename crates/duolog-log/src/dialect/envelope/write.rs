//! Writes envelope lines, with the members in the order of Last Light.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::dialect::usage::Tokens;

/// A line to write.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Line<'a> {
    /// A prompt, or a tool result.
    User(UserLine<'a>),
    /// A message of the agent.
    Assistant(AssistantLine<'a>),
    /// An error.
    Failure(FailureLine<'a>),
    /// The end of a turn.
    Result(ResultLine<'a>),
    /// A status, or an event of the runtime without a line format of its own.
    System(SystemLine<'a>),
    /// A remark, shown by readers that use the role.
    Remark(RemarkLine<'a>),
}

impl Line<'_> {
    /// Returns the timestamp.
    pub fn timestamp(&self) -> &str {
        match self {
            Self::User(line) => line.timestamp,
            Self::Assistant(line) => line.timestamp,
            Self::Failure(line) => line.timestamp,
            Self::Result(line) => line.timestamp,
            Self::System(line) => line.timestamp,
            Self::Remark(line) => line.timestamp,
        }
    }

    /// Returns the exact text of the line, without a newline.
    pub fn to_text(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// `{"type":"user",…}`
#[derive(Clone, Debug, Serialize)]
pub struct UserLine<'a> {
    r#type: &'static str,
    message: UserMessage<'a>,
    timestamp: &'a str,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
}

#[derive(Clone, Debug, Serialize)]
struct UserMessage<'a> {
    role: &'static str,
    content: UserContent<'a>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(&'a str),
    Tools([ToolResult<'a>; 1]),
}

/// A tool result.
#[derive(Clone, Debug, Serialize)]
pub struct ToolResult<'a> {
    r#type: &'static str,
    tool_use_id: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    is_error: bool,
    #[serde(rename = "fullOutput", skip_serializing_if = "Option::is_none")]
    full_output: Option<&'a str>,
}

/// `{"type":"assistant","message":…}`
#[derive(Clone, Debug, Serialize)]
pub struct AssistantLine<'a> {
    r#type: &'static str,
    message: AssistantMessage<'a>,
    timestamp: &'a str,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
}

#[derive(Clone, Debug, Serialize)]
struct AssistantMessage<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    content: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

/// A content block of the agent's message.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block<'a> {
    /// Text.
    Text {
        /// The text.
        text: &'a str,
    },
    /// Thinking.
    Thinking {
        /// The text.
        thinking: &'a str,
    },
    /// A tool call.
    ToolUse {
        /// The id that links the result to the call.
        id: &'a str,
        /// The tool.
        name: &'a str,
        /// The arguments, as the runtime gave them.
        input: &'a RawValue,
    },
}

/// Tokens of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Input tokens that were not in the cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens from the cache.
    pub cache_read_input_tokens: u64,
    /// Input tokens written to the cache.
    pub cache_creation_input_tokens: u64,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cache_read_input_tokens: tokens.cache_read,
            cache_creation_input_tokens: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
        }
    }
}

/// `{"type":"assistant","isApiErrorMessage":true,…}`
#[derive(Clone, Debug, Serialize)]
pub struct FailureLine<'a> {
    r#type: &'static str,
    #[serde(rename = "isApiErrorMessage")]
    is_api_error_message: bool,
    error: &'a str,
    timestamp: &'a str,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
}

/// `{"type":"result",…}`. Like the original, it has no session id.
#[derive(Clone, Debug, Serialize)]
pub struct ResultLine<'a> {
    r#type: &'static str,
    subtype: &'a str,
    result: &'a str,
    num_turns: u64,
    total_cost_usd: &'a RawValue,
    total_input_tokens: u64,
    total_output_tokens: u64,
    total_cache_read_input_tokens: u64,
    total_cache_creation_input_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'a str>,
    duration_ms: u64,
    timestamp: &'a str,
}

/// The end of a turn, to be written.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// `success`, or the kind of error.
    pub subtype: &'a str,
    /// The final text.
    pub text: &'a str,
    /// Number of responses.
    pub turns: u64,
    /// The cost, as a JSON number.
    pub cost: &'a RawValue,
    /// The tokens of the turn.
    pub tokens: Usage,
    /// Why the model stopped, if the runtime says it.
    pub stop_reason: Option<&'a str>,
    /// The duration.
    pub duration_ms: u64,
}

/// `{"type":"system","subtype":…,"event":…}`
#[derive(Clone, Debug, Serialize)]
pub struct SystemLine<'a> {
    r#type: &'static str,
    subtype: &'a str,
    #[serde(flatten)]
    event: EventMembers<'a>,
    timestamp: &'a str,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
}

/// An event of the runtime: its members beside those of the frame, or the event as one member.
#[derive(Clone, Debug)]
enum EventMembers<'a> {
    Members(Vec<(&'a str, &'a RawValue)>),
    Whole(&'a RawValue),
}

impl Serialize for EventMembers<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Members(members) => serializer.collect_map(members.iter().copied()),
            Self::Whole(event) => serializer.collect_map([("event", event)]),
        }
    }
}

/// `{"role":"system","subtype":…,"content":…}`
#[derive(Clone, Debug, Serialize)]
pub struct RemarkLine<'a> {
    role: &'static str,
    subtype: &'a str,
    content: &'a str,
    timestamp: &'a str,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Builds lines with the same timestamp and session.
#[derive(Clone, Copy, Debug)]
pub struct Builder<'a> {
    /// The timestamp, as ISO text with milliseconds.
    pub timestamp: &'a str,
    /// The runtime's session id.
    pub session_id: Option<&'a str>,
}

impl<'a> Builder<'a> {
    /// Builds a prompt.
    pub fn user(self, text: &'a str) -> Line<'a> {
        self.user_line(UserContent::Text(text))
    }

    /// Builds a tool result; `full_output` names the blob with the full text of a shortened result.
    pub fn tool_result(
        self,
        call_id: &'a str,
        content: &'a str,
        is_error: bool,
        full_output: Option<&'a str>,
    ) -> Line<'a> {
        let result = ToolResult { r#type: "tool_result", tool_use_id: call_id, content, is_error, full_output };
        self.user_line(UserContent::Tools([result]))
    }

    fn user_line(self, content: UserContent<'a>) -> Line<'a> {
        let message = UserMessage { role: "user", content };
        Line::User(UserLine { r#type: "user", message, timestamp: self.timestamp, session_id: self.session_id })
    }

    /// Builds a message of the agent.
    pub fn assistant(self, model: Option<&'a str>, content: Vec<Block<'a>>, usage: Option<Usage>) -> Line<'a> {
        let message = AssistantMessage { role: "assistant", model, content, usage };
        let (timestamp, session_id) = (self.timestamp, self.session_id);
        Line::Assistant(AssistantLine { r#type: "assistant", message, timestamp, session_id })
    }

    /// Builds an error.
    pub fn failure(self, error: &'a str) -> Line<'a> {
        let (timestamp, session_id) = (self.timestamp, self.session_id);
        Line::Failure(FailureLine { r#type: "assistant", is_api_error_message: true, error, timestamp, session_id })
    }

    /// Builds the end of a turn.
    pub fn result(self, ending: &Ending<'a>) -> Line<'a> {
        Line::Result(ResultLine {
            r#type: "result",
            subtype: ending.subtype,
            result: ending.text,
            num_turns: ending.turns,
            total_cost_usd: ending.cost,
            total_input_tokens: ending.tokens.input_tokens,
            total_output_tokens: ending.tokens.output_tokens,
            total_cache_read_input_tokens: ending.tokens.cache_read_input_tokens,
            total_cache_creation_input_tokens: ending.tokens.cache_creation_input_tokens,
            stop_reason: ending.stop_reason,
            duration_ms: ending.duration_ms,
            timestamp: self.timestamp,
        })
    }

    /// Builds a line with an event of the runtime, unchanged.
    pub fn system(self, subtype: &'a str, event: &'a RawValue) -> Line<'a> {
        self.system_line(subtype, EventMembers::Whole(event))
    }

    /// Builds a status: the members of an event beside those of the line.
    pub fn status(self, subtype: &'a str, members: Vec<(&'a str, &'a RawValue)>) -> Line<'a> {
        self.system_line(subtype, EventMembers::Members(members))
    }

    fn system_line(self, subtype: &'a str, event: EventMembers<'a>) -> Line<'a> {
        let (timestamp, session_id) = (self.timestamp, self.session_id);
        Line::System(SystemLine { r#type: "system", subtype, event, timestamp, session_id })
    }

    /// Builds a remark for people.
    pub fn remark(self, subtype: &'a str, content: &'a str) -> Line<'a> {
        let (timestamp, session_id) = (self.timestamp, self.session_id);
        Line::Remark(RemarkLine { role: "system", subtype, content, timestamp, session_id })
    }
}
