//! CSV (RFC 4180): the intervals as they are stored, one line each, for anyone's spreadsheet or notebook.

use std::fmt::Write as _;

use crate::classify::{Interval, sampling};
use crate::escape::cell;

const HEADER: &str = "node,gpu,model,owner,class,group,start_ms,end_ms,gpu_ms,confidence,busy_signal,evidence,missing,\
                      energy_joules,energy_known_ms,energy_counted_ms,charged_node,charged_gpu,gpu_instance,\
                      gpu_instance_profile,gpu_ms_low,gpu_ms_high,gpu_ms_variance,rule_version,rules_version,run,account,cluster";

/// Header and one line per interval. Times are Unix milliseconds; unknown fields are empty; evidence reads
/// `signal=value unit (threshold)`, joined by `; `. Energy is known for `energy_known_ms` of the GPU-milliseconds, and
/// of these by the board's counter for `energy_counted_ms`. `charged_node` and `charged_gpu` say who caused it, where
/// that is another GPU. `gpu_instance` is the id of the MIG instance whose line it is. Between `gpu_ms_low` and
/// `gpu_ms_high` the milliseconds are at 90 % by sampling. `rule_version` and `rules_version` say by which rules it was
/// judged. `run` is the owner, or the job whose ranks are owners; `account` is what its time counts to; `cluster` is
/// the node's. A text that a spreadsheet would run as a formula begins with an apostrophe.
#[must_use]
pub fn render(intervals: &[Interval]) -> String {
    let mut text = format!("{HEADER}\r\n");
    for i in intervals {
        let bounds = i.variance_ms2.map(|v| sampling::bounds(i.ms, v.into(), i.end_ms - i.start_ms));
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
            i.energy.map_or_else(String::new, |e| (e.mj as f64 / 1000.0).to_string()),
            i.energy.map_or_else(String::new, |e| e.ms.to_string()),
            i.energy.map_or_else(String::new, |e| e.counted_ms.to_string()),
            i.charged_to.as_ref().map_or_else(String::new, |culprit| culprit.node.clone()),
            i.charged_to.as_ref().map_or_else(String::new, |culprit| culprit.gpu.clone()),
            i.gpu_instance.as_ref().map_or_else(String::new, |instance| instance.id.to_string()),
            i.gpu_instance.as_ref().and_then(|instance| instance.profile.clone()).unwrap_or_default(),
            bounds.map_or_else(String::new, |b| b.low_ms.to_string()),
            bounds.map_or_else(String::new, |b| b.high_ms.to_string()),
            i.variance_ms2.map_or_else(String::new, |v| v.to_string()),
            i.version.map_or_else(String::new, |version| version.rule.to_string()),
            i.version.map_or_else(String::new, |version| version.rules.to_string()),
            i.run.clone().unwrap_or_default(),
            i.account.clone().unwrap_or_default(),
            i.cluster.clone().unwrap_or_default(),
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
    let field = cell(&field);
    let special = |c| matches!(c, ',' | '"' | '\n' | '\r');
    if field.contains(special) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.into_owned() }
}
