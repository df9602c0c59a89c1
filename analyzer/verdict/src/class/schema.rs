//! The names of all classes with what they mean, for the description of the API.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::Class;

impl JsonSchema for Class {
    fn schema_name() -> Cow<'static, str> {
        "Class".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let class = |class: &Class| json_schema!({ "type": "string", "const": class.name(), "description": class.info().meaning });
        let all: Vec<Schema> = Class::ALL.iter().map(class).collect();
        json_schema!({ "description": "Where a GPU-millisecond went. Every GPU-millisecond has exactly one.", "oneOf": all })
    }
}
