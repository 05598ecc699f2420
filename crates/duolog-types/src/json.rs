//! Checks that bytes are one JSON object, without building it.
//!
//! serde_json is not used for two reasons: it recurses or does not limit the depth, and when it decodes strings it rejects
//! lone surrogates (`\ud83d`), which real systems write and Duolog keeps byte for byte. One pass, no recursion, no
//! allocation. It accepts what `serde_json::from_slice::<IgnoredAny>` accepts; a property test checks that.
//! The same pass can report the members of an object.

use std::ops::Range;

use crate::limits::JSON_DEPTH_MAX;

/// Why bytes are not an accepted JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonFault {
    /// JSON, but not an object.
    NotAnObject,
    /// Not JSON; the first invalid byte.
    Syntax(usize),
    /// Nested deeper than [`JSON_DEPTH_MAX`].
    TooDeep(usize),
}

/// Checks that `text` is exactly one JSON object, white space around it allowed.
///
/// The type guarantees UTF-8; only the structure is checked.
pub fn check_object(text: &str) -> Result<(), JsonFault> {
    let bytes = text.as_bytes();
    let mut scan = Scan { bytes, at: 0 };
    scan.skip_space();
    match bytes.get(scan.at) {
        Some(b'{') => scan.document(|_, _| ()),
        // A scalar or an array gets the specific error only if it is valid JSON.
        Some(b'[' | b'"' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9') => {
            scan.document(|_, _| ())?;
            Err(JsonFault::NotAnObject)
        }
        _ => Err(JsonFault::Syntax(scan.at)),
    }
}

/// Checks that `text` is exactly one JSON value of any kind, white space around it allowed.
pub fn check_value(text: &str) -> Result<(), JsonFault> {
    Scan { bytes: text.as_bytes(), at: 0 }.document(|_, _| ())
}

/// Checks a value and calls `each` with the members of an outermost object: the name, and the value if it is a
/// string. Both are raw text, with quotes and escapes.
///
/// Ignore the reported members if the check fails.
pub fn check_members<'t>(text: &'t str, mut each: impl FnMut(&'t str, Option<&'t str>)) -> Result<(), JsonFault> {
    let told = |name: Range<usize>, value: Option<Range<usize>>| each(&text[name], value.map(|value| &text[value]));
    Scan { bytes: text.as_bytes(), at: 0 }.document(told)
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The stack of open brackets.
#[derive(Default)]
struct Open {
    /// One bit per level, set for an object. The depth limit lets one integer hold the stack.
    objects: u128,
    depth: u32,
}

impl Open {
    fn push(&mut self, object: bool) {
        (self.objects, self.depth) = ((self.objects << 1) | u128::from(object), self.depth + 1);
    }

    fn pop(&mut self) {
        (self.objects, self.depth) = (self.objects >> 1, self.depth - 1);
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

impl Scan<'_> {
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// Returns the next byte after white space.
    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.bytes.get(self.at).copied()
    }

    fn fault<T>(&self) -> Result<T, JsonFault> {
        Err(JsonFault::Syntax(self.at))
    }

    /// Scans the text, one value per iteration, and reports the members of an outermost object. If the callback does
    /// nothing, the compiler removes that work.
    fn document(&mut self, mut told: impl FnMut(Range<usize>, Option<Range<usize>>)) -> Result<(), JsonFault> {
        let mut open = Open::default();
        let mut name: Option<Range<usize>> = None;
        loop {
            let (first, from) = (self.peek(), self.at);
            if first == Some(b'"') {
                self.string()?;
                if let Some(name) = name.take() {
                    told(name, Some(from..self.at));
                }
            } else {
                if let Some(name) = name.take() {
                    told(name, None);
                }
                match first {
                    Some(bracket @ (b'{' | b'[')) => {
                        if self.open(bracket, &mut open)? {
                            name = self.name_in(&open)?;
                            continue;
                        }
                    }
                    Some(first) => self.scalar(first)?,
                    None => return self.fault(),
                }
            }
            if self.close(&mut open)? {
                return Ok(());
            }
            name = self.name_in(&open)?;
        }
    }

    /// Opens an array or an object. Returns false if it is empty.
    fn open(&mut self, bracket: u8, open: &mut Open) -> Result<bool, JsonFault> {
        if open.depth == JSON_DEPTH_MAX {
            return Err(JsonFault::TooDeep(self.at));
        }
        self.at += 1;
        let object = bracket == b'{';
        if self.peek() == Some(if object { b'}' } else { b']' }) {
            self.at += 1;
            return Ok(false);
        }
        open.push(object);
        Ok(true)
    }

    /// Closes brackets after a value, up to the comma before the next one. Returns true at the end of the text.
    fn close(&mut self, open: &mut Open) -> Result<bool, JsonFault> {
        loop {
            let next = self.peek();
            if open.depth == 0 {
                return if next.is_none() { Ok(true) } else { self.fault() };
            }
            match next {
                Some(b',') => {
                    self.at += 1;
                    return Ok(false);
                }
                Some(b'}') if open.in_object() => open.pop(),
                Some(b']') if !open.in_object() => open.pop(),
                _ => return self.fault(),
            }
            self.at += 1;
        }
    }

    /// Skips the name and colon of a member. Returns the range of the name if the object is outermost.
    fn name_in(&mut self, open: &Open) -> Result<Option<Range<usize>>, JsonFault> {
        if !open.in_object() {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return self.fault();
        }
        let from = self.at;
        self.string()?;
        let name = from..self.at;
        if self.peek() != Some(b':') {
            return self.fault();
        }
        self.at += 1;
        Ok((open.depth == 1).then_some(name))
    }

    /// Skips a word or a number.
    fn scalar(&mut self, first: u8) -> Result<(), JsonFault> {
        match first {
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), JsonFault> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        self.fault()
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        if self.at == start { self.fault() } else { Ok(()) }
    }

    fn number(&mut self) -> Result<(), JsonFault> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Skips a string, opening quote included.
    fn string(&mut self) -> Result<(), JsonFault> {
        self.at += 1;
        loop {
            self.at += plain_prefix(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                _ => return self.fault(),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonFault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let hex = self.bytes.get(self.at + 2..self.at + 6);
                if !hex.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) {
                    return self.fault();
                }
                self.at += 6;
            }
            _ => return self.fault(),
        }
        Ok(())
    }
}

/// Returns the number of leading bytes that are neither a quote, a backslash nor a control character.
fn plain_prefix(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(block) = bytes[at..].first_chunk::<16>() {
        // Branch-free, so that it compiles to a few instructions per block.
        if block.iter().fold(false, |any, byte| any | is_special(*byte)) {
            let (words, _) = block.as_chunks();
            let (low, high) = (specials(words[0]), specials(words[1]));
            return at + if low == 0 { 8 + first_of(high) } else { first_of(low) };
        }
        at += 16;
    }
    if let Some(word) = bytes[at..].first_chunk::<8>() {
        let specials = specials(*word);
        if specials != 0 {
            return at + first_of(specials);
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|byte| !is_special(**byte)).count()
}

/// Returns true if a byte ends a plain run. Flipping one bit moves the quote right after the control characters.
const fn is_special(byte: u8) -> bool {
    (byte ^ 0x02) < 0x21 || byte == b'\\'
}

/// Checks eight bytes at once: the lowest set bit is the high bit of the first byte that ends a run. Higher bits
/// may be borrows from it.
const fn specials(word: [u8; 8]) -> u64 {
    const LOW: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let word = u64::from_le_bytes(word);
    let quotes_and_controls = (word ^ (LOW * 0x02)).wrapping_sub(LOW * 0x21);
    let backslashes = (word ^ (LOW * b'\\' as u64)).wrapping_sub(LOW);
    (quotes_and_controls | backslashes) & !word & HIGH
}

/// Returns the index of the byte with the lowest set bit.
const fn first_of(specials: u64) -> usize {
    (specials.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::{IgnoredAny, MapAccess, Visitor};
    use serde::{Deserialize, Deserializer};

    fn by_serde(text: &str) -> bool {
        serde_json::from_str::<IgnoredAny>(text).is_ok()
    }

    #[test]
    fn odd_but_legal_objects_are_accepted() {
        for text in [
            r"{}",
            r#" { "a" : [ ] } "#,
            r#"{"a":1,"a":2}"#,
            r#"{"lone":"\ud83d","nul":"\u0000"}"#,
            "{\"sep\":\"\u{2028}\"}",
            r#"{"n":[-0,0.5,1e9,1E+2,12345678901234567890123]}"#,
        ] {
            assert_eq!(check_object(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_value_may_be_of_any_kind() {
        for text in ["null", " [1, {}] ", "-1.5e3", "\"{\\\"a\\\":1}\"", "{}", "true"] {
            assert_eq!(check_value(text), Ok(()), "{text}");
        }
        for text in ["", " ", "NaN", "[NaN]", "Infinity", "1 2", "[1,]", "'a'"] {
            assert!(matches!(check_value(text), Err(JsonFault::Syntax(_))), "{text}");
        }
        assert!(matches!(check_value(&"[".repeat(1_000_000)), Err(JsonFault::TooDeep(_))));
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for text in ["", " ", "null", "[]", "1", "\"x\"", "true"] {
            assert!(check_object(text).is_err(), "{text}");
        }
        for text in [
            "{",
            "}",
            "{]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":\"\u{1}\"}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\u12g4\"}",
            "{} {}",
            "{\"a\":tru}",
            "{a:1}",
            "{\"a\":1e}",
            "{\"a\":-}",
        ] {
            assert!(matches!(check_object(text), Err(JsonFault::Syntax(_))), "{text}");
        }
    }

    #[test]
    fn depth_is_limited_and_a_million_levels_do_no_harm() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check_object(&nested(127)), Ok(()));
        assert!(matches!(check_object(&nested(128)), Err(JsonFault::TooDeep(_))));
        assert!(matches!(check_object(&nested(1_000_000)), Err(JsonFault::TooDeep(_))));
    }

    #[test]
    fn a_fault_is_told_where_it_is() {
        let long = "x".repeat(40);
        for (text, at) in [
            ("", 0),
            (" \n", 2),
            ("[1,]", 3),
            ("[1 2]", 3),
            ("{\"a\" 1}", 5),
            ("{\"a\": }", 6),
            ("{\"a\":1,}", 7),
            ("{\"a\":[1}", 7),
            ("{\"a\":1]", 6),
            ("[{}}", 3),
            ("{} x", 3),
            ("{\"a\":tru}", 5),
            ("{\"a\":-}", 6),
            ("{\"a\":1.e}", 7),
            ("[\"a\\x\"]", 3),
            ("[\"a\\u12g4\"]", 3),
            ("[\"a\u{1}\"]", 3),
            ("[\"a", 3),
            (&format!("[\"{long}\n\"]"), 42),
            (&format!("[\"{long}\\q\"]"), 42),
            (&format!("[\"{long}"), 42),
        ] {
            assert_eq!(check_value(text), Err(JsonFault::Syntax(at)), "{text}");
        }
        assert_eq!(check_value(&"[ ".repeat(200)), Err(JsonFault::TooDeep(256)));
    }

    #[test]
    fn a_plain_run_ends_at_the_first_byte_that_is_not_plain() {
        let naive = |bytes: &[u8]| bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
        for byte in 0..=u8::MAX {
            for len in 0..48 {
                // Neither the following bytes nor the neighbours may change the result.
                for around in [b'a', b'!', b'#', b'[', b']', b' ', 0x80, 0xff] {
                    let mut bytes = vec![around; len];
                    bytes.push(byte);
                    bytes.extend([b'"', 0, around, b'\\']);
                    bytes.extend([around; 16]);
                    assert_eq!(Some(plain_prefix(&bytes)), naive(&bytes), "{byte:#x} after {len} of {around:#x}");
                    let end = naive(&bytes[..=len]).unwrap_or(len + 1);
                    assert_eq!(plain_prefix(&bytes[..=len]), end, "{byte:#x} last after {len} of {around:#x}");
                }
            }
        }
    }

    fn members_of(text: &str) -> Result<Vec<(&str, Option<&str>)>, JsonFault> {
        let mut members = Vec::new();
        check_members(text, |name, value| members.push((name, value))).map(|()| members)
    }

    #[test]
    fn only_the_members_of_an_outermost_object_are_told() {
        let text = r#" { "a" : "x\"y" , "ro\u006ce":{"b":"no"},"a":1,"l":["no",{"c":"no"}],"":"","d":null,"e":"z"} "#;
        let expected = [
            (r#""a""#, Some(r#""x\"y""#)),
            (r#""ro\u006ce""#, None),
            (r#""a""#, None),
            (r#""l""#, None),
            (r#""""#, Some(r#""""#)),
            (r#""d""#, None),
            (r#""e""#, Some(r#""z""#)),
        ];
        assert_eq!(members_of(text), Ok(expected.to_vec()));
        for text in ["{}", "[]", r#"[{"a":"x"}]"#, r#""a""#, "1"] {
            assert_eq!(members_of(text), Ok(Vec::new()), "{text}");
        }
        assert_eq!(members_of(r#"{"a":"x"} 1"#), Err(JsonFault::Syntax(10)));
    }

    /// The members of an outermost object by serde_json, for texts whose names can be decoded.
    struct BySerde(Vec<(String, Option<String>)>);

    impl<'de> Deserialize<'de> for BySerde {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(BySerde(Vec::new()))
        }
    }

    impl<'de> Visitor<'de> for BySerde {
        type Value = Self;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
            while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
                self.0.push((name, value.as_str().map(str::to_owned)));
            }
            Ok(self)
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("-1.5e3".to_owned()),
            any::<i64>().prop_map(|n| n.to_string()),
            ".{0,20}".prop_map(|s| serde_json::to_string(&s).expect("serialises")),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|v| format!("[{}]", v.join(" , "))),
                prop::collection::vec((".{0,8}", inner), 0..5).prop_map(|v| {
                    let members: Vec<_> = v
                        .iter()
                        .map(|(k, v)| format!("{} : {v}", serde_json::to_string(k).expect("serialises")))
                        .collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde_json(text in json(), cut in any::<prop::sample::Index>(), put in any::<char>()) {
            let object = format!("{{\"v\":{text}}}");
            prop_assert_eq!(check_object(&object), Ok(()));
            // Also check the text with one character replaced.
            let mut chars: Vec<char> = object.chars().collect();
            let at = cut.index(chars.len());
            chars[at] = put;
            let broken: String = chars.into_iter().collect();
            let ours = match check_object(&broken) {
                Ok(()) => true,
                Err(JsonFault::NotAnObject) => { prop_assert!(by_serde(&broken)); return Ok(()) }
                Err(_) => false,
            };
            prop_assert_eq!(ours, by_serde(&broken), "{}", broken);
        }

        #[test]
        fn members_are_those_that_serde_json_finds(text in json()) {
            let expected = serde_json::from_str::<BySerde>(&text).map_or_else(|_| Vec::new(), |by_serde| by_serde.0);
            let decoded = |raw: &str| serde_json::from_str::<String>(raw).expect("a string");
            let members = members_of(&text).expect("JSON");
            let members: Vec<_> = members.into_iter().map(|(name, value)| (decoded(name), value.map(decoded))).collect();
            prop_assert_eq!(members, expected);
        }

        #[test]
        fn telling_members_changes_no_answer(text in json(), cut in any::<prop::sample::Index>(), put in any::<char>()) {
            let mut chars: Vec<char> = text.chars().collect();
            let at = cut.index(chars.len());
            chars[at] = put;
            let broken: String = chars.into_iter().collect();
            prop_assert_eq!(members_of(&broken).map(drop), check_value(&broken));
            prop_assert_eq!(check_value(&broken).is_ok(), by_serde(&broken), "{}", broken);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (check_object(&text), members_of(&text));
        }
    }
}
