//! Checks that bytes are one JSON object, without building it.
//!
//! serde_json would do, but for two things: it recurses or forgets the depth, and where it decodes strings it refuses
//! lone surrogates (`\ud83d`), which real systems write and we keep byte for byte. One pass, no recursion, no
//! allocation. What it accepts is what `serde_json::from_slice::<IgnoredAny>` accepts; a property test holds it to that.

use crate::limits::JSON_DEPTH_MAX;

/// Why bytes are not a JSON object we take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonFault {
    /// JSON, but not an object.
    NotAnObject,
    /// Not JSON, from this byte on.
    Syntax(usize),
    /// Nested deeper than [`JSON_DEPTH_MAX`].
    TooDeep(usize),
}

/// Checks that `text` is exactly one JSON object, white space around it allowed.
///
/// UTF-8 is the type's promise; here only structure is looked at.
pub fn check_object(text: &str) -> Result<(), JsonFault> {
    let bytes = text.as_bytes();
    let mut scan = Scan { bytes, at: 0 };
    scan.skip_space();
    match bytes.get(scan.at) {
        Some(b'{') => scan.document(),
        // A scalar or an array gets the kinder message only if it is JSON at all.
        Some(b'[' | b'"' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9') => {
            scan.document()?;
            Err(JsonFault::NotAnObject)
        }
        _ => Err(JsonFault::Syntax(scan.at)),
    }
}

/// Checks that `text` is exactly one JSON value of any kind, white space around it allowed.
pub fn check_value(text: &str) -> Result<(), JsonFault> {
    Scan { bytes: text.as_bytes(), at: 0 }.document()
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What may come next.
#[derive(Clone, Copy)]
enum Expect {
    Value,
    /// After `[`: a value or `]`.
    ValueOrEnd,
    /// After `{`: a key or `}`.
    KeyOrEnd,
    /// After `,` in an object.
    Key,
    /// After a value: `,` or the closing bracket, or the end.
    Next,
}

impl Scan<'_> {
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn fault<T>(&self) -> Result<T, JsonFault> {
        Err(JsonFault::Syntax(self.at))
    }

    fn document(&mut self) -> Result<(), JsonFault> {
        // One bit a level: set for an object. The depth limit is what lets a single integer be the stack.
        let mut objects: u128 = 0;
        let mut depth: u32 = 0;
        let mut expect = Expect::Value;
        loop {
            self.skip_space();
            let byte = self.bytes.get(self.at).copied();
            match (expect, byte) {
                (Expect::Next, None) if depth == 0 => return Ok(()),
                (Expect::Value | Expect::ValueOrEnd, Some(open @ (b'{' | b'['))) => {
                    if depth == JSON_DEPTH_MAX {
                        return Err(JsonFault::TooDeep(self.at));
                    }
                    depth += 1;
                    objects = (objects << 1) | u128::from(open == b'{');
                    self.at += 1;
                    expect = if open == b'{' { Expect::KeyOrEnd } else { Expect::ValueOrEnd };
                }
                (Expect::KeyOrEnd, Some(b'}')) | (Expect::ValueOrEnd, Some(b']')) => {
                    (objects, depth) = (objects >> 1, depth - 1);
                    self.at += 1;
                    expect = Expect::Next;
                }
                (Expect::KeyOrEnd | Expect::Key, Some(b'"')) => {
                    self.string()?;
                    self.skip_space();
                    if self.bytes.get(self.at) != Some(&b':') {
                        return self.fault();
                    }
                    self.at += 1;
                    expect = Expect::Value;
                }
                (Expect::Value | Expect::ValueOrEnd, Some(first)) => {
                    self.scalar(first)?;
                    expect = Expect::Next;
                }
                (Expect::Next, Some(close)) if depth > 0 => {
                    let in_object = objects & 1 == 1;
                    match close {
                        b',' => expect = if in_object { Expect::Key } else { Expect::Value },
                        b'}' if in_object => (objects, depth) = (objects >> 1, depth - 1),
                        b']' if !in_object => (objects, depth) = (objects >> 1, depth - 1),
                        _ => return self.fault(),
                    }
                    self.at += 1;
                }
                _ => return self.fault(),
            }
        }
    }

    fn scalar(&mut self, first: u8) -> Result<(), JsonFault> {
        match first {
            b'"' => self.string(),
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

/// How many bytes from the start are neither a quote, a backslash nor a control character: eight at a time.
fn plain_prefix(bytes: &[u8]) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_bytes = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let word = u64::from_le_bytes(chunk);
        let controls = word.wrapping_sub(LOW * 0x20) & !word & HIGH;
        let special =
            zero_bytes(word ^ (LOW * u64::from(b'"'))) | zero_bytes(word ^ (LOW * u64::from(b'\\'))) | controls;
        if special != 0 {
            // The lowest set bit is exact; higher ones may be borrows of it.
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|b| !matches!(b, b'"' | b'\\' | 0..=0x1f)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

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
            // And on the same text with one character replaced, whatever that makes of it.
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
        fn no_text_panics(text in ".*") {
            let _ = check_object(&text);
        }
    }
}
