//! One answer of Prometheus' HTTP API: its data, what the server says was left out of it, or why there is none.

use std::collections::BTreeMap;

use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::ReadError;
use crate::read_error::Refusal;

/// Prometheus 2 lists remarks about a query among the warnings; releases from 3 on list them as `infos`.
const REMARK: &str = "PromQL info";
/// How many of a server's warnings an error repeats.
const MAX_WARNINGS: usize = 3;

/// Data, and the server's words when it is not all of the data.
#[derive(Debug, PartialEq)]
pub(super) struct Found<T> {
    pub(super) data: T,
    pub(super) partial: Option<String>,
}

/// The common part of every answer. `infos` are remarks about the query and are not read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<T> {
    status: Option<String>,
    data: Option<T>,
    #[serde(default)]
    warnings: Value,
    /// VictoriaMetrics: a storage node did not answer.
    #[serde(default)]
    is_partial: Value,
    error: Option<String>,
    error_type: Option<String>,
}

/// What an answer with status 200 holds.
pub(super) fn read<T: DeserializeOwned>(url: &str, asked: &str, body: &[u8]) -> Result<Found<T>, ReadError> {
    let wrong = |reason| ReadError::Content { url: url.to_owned(), reason };
    // An answer that says no need not have data of the expected form: what it says comes first.
    let said: Answer<IgnoredAny> =
        serde_json::from_slice(body).map_err(|error| match error.is_eof() && !body.is_empty() {
            true => {
                ReadError::BrokenOff { url: url.to_owned(), reason: format!("{} bytes of JSON: {error}", body.len()) }
            }
            false => wrong(error.to_string()),
        })?;
    match said.status.as_deref() {
        Some("success") => {}
        Some("error") => {
            let refusal = Refusal { error: said.error, error_type: said.error_type };
            return Err(refusal.of(url.to_owned(), asked, StatusCode::OK, body));
        }
        other => return Err(wrong(format!("status is {other:?}, expected success or error"))),
    }
    let partial = said.partial();
    let answer: Answer<T> = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
    let data = answer.data.ok_or_else(|| wrong("there is no data in it".to_owned()))?;
    Ok(Found { data, partial })
}

impl<T> Answer<T> {
    /// The server's words when it left something out.
    fn partial(&self) -> Option<String> {
        let warnings = match &self.warnings {
            Value::Null => Vec::new(),
            Value::Array(all) => all.iter().map(words).collect(),
            other => vec![words(other)],
        };
        let warnings: Vec<String> =
            warnings.into_iter().filter(|warning| !warning.is_empty() && !warning.starts_with(REMARK)).collect();
        let is_partial = !matches!(&self.is_partial, Value::Null | Value::Bool(false));
        let mut said = warnings.iter().take(MAX_WARNINGS).cloned().collect::<Vec<_>>().join("; ");
        if warnings.len() > MAX_WARNINGS {
            said += &format!("; and {} more warnings", warnings.len() - MAX_WARNINGS);
        }
        match (is_partial, said.is_empty()) {
            (false, true) => None,
            (true, true) => Some("isPartial is true".to_owned()),
            (true, false) => Some(format!("isPartial is true; {said}")),
            (false, false) => Some(said),
        }
    }
}

/// A warning on one line.
fn words(warning: &Value) -> String {
    let text = warning.as_str().map_or_else(|| warning.to_string(), str::to_owned);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The data of a query.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Matrix {
    pub(super) result_type: String,
    pub(super) result: Vec<Row>,
}

/// What the data of every query has, whatever its type.
#[derive(Deserialize)]
pub(super) struct Greeting {
    #[serde(rename = "resultType")]
    _result_type: String,
}

/// One series. Native histograms come as `histograms` and are not read.
#[derive(Debug, Deserialize, PartialEq)]
pub(super) struct Row {
    pub(super) metric: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) values: Vec<(f64, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(body: &str) -> String {
        match read::<Vec<String>>("http://a", "up[1h]", body.as_bytes()) {
            Ok(Found { partial: None, data }) => format!("whole {}", data.len()),
            Ok(Found { partial: Some(words), .. }) => format!("partial {words}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_was_left_out_is_told_from_remarks() {
        for (body, wanted) in [
            (r#"{"status":"success","data":["a"]}"#, "whole 1"),
            (r#"{"status":"success","data":["a"],"warnings":null,"isPartial":false}"#, "whole 1"),
            (r#"{"status":"success","data":["a"],"warnings":[],"infos":["metric might not be a counter"]}"#, "whole 1"),
            (
                r#"{"status":"success","data":["a"],"warnings":["PromQL info: metric might not be a counter"]}"#,
                "whole 1",
            ),
            (r#"{"status":"success","data":["a"],"warnings":["a store\ntimed out"]}"#, "partial a store timed out"),
            (r#"{"status":"success","data":["a"],"warnings":"one store"}"#, "partial one store"),
            (
                r#"{"status":"success","data":["a"],"warnings":["PromQL info: x","b","c","d","e"]}"#,
                "partial b; c; d; and 1 more warnings",
            ),
            (r#"{"status":"success","isPartial":true,"data":["a"]}"#, "partial isPartial is true"),
            (r#"{"status":"success","isPartial":true,"data":["a"],"warnings":["b"]}"#, "partial isPartial is true; b"),
        ] {
            assert_eq!(outcome(body), wanted, "{body}");
        }
    }

    #[test]
    fn an_answer_without_data_says_why() {
        for (body, wanted) in [
            (r#"{"status":"error","errorType":"internal","error":"oops"}"#, "status 200 OK: oops"),
            (r#"{"status":"error","error":"oops","data":["a"]}"#, "status 200 OK: oops"),
            (r#"{"status":"error","errorType":"internal"}"#, "status 200 OK: internal"),
            (r#"{"status":"success","data":["a"#, "broke off: 30 bytes of JSON"),
            (r#"{"status":"success","data":null}"#, "there is no data in it"),
            (r#"{"status":"success"}"#, "there is no data in it"),
            (r#"{"data":["a"]}"#, "expected success or error"),
            (r#"{"status":"fine","data":["a"]}"#, "expected success or error"),
            (r#"{"status":"success","data":{"a":1}}"#, "invalid type"),
            ("<html>", "expected value"),
            ("", "EOF while parsing"),
        ] {
            assert!(outcome(body).contains(wanted), "{body}: {}", outcome(body));
        }
    }
}
