//! A page of a list: the items under the plural of their noun, and the token of the next page.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

/// A type that can be listed, and the name of the list.
pub trait Listed: Serialize + JsonSchema {
    /// The plural: the name of the list.
    const PLURAL: &'static str;
}

/// `{"<plural>": […], "next": token|null}`.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The items, in the order of the list.
    pub items: Vec<T>,
    /// The token of the next page; `None` on the last one.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A page of JSON objects.
    pub fn of<'a, S, N>(things: &'a [S], next: Option<N>) -> Self
    where
        T: From<&'a S>,
        N: ToString,
    {
        Self { items: things.iter().map(T::from).collect(), next: next.map(|next| next.to_string()) }
    }
}

impl<T: Listed> Serialize for Page<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry(T::PLURAL, &self.items)?;
        map.serialize_entry("next", &self.next)?;
        map.end()
    }
}

impl<T: Listed> JsonSchema for Page<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Page", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut items = generator.subschema_for::<Vec<T>>();
        items.insert("description".to_owned(), "The page, in the order of the list.".into());
        let mut next = generator.subschema_for::<Option<String>>();
        next.insert("description".to_owned(), "The token of the next page.".into());
        json_schema!({
            "description": "A page of a list.",
            "type": "object",
            "properties": { T::PLURAL: items, "next": next },
            "required": [T::PLURAL, "next"],
        })
    }
}
