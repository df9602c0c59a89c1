//! What is stored of the ledger and in addition to it, one row each.

use polars::prelude::{Column, DataFrame, NamedFrom, PolarsResult, Series};
use serde::Serialize;

use super::{known_times, times};
use crate::application::Achieved;
use crate::classify::{Advisory, Interval};
use crate::forecast::{Exhaustion, Risk};

/// Intervals of the ledger.
pub fn intervals(rows: &[Interval]) -> PolarsResult<DataFrame> {
    table(vec![
        texts("node", rows, |i| Some(i.node.as_str())),
        texts("gpu", rows, |i| Some(i.gpu.as_str())),
        texts("model", rows, |i| i.model.as_deref()),
        texts("owner", rows, |i| i.owner.as_deref()),
        texts("cluster", rows, |i| i.cluster.as_deref()),
        texts("run", rows, |i| i.run.as_deref()),
        texts("account", rows, |i| i.account.as_deref()),
        texts("class", rows, |i| Some(i.class.name())),
        times("start", rows.iter().map(|i| i.start_ms).collect())?,
        times("end", rows.iter().map(|i| i.end_ms).collect())?,
        integers("gpu_ms", rows, |i| Some(i.ms)),
        floats("confidence", rows, |i| Some(i.confidence)),
        texts("busy_signal", rows, |i| i.busy_signal.as_deref()),
        texts("evidence", rows, |i| json(&i.evidence)),
        texts("missing", rows, |i| json(&i.missing)),
        integers("energy_mj", rows, |i| i.energy.map(|e| e.mj)),
        integers("energy_ms", rows, |i| i.energy.map(|e| e.ms)),
        integers("energy_counted_ms", rows, |i| i.energy.map(|e| e.counted_ms)),
        texts("charged_node", rows, |i| i.charged_to.as_ref().map(|culprit| culprit.node.as_str())),
        texts("charged_gpu", rows, |i| i.charged_to.as_ref().map(|culprit| culprit.gpu.as_str())),
        integers("gpu_instance", rows, |i| i.gpu_instance.as_ref().map(|instance| i64::from(instance.id))),
        texts("gpu_instance_profile", rows, |i| i.gpu_instance.as_ref()?.profile.as_deref()),
        integers("gpu_ms_variance", rows, |i| i.variance_ms2),
        integers("rule_version", rows, |i| i.version.map(|version| i64::from(version.rule))),
        integers("rules_version", rows, |i| i.version.map(|version| i64::from(version.rules))),
    ])
}

/// Advisories.
pub fn advisories(rows: &[Advisory]) -> PolarsResult<DataFrame> {
    table(vec![
        texts("node", rows, |a| Some(a.node.as_str())),
        texts("gpu", rows, |a| Some(a.gpu.as_str())),
        texts("model", rows, |a| a.model.as_deref()),
        texts("owner", rows, |a| a.owner.as_deref()),
        texts("cluster", rows, |a| a.cluster.as_deref()),
        texts("run", rows, |a| a.run.as_deref()),
        texts("advice", rows, |a| Some(a.advice.name())),
        times("start", rows.iter().map(|a| a.start_ms).collect())?,
        times("end", rows.iter().map(|a| a.end_ms).collect())?,
        floats("confidence", rows, |a| Some(a.confidence)),
        texts("evidence", rows, |a| json(&a.evidence)),
    ])
}

/// Stretches in which something was at risk, with the last forecast of each.
pub fn risks(rows: &[Risk]) -> PolarsResult<DataFrame> {
    let exhaustion = |of: fn(&Exhaustion) -> f64| move |r: &Risk| r.last.exhaustion().map(of);
    table(vec![
        texts("node", rows, |r| Some(r.last.node.as_str())),
        texts("kind", rows, |r| Some(r.last.kind.sort().name())),
        texts("which", rows, |r| Some(r.last.kind.which())),
        texts("entity", rows, |r| Some(r.last.entity.as_str())),
        texts("cluster", rows, |r| r.last.cluster.as_deref()),
        texts("owners", rows, |r| json(&r.last.owners)),
        times("start", rows.iter().map(|r| r.start_ms).collect())?,
        times("end", rows.iter().map(|r| r.end_ms).collect())?,
        known_times("earliest", rows.iter().map(|r| r.earliest_ms).collect())?,
        times("made", rows.iter().map(|r| r.last.made_ms).collect())?,
        texts("shape", rows, |r| r.last.exhaustion().map(|e| e.shape.name())),
        floats("used", rows, exhaustion(|e| e.used)),
        floats("limit", rows, exhaustion(|e| e.limit)),
        floats("slope_per_second", rows, exhaustion(|e| e.slope)),
        floats("slope_low_per_second", rows, exhaustion(|e| e.slope_low)),
        floats("slope_high_per_second", rows, exhaustion(|e| e.slope_high)),
        floats("soonest_seconds", rows, |r| r.last.at_risk().map(|t| t.soonest_seconds)),
        floats("likely_seconds", rows, |r| r.last.at_risk().map(|t| t.likely_seconds)),
        floats("latest_seconds", rows, |r| r.last.at_risk().and_then(|t| t.latest_seconds)),
        texts("level", rows, |r| r.last.damage().map(|d| d.level.name())),
        texts("evidence", rows, |r| json(&r.last.damage()?.evidence)),
    ])
}

/// What jobs achieved by their own counters, by window.
pub fn achieved(rows: &[Achieved]) -> PolarsResult<DataFrame> {
    table(vec![
        texts("metric", rows, |a| Some(a.metric.as_str())),
        texts("unit", rows, |a| Some(a.unit.as_str())),
        texts("owner", rows, |a| a.owner.as_deref()),
        texts("subject", rows, |a| Some(a.subject.as_str())),
        times("start", rows.iter().map(|a| a.start_ms).collect())?,
        times("end", rows.iter().map(|a| a.end_ms).collect())?,
        floats("amount", rows, |a| Some(a.amount)),
        integers("covered_ms", rows, |a| Some(a.covered_ms)),
        floats("ideal_per_gpu_second", rows, |a| a.ideal),
    ])
}

fn table(columns: Vec<Column>) -> PolarsResult<DataFrame> {
    DataFrame::new(columns.first().map_or(0, Column::len), columns)
}

fn texts<'a, T, S: Into<String>>(name: &str, rows: &'a [T], of: impl Fn(&'a T) -> Option<S>) -> Column {
    Series::new(name.into(), rows.iter().map(|row| of(row).map(S::into)).collect::<Vec<Option<String>>>()).into()
}

fn integers<T>(name: &str, rows: &[T], of: impl Fn(&T) -> Option<i64>) -> Column {
    Series::new(name.into(), rows.iter().map(of).collect::<Vec<_>>()).into()
}

fn floats<T>(name: &str, rows: &[T], of: impl Fn(&T) -> Option<f64>) -> Column {
    Series::new(name.into(), rows.iter().map(of).collect::<Vec<_>>()).into()
}

/// Text and finite numbers: they were stored as JSON.
fn json(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}
