//! The readable text of an item, for search.
//!
//! Most texts are decoded already. Tool arguments, tool results and notes may be raw JSON, where a newline is `\n` and
//! would merge with the next word. Terminal output has color sequences (`ESC[31m`), which would do the same.

use std::borrow::Cow;

use super::timeline::{ItemKind, TimelineItem};

/// Returns the text of an item without the escapes of JSON strings and without terminal control sequences.
pub fn readable(item: &TimelineItem) -> Cow<'_, str> {
    let may_be_json = matches!(item.kind, ItemKind::ToolCall | ItemKind::ToolResult | ItemKind::Note)
        && item.text.starts_with(['{', '[']);
    let text = if may_be_json && memchr::memchr(b'\\', item.text.as_bytes()).is_some() {
        Cow::Owned(unescape(&item.text))
    } else {
        Cow::Borrowed(item.text.as_str())
    };
    if text.contains(ESCAPE) { Cow::Owned(without_control_sequences(&text)) } else { text }
}

const ESCAPE: char = '\u{1b}';

/// Removes sequences like `ESC[31m` and `ESC]0;title BEL`. An unterminated sequence stays as text.
fn without_control_sequences(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(ESCAPE) {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at + 1..];
        let after = after_sequence(sequence);
        if after.is_none() {
            plain.push(ESCAPE);
        }
        rest = after.unwrap_or(sequence);
    }
    plain.push_str(rest);
    plain
}

/// Returns the text after a sequence; `text` starts after its escape character.
fn after_sequence(text: &str) -> Option<&str> {
    if let Some(parameters) = text.strip_prefix('[') {
        let end = parameters.find(|letter: char| !matches!(letter, ' '..='?'))?;
        let is_last = |byte: &u8| matches!(byte, b'@'..=b'~');
        return parameters.as_bytes().get(end).filter(|byte| is_last(byte)).map(|_| &parameters[end + 1..]);
    }
    let title = text.strip_prefix(']')?;
    let end = title.find(['\u{7}', ESCAPE, '\n'])?;
    let (end, after) = (title.get(end..)?, title.get(end + 1..)?);
    if end.starts_with('\u{7}') { Some(after) } else { after.strip_prefix('\\').filter(|_| end.starts_with(ESCAPE)) }
}

/// Decodes escapes inside of strings. Invalid escapes, in text that is not JSON or was cut, stay as they are.
fn unescape(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let (mut rest, mut in_string) = (json, false);
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('"') {
            in_string = !in_string;
            text.push('"');
            rest = &rest[1..];
        } else if let Some((letter, bytes)) = escape(rest).filter(|_| in_string) {
            text.push(letter);
            rest = &rest[bytes..];
        } else {
            text.push('\\');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    text
}

/// Returns the character of the escape at the beginning of a text, and the length of the escape.
fn escape(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        // The parser would accept a sign as part of the number.
        u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
    };
    let letter = match text.as_bytes().get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
        b'u' => {
            return match (unit(0)?, unit(6)) {
                (high @ 0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
                    char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)).map(|letter| (letter, 12))
                }
                (code, _) => Some((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 6)),
            };
        }
        _ => return None,
    };
    Some((letter, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_escapes_in_strings_are_decoded() {
        let json = r#"{"a":"x\nimpl \"y\" \\ \u00e9\ud83d\ude00\ud800","b":[1]}"#;
        assert_eq!(unescape(json), "{\"a\":\"x\nimpl \"y\" \\ \u{e9}\u{1f600}\u{fffd}\",\"b\":[1]}");
        for kept in [r"[x] C:\new", r#"{"\x\u12"#, r#"{"\"#, "{}", r#"{"\u+123"}"#] {
            let mut item = TimelineItem::new(ItemKind::Note, kept);
            assert_eq!(readable(&item), kept);
            item.kind = ItemKind::ToolResult;
            assert_eq!(readable(&item), kept);
        }
        let called = TimelineItem::new(ItemKind::ToolCall, r#"{"command":"make\ntest"}"#);
        assert_eq!(readable(&called), "{\"command\":\"make\ntest\"}");
        let printed = "a \u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}b\u{1b}]8;;x\u{1b}\\c \u{1b}[31 \u{1b}";
        let printed = TimelineItem::new(ItemKind::ToolResult, printed);
        assert_eq!(readable(&printed), "a red bc \u{1b}[31 \u{1b}", "an unterminated sequence is text");
        let answered = TimelineItem::new(ItemKind::ToolResult, r#"{"stdout":"first\nsecond"}"#);
        assert_eq!(readable(&answered), "{\"stdout\":\"first\nsecond\"}");
        let said = TimelineItem::new(ItemKind::User, r#"{"as":"typed\n"}"#);
        assert_eq!(readable(&said), said.text);
    }
}
