//! CSV (RFC 4180): the intervals as they are stored, one line each, for anyone's spreadsheet or notebook.

use std::fmt::Write as _;

use crate::escape::cell;
use goodput_rules::classify::sampling;
use goodput_store::columns::{Stored as _, Value, exported};
use goodput_verdict::Interval;

/// Columns before all others, which follow in the order of their table.
const FIRST: [&str; 7] = ["node", "gpu", "model", "owner", "class", "start_ms", "end_ms"];

/// Header and one line per interval. Times are Unix milliseconds; unknown fields are empty; evidence reads
/// `signal=value unit (threshold)`, joined by `; `. Energy is known for `energy_known_ms` of the GPU-milliseconds, and
/// of these by the board's counter for `energy_counted_ms`. Between `gpu_ms_low` and `gpu_ms_high` the milliseconds are
/// at 90 % by sampling. What the other columns say stands in their rows, in `goodput_store::columns`. A text that a
/// spreadsheet would run as a formula begins with an apostrophe.
#[must_use]
pub fn render(intervals: &[Interval]) -> String {
    let columns = exported(Interval::COLUMNS, &FIRST);
    let heads: Vec<&str> = columns.iter().flat_map(|(_, name, column)| heads(column.name, name)).collect();
    let mut text = heads.join(",") + "\r\n";
    for interval in intervals {
        let values = interval.values();
        let fields = columns.iter().flat_map(|(place, _, column)| fields(interval, column.name, &values[*place]));
        text.push_str(&fields.map(quoted).collect::<Vec<_>>().join(","));
        text.push_str("\r\n");
    }
    text
}

/// The columns of the file that a column of the table becomes.
fn heads(column: &'static str, exported: &'static str) -> Vec<&'static str> {
    match column {
        "class" => vec![exported, "group"],
        "start_ms" | "end_ms" => vec![column],
        "energy_mj" => vec!["energy_joules"],
        "energy_ms" => vec!["energy_known_ms"],
        "variance_ms2" => vec!["gpu_ms_low", "gpu_ms_high", exported],
        _ => vec![exported],
    }
}

fn fields(i: &Interval, column: &str, value: &Value<'_>) -> Vec<String> {
    match column {
        "class" => vec![plain(value), i.class.group().name().to_owned()],
        "evidence" => vec![evidence(i)],
        "missing" => vec![i.missing.join("; ")],
        "energy_mj" => vec![i.energy.map_or_else(String::new, |e| (e.mj as f64 / 1000.0).to_string())],
        "variance_ms2" => {
            let bounds = i.variance_ms2.map(|v| sampling::bounds(i.ms, v.into(), i.end_ms - i.start_ms));
            let [low, high] = [bounds.map(|b| b.low_ms), bounds.map(|b| b.high_ms)];
            vec![plain(&low.into()), plain(&high.into()), plain(value)]
        }
        _ => vec![plain(value)],
    }
}

fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Null | Value::Refused(_) => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone().into_owned(),
    }
}

fn evidence(interval: &Interval) -> String {
    let mut text = String::new();
    for (n, e) in interval.evidence.iter().enumerate() {
        let separator = if n == 0 { "" } else { "; " };
        let _ = write!(text, "{separator}{}={} {} ({})", e.signal, e.value, e.unit, e.threshold);
    }
    text
}

pub(super) fn quoted(field: String) -> String {
    let field = cell(&field);
    let special = |c| matches!(c, ',' | '"' | '\n' | '\r');
    if field.contains(special) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.into_owned() }
}
