//! The transcript dialect: AgentryLab's event list of a multi-agent run.
//!
//! Each event has an agent (`agent_id`, `role`), an iteration, and `content` or `error`. There is no end of a turn: a
//! `user` event starts one, and the next ends it. The writer produces the same bytes as Python's `json`: `", "` and
//! `": "`, unescaped characters, numbers as in `repr`.

use std::fmt::Write as _;

use super::object::{Object, parse_instant};
use super::timeline::{Boundary, ItemKind, TimelineItem, content_text};

/// Returns true if a line is in this dialect.
pub(crate) fn recognises(line: &Object<'_>) -> bool {
    line.has("agent_id") && line.has("role") && (line.has("iter") || line.has("t"))
}

/// Renders a line; false if it is not in this dialect.
pub(crate) fn render(line: &Object<'_>, out: &mut Vec<TimelineItem>) -> bool {
    if !recognises(line) {
        return false;
    }
    let start = out.len();
    let role = line.word("role");
    if let Some(error) = line.some("error") {
        out.push(TimelineItem { failed: true, ..TimelineItem::new(ItemKind::Error, content_text(error)) });
    }
    if line.has("content") || out.len() == start {
        let text = content_text(line.raw("content").unwrap_or("null"));
        let message = if role.as_deref() == Some("user") {
            TimelineItem { boundary: Boundary::Opens, ..TimelineItem::new(ItemKind::User, text) }
        } else {
            TimelineItem::new(ItemKind::Assistant, text)
        };
        out.push(message);
    }
    if let Some(actions) = line.some("actions") {
        out.push(TimelineItem::note("actions", actions));
    }
    let at = line.raw("t").and_then(|t| parse_instant(t, 1.0));
    let model = line.object("metadata").and_then(|metadata| metadata.word("model"));
    for item in &mut out[start..] {
        item.at = at;
        item.role.clone_from(&role);
        item.author = line.word("agent_id");
        item.round = line.count("iter");
        item.full = line.word("fullOutput");
        item.model.clone_from(&model);
    }
    true
}

/// An event to write. Structures are JSON text, written unchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// Seconds since 1970.
    pub t: f64,
    /// The iteration.
    pub iter: u64,
    /// The agent.
    pub agent_id: &'a str,
    /// The role: `agent`, `moderator`, `summarizer`, `advisor` or `user`.
    pub role: &'a str,
    /// The content or the error.
    pub said: TranscriptEvent<'a>,
    /// The latency.
    pub latency_ms: Option<f64>,
}

/// The content or the error of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TranscriptEvent<'a> {
    /// A message of the agent.
    Content {
        /// The content of a message.
        content: Content<'a>,
        /// Metadata of the provider, as JSON.
        metadata: Option<&'a str>,
        /// Actions to take, as JSON.
        actions: Option<&'a str>,
    },
    /// `Class: message`.
    Error(&'a str),
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content<'a> {
    /// Text.
    Text(&'a str),
    /// A structure, as JSON.
    Json(&'a str),
}

impl Event<'_> {
    /// Returns the exact text of the line, without a newline.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let text = |text: &str| serde_json::to_string(text);
        let mut line = format!("{{\"t\": {}, \"iter\": {}", number(self.t), self.iter);
        let mut put = |name: &str, value: &str| {
            let _ = write!(line, ", \"{name}\": {value}");
        };
        put("agent_id", &text(self.agent_id)?);
        put("role", &text(self.role)?);
        match self.said {
            TranscriptEvent::Error(error) => put("error", &text(error)?),
            TranscriptEvent::Content { content, metadata, actions } => {
                match content {
                    Content::Text(words) => put("content", &text(words)?),
                    Content::Json(json) => put("content", json),
                }
                put("metadata", metadata.unwrap_or("null"));
                put("actions", actions.unwrap_or("null"));
                if let Some(latency) = self.latency_ms {
                    put("latency_ms", &number(latency));
                }
            }
        }
        line.push('}');
        Ok(line)
    }
}

/// Formats a float as Python's `repr` does; infinities and NaN become `null`.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    let scientific = value != 0.0 && !(1e-4..1e16).contains(&value.abs());
    let shortest = if scientific { format!("{value:e}") } else { format!("{value:?}") };
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, ""));
    // Of two equally near shortest forms Python chooses the even one; formatting with that number of digits does the
    // same.
    let digits = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let even = if scientific { format!("{value:.digits$e}") } else { format!("{value:.digits$}") };
    let even = if even.parse() == Ok(value) { even } else { shortest.clone() };
    if !scientific {
        return even;
    }
    let mantissa = even.split_once('e').map_or(mantissa, |(mantissa, _)| mantissa);
    let (sign, power) = exponent.strip_prefix('-').map_or(('+', exponent), |power| ('-', power));
    format!("{mantissa}e{sign}{power:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_in_python() {
        let cases = [
            (1_775_037_601.371_06, "1775037601.37106"),
            (0.5, "0.5"),
            (3.0, "3.0"),
            (0.007_629_394_531_25, "0.00762939453125"),
            (0.000_01, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e16, "1e+16"),
            (1e22, "1e+22"),
            (0.0, "0.0"),
            // Halfway between two shortest forms.
            (64_125.0 / 262_144.0, "0.24461746215820312"),
            (-2.5, "-2.5"),
            (f64::NAN, "null"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
