//! JSON as it was printed: values that serde cannot represent, such as a lone surrogate or 1e999, are compared as text.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Parses a text; a value that serde cannot represent becomes a string with its text.
pub fn lenient(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    if let Ok(members) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text) {
        let members = members.into_iter().map(|(key, raw)| Some((key, lenient(raw.get())?)));
        return members.collect::<Option<_>>().map(Value::Object);
    }
    if let Ok(elements) = serde_json::from_str::<Vec<Box<RawValue>>>(text) {
        return elements.iter().map(|raw| lenient(raw.get())).collect::<Option<_>>().map(Value::Array);
    }
    serde_json::from_str::<Box<RawValue>>(text).ok().map(|raw| Value::String(raw.get().to_owned()))
}

/// Returns the members of an object as they were printed; `None` if the text is not an object.
pub fn members(text: &str) -> Option<BTreeMap<String, String>> {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).ok()?;
    Some(members.into_iter().map(|(key, raw)| (key, raw.get().to_owned())).collect())
}

/// Returns the elements of an array as they were printed.
pub fn elements(text: &str) -> Option<Vec<String>> {
    let elements: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
    Some(elements.into_iter().map(|raw| raw.get().to_owned()).collect())
}

/// Returns a nested member as it was printed.
pub fn member(text: &str, path: &[&str]) -> Option<String> {
    path.iter().try_fold(text.to_owned(), |text, key| members(&text)?.remove(*key))
}

/// Returns a text member, or an empty text.
pub fn word(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}
