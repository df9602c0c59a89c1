//! A list as CSV (RFC 4180): one line per item. A field of a field has both names with a dot between them, values of a list
//! are joined by `; `, what is not known is empty.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::Value;

use super::{Answer, Problem};
use crate::report::csv::quoted;

/// The answer to a client that wants the list as a file.
pub(super) fn answer(page: &impl Serialize) -> Answer<Response> {
    let page = serde_json::to_value(page).map_err(|error| Problem::failed(&error))?;
    let items = page["data"].as_array().map_or(&[][..], Vec::as_slice);
    let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present")];
    Ok((kind, render(items)).into_response())
}

/// The header and one line per item; nothing without items.
fn render(items: &[Value]) -> String {
    let rows: Vec<Vec<(String, String)>> = items.iter().map(row).collect();
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let line = |fields: Vec<String>| fields.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n";
    let value = |row: &[(String, String)], column: &str| {
        row.iter().find(|(name, _)| name == column).map_or_else(String::new, |(_, value)| value.clone())
    };
    let mut text = String::new();
    if !columns.is_empty() {
        text += &line(columns.iter().map(|column| (*column).to_owned()).collect());
    }
    for row in &rows {
        text += &line(columns.iter().map(|column| value(row, column)).collect());
    }
    text
}

/// Columns and values of an item.
fn row(item: &Value) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    collect(String::new(), item, &mut fields);
    fields
}

fn collect(name: String, value: &Value, fields: &mut Vec<(String, String)>) {
    let Value::Object(object) = value else {
        fields.push((name, text(value)));
        return;
    };
    for (key, value) in object {
        let full = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        collect(full, value, fields);
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) if !all.iter().any(Value::is_object) => all.iter().map(text).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_fields_have_columns_and_lists_one_cell() {
        let items = [
            json!({ "node": "n,1", "amount": { "gpu_ms": 5, "share": null }, "missing": ["a", "b"] }),
            json!({ "node": "=cmd()", "evidence": [{ "signal": "s" }], "ok": true }),
        ];
        let text = render(&items);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "amount.gpu_ms,amount.share,missing,node,evidence,ok");
        assert_eq!(lines[1], "5,,a; b,\"n,1\",,");
        assert_eq!(lines[2], ",,,'=cmd(),\"[{\"\"signal\"\":\"\"s\"\"}]\",true");
        assert_eq!(render(&[]), "");
    }
}
