//! JSON Schemas of the types, as files that refer to each other.

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

pub use schemars::JsonSchema;

/// The kinds of errors.
pub(crate) const ERROR_KINDS: [&str; 12] = [
    "not_found",
    "conflict",
    "stale",
    "invalid",
    "busy",
    "unknown",
    "damaged",
    "full",
    "read_only",
    "unsupported",
    "closed",
    "io",
];

/// The kinds of items in a timeline.
pub(crate) const ITEM_KINDS: [&str; 8] =
    ["user", "assistant", "thinking", "tool_call", "tool_result", "result", "error", "note"];

/// The statuses of a schedule's run.
pub(crate) const SCHEDULE_STATUSES: [&str; 6] = ["ok", "nothing", "failed", "skipped", "running", "lost"];

/// The words of a status.
pub(crate) fn words<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().map(|one| word(*one)).collect()
}

/// The words of a status that may be absent.
pub(crate) fn words_or_null<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> Vec<Option<&'static str>> {
    all.iter().map(|one| Some(word(*one))).chain([None]).collect()
}

/// Collects the schemas of types and of the types that they refer to.
pub struct Schemas {
    generator: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Self {
        Self { generator: SchemaSettings::draft2020_12().for_serialize().into_generator() }
    }
}

impl Schemas {
    /// Adds the schema of a type and returns its name.
    pub fn add<T: JsonSchema>(&mut self) -> String {
        self.generator.subschema_for::<T>();
        T::schema_name().into_owned()
    }

    /// The schemas by their names. They refer to each other as `NAME.json`.
    pub fn finish(mut self) -> BTreeMap<String, Value> {
        let definitions = self.generator.take_definitions(true);
        let meta = SchemaSettings::draft2020_12().meta_schema;
        let file = |(name, mut schema): (String, Value)| {
            refer_to_files(&mut schema);
            if let (Some(object), Some(meta)) = (schema.as_object_mut(), &meta) {
                object.insert("$schema".to_owned(), meta.as_ref().into());
                object.insert("title".to_owned(), name.clone().into());
            }
            (name, schema)
        };
        definitions.into_iter().map(file).collect()
    }
}

/// Replaces `#/$defs/NAME` by `NAME.json`.
fn refer_to_files(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(reference) if name == "$ref" => {
                        if let Some(name) = reference.strip_prefix("#/$defs/") {
                            *reference = format!("{name}.json");
                        }
                    }
                    other => refer_to_files(other),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(refer_to_files),
        _ => {}
    }
}
