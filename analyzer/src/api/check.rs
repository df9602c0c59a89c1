//! A value against a schema of the description: the words of JSON Schema that it uses, and no others.

use serde::Serialize;
use serde_json::{Map, Value};

use super::tests::description;

/// Is the value what the schema says?
pub(super) fn check(value: &Value, schema: &Value, at: &str) {
    let description = description();
    fits(value, schema, &description).unwrap_or_else(|wrong| panic!("{at}{wrong} in {value:#}"));
}

/// Is the value what the schema of this name says?
pub(super) fn check_as(value: &impl Serialize, name: &str) {
    let schema = serde_json::json!({ "$ref": format!("#/components/schemas/{name}") });
    check(&serde_json::to_value(value).unwrap(), &schema, name);
}

/// Words that say nothing of a value, or nothing that matters here.
const SPARED: [&str; 6] = ["description", "format", "minimum", "maximum", "uniqueItems", "required"];

fn fits(value: &Value, schema: &Value, all: &Value) -> Result<(), String> {
    let Some(schema) = schema.as_object() else { return Err(format!(": no schema, but {schema}")) };
    for (word, meant) in schema.iter().filter(|(word, _)| !SPARED.contains(&word.as_str())) {
        let expected = || format!(": expected {word} {meant}");
        match word.as_str() {
            "$ref" => fits(value, all.pointer(&meant.as_str().unwrap()[1..]).unwrap(), all)?,
            "oneOf" | "anyOf" if choice(value, meant, all).is_some() => {}
            "const" if value == meant => {}
            "enum" if meant.as_array().unwrap().contains(value) => {}
            "type" if is_of_type(value, meant) => {}
            "properties" | "additionalProperties" | "unevaluatedProperties" => object(value, schema, all)?,
            "items" => value.as_array().into_iter().flatten().try_for_each(|item| fits(item, meant, all))?,
            "prefixItems" => {
                let pairs = value.as_array().into_iter().flatten().zip(meant.as_array().unwrap());
                pairs.into_iter().try_for_each(|(item, meant)| fits(item, meant, all))?;
            }
            "minItems" | "maxItems" => {}
            _ => return Err(expected()),
        }
    }
    Ok(())
}

fn choice<'s>(value: &Value, choices: &'s Value, all: &Value) -> Option<&'s Value> {
    choices.as_array()?.iter().find(|choice| fits(value, choice, all).is_ok())
}

fn is_of_type(value: &Value, meant: &Value) -> bool {
    let types = meant.as_array().cloned().unwrap_or_else(|| vec![meant.clone()]);
    let is = |one: &Value| match one.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    types.iter().any(is)
}

/// Has it the fields that it must have, no unknown ones, and is each what its schema says?
fn object(value: &Value, schema: &Map<String, Value>, all: &Value) -> Result<(), String> {
    let Some(object) = value.as_object() else { return Ok(()) };
    let missing = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(name) = missing.filter_map(Value::as_str).find(|name| !object.contains_key(*name)) {
        return Err(format!(".{name}: missing"));
    }
    let closed =
        ["additionalProperties", "unevaluatedProperties"].iter().any(|word| schema.get(*word) == Some(&false.into()));
    let chosen =
        schema.get("oneOf").and_then(|choices| choice(value, choices, all)).map(|choice| &choice["properties"]);
    for (name, value) in object {
        match schema.get("properties").and_then(|fields| fields.get(name)) {
            Some(field) => fits(value, field, all).map_err(|wrong| format!(".{name}{wrong}"))?,
            None if !closed || chosen.is_some_and(|fields| fields.get(name).is_some()) => {}
            None => return Err(format!(".{name}: not described")),
        }
    }
    Ok(())
}

#[test]
fn what_is_not_as_described_is_refused() {
    let all = description();
    let schema = serde_json::json!({ "$ref": "#/components/schemas/Risk" });
    let risk = serde_json::to_value(&goodput_testing::outlook().risks[0]).unwrap();
    assert_eq!(fits(&risk, &schema, &all), Ok(()));
    for (at, wrong) in [
        ("/start_ms", Value::from("now")),
        ("/start_ms", Value::from(1.5)),
        ("/last/node", Value::Null),
        ("/last/kind", "fire".into()),
        ("/last/which", "disk".into()),
        ("/last/owners", serde_json::json!([7])),
        ("/last/forecast", serde_json::json!({})),
    ] {
        let mut changed = risk.clone();
        *changed.pointer_mut(at).unwrap() = wrong;
        assert!(fits(&changed, &schema, &all).is_err(), "{at}: {changed}");
    }
    for inner in ["", "/last", "/last/forecast"] {
        let with = |change: fn(&mut Map<String, Value>)| {
            let mut changed = risk.clone();
            change(changed.pointer_mut(inner).and_then(Value::as_object_mut).unwrap());
            fits(&changed, &schema, &all)
        };
        assert!(with(|object| _ = object.insert("odd".to_owned(), Value::Null)).is_err(), "{inner}: a field too many");
        assert!(
            with(|object| object.retain(|name, _| !["start_ms", "node", "used", "level"].contains(&name.as_str())))
                .is_err(),
            "{inner}: a field too few"
        );
    }
}
