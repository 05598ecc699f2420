//! JSON inside JSON: stored values and exact money.

use std::borrow::Cow;

use duolog::Money;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A stored JSON value, on one line.
#[derive(Clone, Debug)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Parses a JSON text; text that is not JSON becomes a JSON string.
    pub fn of(text: &str) -> Self {
        // Replace line breaks between tokens with spaces: a JSON string cannot contain a raw line break.
        let line = text.replace(['\n', '\r'], " ");
        let raw = RawValue::from_string(line).or_else(|_| serde_json::value::to_raw_value(text));
        Self(raw.unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// Returns the JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}

/// A JSON object of names and values.
#[derive(Clone, Debug)]
pub struct Members(Vec<(String, Json)>);

impl Members {
    /// Members with names and JSON texts, in order.
    pub fn of(members: &[(String, String)]) -> Self {
        Self(members.iter().map(|(name, value)| (name.clone(), Json::of(value))).collect())
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl JsonSchema for Members {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Members".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// US dollars as an exact decimal number.
#[derive(Clone, Copy, Debug)]
pub struct Usd(pub Money);

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.to_string()).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl JsonSchema for Usd {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T: Serialize>(value: &T) -> String {
        serde_json::to_string(value).unwrap_or_default()
    }

    #[test]
    fn a_stored_value_is_given_back_as_written_on_one_line() {
        assert_eq!(text(&Json::of("{\"z\": 1.50,\r\n \"a\":[1,  2]}")), "{\"z\": 1.50,   \"a\":[1,  2]}");
        assert_eq!(text(&Json::of("no JSON\n")), "\"no JSON\\n\"", "what is not JSON is a string, and not lost");
        let members = [("b".to_owned(), "[1]".to_owned()), ("a".to_owned(), "null".to_owned())];
        assert_eq!(text(&Members::of(&members)), "{\"b\":[1],\"a\":null}", "in their order");
    }

    #[test]
    fn money_is_an_exact_number() {
        let cost = Money::parse("0.1").zip(Money::parse("0.2")).map(|(a, b)| Usd(a + b));
        assert_eq!(text(&cost), "0.3");
    }
}
