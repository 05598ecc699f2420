//! A JSON object of a foreign log, decoded lazily and without trust.
//!
//! Members stay raw until they are used, so a wrong type, a lone surrogate or a number out of range affects that member
//! only. Parsing is iterative: depth uses no stack.

use std::borrow::Cow;
use std::fmt;

use duolog_types::Timestamp;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of a JSON object, in order and undecoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object<'a> {
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Parses a text; `None` if it is not one JSON object.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        if !text.trim_start().starts_with('{') {
            return None;
        }
        serde_json::from_str(text).ok()
    }

    /// Returns a member's JSON text. If a name occurs twice, the last member counts, as in common JSON readers.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.get())
    }

    /// Returns a member's JSON text, unless it is absent or `null`.
    pub(crate) fn some(&self, name: &str) -> Option<&'a str> {
        self.raw(name).filter(|raw| *raw != "null")
    }

    /// Returns true if there is a member of this name, `null` included.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// Returns a string member, decoded.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        decode(self.raw(name)?)
    }

    /// Returns a string member as an owned value, or `None` if it is empty.
    pub(crate) fn word(&self, name: &str) -> Option<String> {
        self.text(name).map(Cow::into_owned).filter(|text| !text.is_empty())
    }

    /// Returns true if a string member has exactly this value.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.text(name).is_some_and(|text| text == value)
    }

    /// Returns true if a member is `true`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.raw(name) == Some("true")
    }

    /// Returns a member that is a non-negative integer.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        parse_count(self.raw(name)?)
    }

    /// Returns an object member.
    pub(crate) fn object(&self, name: &str) -> Option<Object<'a>> {
        Object::parse(self.raw(name)?)
    }

    /// Returns the elements of an array member, undecoded.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<&'a str>> {
        elements(self.raw(name)?)
    }

    /// Returns an instant: ISO text, or milliseconds since 1970.
    pub(crate) fn instant(&self, name: &str) -> Option<Timestamp> {
        let raw = self.raw(name)?;
        match decode(raw) {
            Some(text) => text.parse().ok(),
            None => parse_instant(raw, 1e3),
        }
    }

    /// Returns every member, in order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.members.iter().map(|(name, value)| (&**name, value.get()))
    }
}

/// Decodes a JSON string; `None` if it is not a string. A lone surrogate becomes U+FFFD.
pub(crate) fn decode(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    if let Ok(text) = serde_json::from_str::<String>(raw) {
        return Some(Cow::Owned(text));
    }
    serde_json::from_str(&repair_json(raw)).ok().map(Cow::Owned)
}

/// Returns the elements of a JSON array, undecoded.
pub(crate) fn elements(raw: &str) -> Option<Vec<&str>> {
    if !raw.starts_with('[') {
        return None;
    }
    let values: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    Some(values.into_iter().map(RawValue::get).collect())
}

/// Parses a non-negative integer; `12.0` is one.
pub(crate) fn parse_count(raw: &str) -> Option<u64> {
    let digits = match raw.split_once('.') {
        Some((digits, fraction)) if fraction.bytes().all(|b| b == b'0') => digits,
        _ => raw,
    };
    digits.parse().ok()
}

/// Parses an instant from a number; `per_second` units are a second.
pub(crate) fn parse_instant(raw: &str, per_second: f64) -> Option<Timestamp> {
    let number: f64 = raw.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    let micros = number / per_second * 1e6;
    // Larger values exceed the calendar and the exact integers of a double.
    #[allow(clippy::cast_possible_truncation)]
    (micros < 9e15).then(|| Timestamp::from_micros(micros.round() as i64))
}

/// Repairs almost valid JSON: lone surrogates become U+FFFD, raw control characters are escaped, and Python's `NaN` and
/// `Infinity` become `null`.
pub(crate) fn repair_json(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut json = String::with_capacity(text.len() + 16);
    let (mut at, mut copied, mut in_string) = (0, 0, false);
    let mut put = |from: &mut usize, to: usize, replacement: &str, next: usize| {
        json.push_str(&text[*from..to]);
        json.push_str(replacement);
        *from = next;
    };
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (skip, replacement) = match (in_string, rest[0]) {
            (true, b'\\') => surrogate(rest),
            (true, byte @ 0..=0x1f) => (1, Some(format!("\\u{byte:04x}"))),
            (_, b'"') => {
                in_string = !in_string;
                (1, None)
            }
            (false, b'N') if rest.starts_with(b"NaN") => (3, Some("null".to_owned())),
            (false, b'I') if rest.starts_with(b"Infinity") => (8, Some("null".to_owned())),
            (false, b'-') if rest.starts_with(b"-Infinity") => (9, Some("null".to_owned())),
            _ => (1, None),
        };
        if let Some(replacement) = replacement {
            put(&mut copied, at, &replacement, at + skip);
        }
        at += skip;
    }
    json.push_str(&text[copied..]);
    json
}

/// Returns the length of an escape, and its replacement if it is half of a surrogate pair.
fn surrogate(escape: &[u8]) -> (usize, Option<String>) {
    let unit = |at: usize| {
        let hex = escape.get(at..at + 6).filter(|six| six.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&hex[2..]).ok()?, 16).ok()
    };
    match (unit(0), unit(6)) {
        (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, None),
        (Some(0xd800..=0xdfff), _) => (6, Some("\\ufffd".to_owned())),
        (Some(_), _) => (6, None),
        // A two-byte escape, or a trailing backslash; never past the end.
        (None, _) => (escape.len().min(2), None),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(8);
        while let Some(Key(key)) = map.next_key()? {
            members.push((key, map.next_value()?));
        }
        Ok(Object { members })
    }
}

/// A member's name, borrowed if it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl<'de> Visitor<'de> for Name {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bad_member_affects_no_other() {
        let object = Object::parse(r#"{"a":"\ud83d!","n":1e999,"b":"ok","n2":12.0,"n3":-1,"a2":"\ud83d\ude00"}"#)
            .expect("an object");
        assert_eq!(object.text("a").as_deref(), Some("\u{fffd}!"));
        assert_eq!(object.text("a2").as_deref(), Some("\u{1f600}"));
        assert_eq!(object.text("b").as_deref(), Some("ok"));
        assert_eq!((object.count("n"), object.count("n2"), object.count("n3")), (None, Some(12), None));
        assert_eq!(object.text("n"), None);
    }

    #[test]
    fn the_last_of_two_members_counts() {
        let object = Object::parse(r#"{"a":1,"a":2}"#).expect("an object");
        assert_eq!(object.count("a"), Some(2));
        assert_eq!(object.members().count(), 2, "the first is still there");
    }

    #[test]
    fn json_of_python_is_repaired() {
        let repaired = repair_json("{\"x\": NaN, \"y\": [-Infinity, Infinity], \"z\": \"NaN \u{1} \\ud800\"}");
        assert_eq!(repaired, r#"{"x": null, "y": [null, null], "z": "NaN \u0001 \ufffd"}"#);
        assert!(Object::parse(&repaired).is_some());
    }

    #[test]
    fn depth_uses_no_stack() {
        let deep = format!("{{\"a\":{}1{},\"b\":2}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(Object::parse(&deep).and_then(|object| object.count("b")), Some(2));
    }

    #[test]
    fn numbers_are_parsed_as_instants() {
        assert_eq!(parse_instant("1775037601.37106", 1.0).map(Timestamp::as_micros), Some(1_775_037_601_371_060));
        assert_eq!(parse_instant("1775037601371", 1e3).map(Timestamp::as_micros), Some(1_775_037_601_371_000));
        for bad in ["-1", "1e300", "NaN", "\"x\"", ""] {
            assert_eq!(parse_instant(bad, 1.0), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*|[\\\\u\"{}:,dD8cC0-9NaIfinty\\-\\[\\]]*") {
            let repaired = repair_json(&text);
            for text in [&text, &repaired] {
                let _ = Object::parse(text).map(|object| object.members().count());
                let _ = (decode(text), elements(text), parse_count(text), parse_instant(text, 1.0));
            }
        }

        #[test]
        fn repair_does_not_change_valid_json(text in "\\PC*") {
            let json = serde_json::to_string(&text).expect("serialises");
            prop_assert_eq!(repair_json(&json), json);
        }
    }
}
