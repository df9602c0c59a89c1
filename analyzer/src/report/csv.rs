//! CSV (RFC 4180): the intervals as they are stored, one line each, for anyone's spreadsheet or notebook.

use std::fmt::Write as _;

use crate::classify::Interval;

const HEADER: &str = "node,gpu,model,owner,class,group,start_ms,end_ms,gpu_ms,confidence,busy_signal,evidence,missing";

/// Header and one line per interval. Times are Unix milliseconds; unknown fields are empty; evidence reads
/// `signal=value unit (threshold)`, joined by `; `.
#[must_use]
pub fn render(intervals: &[Interval]) -> String {
    let mut text = format!("{HEADER}\r\n");
    for i in intervals {
        let fields = [
            i.node.clone(),
            i.gpu.clone(),
            i.model.clone().unwrap_or_default(),
            i.owner.clone().unwrap_or_default(),
            i.class.name().into(),
            i.class.group().name().into(),
            i.start_ms.to_string(),
            i.end_ms.to_string(),
            i.ms.to_string(),
            i.confidence.to_string(),
            i.busy_signal.clone().unwrap_or_default(),
            evidence(i),
            i.missing.join("; "),
        ];
        text.push_str(&fields.map(quoted).join(","));
        text.push_str("\r\n");
    }
    text
}

fn evidence(interval: &Interval) -> String {
    let mut text = String::new();
    for (n, e) in interval.evidence.iter().enumerate() {
        let separator = if n == 0 { "" } else { "; " };
        let _ = write!(text, "{separator}{}={} {} ({})", e.signal, e.value, e.unit, e.threshold);
    }
    text
}

fn quoted(field: String) -> String {
    let special = |c| matches!(c, ',' | '"' | '\n' | '\r');
    if field.contains(special) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}
