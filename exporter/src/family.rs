//! The plain value between collectors and encoders: samples grouped by catalog row.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::catalog::{Kind, Metric};

/// Samples of one scrape, grouped by metric and kept as finished sample lines.
///
/// Both text formats share their sample lines byte for byte and differ only in the lines about a family, so a line is
/// written once, here, whatever the format turns out to be.
#[derive(Default)]
pub struct Families {
    by_name: BTreeMap<&'static str, Family>,
}

/// One metric's row and its sample lines.
pub struct Family {
    pub(crate) metric: &'static Metric,
    pub(crate) lines: String,
    pub(crate) samples: usize,
}

impl Families {
    /// Adds one sample. `values` are the label values in the order of the row's labels; an absent value adds nothing.
    pub fn push(&mut self, metric: &'static Metric, values: &[&str], value: impl Into<Option<f64>>) {
        self.push_with(metric, values, &[], value);
    }

    /// Adds one sample with optional labels; one whose value is empty is left out.
    pub fn push_with(
        &mut self,
        metric: &'static Metric,
        values: &[&str],
        optional: &[&str],
        value: impl Into<Option<f64>>,
    ) {
        debug_assert_eq!(values.len(), metric.labels.len(), "{}", metric.name);
        debug_assert!(optional.len() <= metric.optional.len(), "{}", metric.name);
        let Some(value) = value.into() else { return };
        let family = self.family(metric);
        family.lines.push_str(metric.name);
        let labels = metric.labels.iter().zip(values).map(|(n, v)| (*n, *v));
        let extra = metric.optional.iter().zip(optional).filter(|(_, v)| !v.is_empty()).map(|(n, v)| (*n, *v));
        write_labels(&mut family.lines, labels.chain(extra));
        write_value(&mut family.lines, value);
        family.samples += 1;
    }

    /// Adds one histogram. `buckets` are (upper bound, cumulative count) without the `+Inf` bucket.
    pub fn push_histogram(
        &mut self,
        metric: &'static Metric,
        values: &[&str],
        buckets: &[(f64, u64)],
        count: u64,
        sum: f64,
    ) {
        debug_assert_eq!(metric.kind, Kind::Histogram, "{}", metric.name);
        let family = self.family(metric);
        let bounds = buckets.iter().map(|(le, n)| (bound(*le), *n)).chain([("+Inf".to_owned(), count)]);
        for (le, n) in bounds {
            let _ = write!(family.lines, "{}_bucket", metric.name);
            let labels = metric.labels.iter().zip(values).map(|(n, v)| (*n, *v));
            write_labels(&mut family.lines, labels.chain([("le", le.as_str())]));
            write_value(&mut family.lines, n as f64);
        }
        for (suffix, v) in [("_sum", sum), ("_count", count as f64)] {
            let _ = write!(family.lines, "{}{suffix}", metric.name);
            write_labels(&mut family.lines, metric.labels.iter().zip(values).map(|(n, v)| (*n, *v)));
            write_value(&mut family.lines, v);
        }
        family.samples += buckets.len() + 3;
    }

    /// Moves all of `other`'s samples behind this one's.
    pub fn absorb(&mut self, other: Families) {
        for (_, family) in other.by_name {
            let mine = self.family(family.metric);
            mine.lines.push_str(&family.lines);
            mine.samples += family.samples;
        }
    }

    /// Number of series.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.by_name.values().map(|f| f.samples).sum()
    }

    /// The families in order of name.
    pub fn iter(&self) -> impl Iterator<Item = &Family> {
        self.by_name.values()
    }

    fn family(&mut self, metric: &'static Metric) -> &mut Family {
        self.by_name.entry(metric.name).or_insert_with(|| Family { metric, lines: String::new(), samples: 0 })
    }
}

fn write_labels<'a>(out: &mut String, labels: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut open = false;
    for (name, value) in labels {
        out.push(if open { ',' } else { '{' });
        open = true;
        out.push_str(name);
        out.push_str("=\"");
        escape_label(out, value);
        out.push('"');
    }
    if open {
        out.push('}');
    }
}

fn escape_label(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

/// Writes ` value\n` with the shortest digits that read back as the same f64.
fn write_value(out: &mut String, value: f64) {
    out.push(' ');
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else {
        let _ = write!(out, "{value}");
    }
    out.push('\n');
}

/// A bucket bound as OpenMetrics wants it: always with a decimal point.
fn bound(le: f64) -> String {
    format!("{le:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::host::PRESSURE_WAITING;

    #[test]
    fn absent_values_add_no_line() {
        let mut families = Families::default();
        families.push(&PRESSURE_WAITING, &["io"], None);
        assert_eq!(families.samples(), 0);
    }

    #[test]
    fn label_values_are_escaped() {
        let mut families = Families::default();
        families.push(&PRESSURE_WAITING, &["a\\b\"c\nd"], 1.5);
        let family = families.iter().next().map(|f| f.lines.clone());
        assert_eq!(
            family.as_deref(),
            Some("goodput_pressure_waiting_seconds_total{resource=\"a\\\\b\\\"c\\nd\"} 1.5\n")
        );
    }
}
