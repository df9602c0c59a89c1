//! The families of `/metrics`, each by its row of the catalog: name, kind, help and the names of labels come from there.

use std::collections::BTreeMap;
use std::fmt;

use goodput_catalog::{Kind, Metric};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// What a series shows; a real number is written with a decimal point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Whole(i64),
    Real(f64),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Whole(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value.cast_signed())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Names and values.
type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Family {
    row: &'static Metric,
    series: BTreeMap<Labels, Value>,
}

/// What is to be shown, family by family in the order of their first series.
#[derive(Debug, Default)]
pub(crate) struct Page(Vec<Family>);

impl Page {
    /// Adds a series with these values of the row's labels; of two with the same ones the later stays.
    pub(super) fn push(&mut self, row: &'static Metric, values: &[&str], value: impl Into<Value>) {
        self.push_with(row, &[], values, value);
    }

    /// The same with optional labels, which stand first; one whose value is empty is left out.
    pub(super) fn push_with(
        &mut self,
        row: &'static Metric,
        optional: &[&str],
        values: &[&str],
        value: impl Into<Value>,
    ) {
        debug_assert_eq!(values.len(), row.labels.len(), "{}", row.name);
        debug_assert!(optional.len() <= row.optional.len(), "{}", row.name);
        let optional = row.optional.iter().zip(optional).filter(|(_, value)| !value.is_empty());
        let labels = optional.chain(row.labels.iter().zip(values)).map(|(name, value)| (*name, (*value).to_owned()));
        self.family(row).series.insert(labels.collect(), value.into());
    }

    /// The sum over a row's series, or over those with this label; `None` where there is no such series.
    pub(super) fn sum(&self, row: &Metric, label: Option<(&str, &str)>) -> Option<f64> {
        let family = self.0.iter().find(|family| family.row.name == row.name)?;
        let counts =
            |labels: &Labels| label.is_none_or(|(name, value)| labels.iter().any(|(n, v)| *n == name && v == value));
        let mut found = family.series.iter().filter(|(labels, _)| counts(labels)).peekable();
        found.peek()?;
        Some(found.map(|(_, value)| value.as_f64()).sum())
    }

    /// The text in OpenMetrics.
    pub(crate) fn text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        for family in self.0 {
            // What the encoder writes itself.
            let name = family.row.name.strip_suffix("_total").unwrap_or(family.row.name);
            let help = family.row.help.strip_suffix('.').unwrap_or(family.row.help);
            registry.register(name, help, family);
        }
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    /// Number of series by the row's name.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> BTreeMap<&'static str, usize> {
        self.0.iter().map(|family| (family.row.name, family.series.len())).collect()
    }

    /// Series of one family mostly come one after the other, so it is looked for from the end.
    fn family(&mut self, row: &'static Metric) -> &mut Family {
        let known = self.0.iter().rposition(|family| family.row.name == row.name);
        let place = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Family { row, series: BTreeMap::new() });
        }
        &mut self.0[place]
    }
}

impl Value {
    fn as_f64(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }
}

impl EncodeMetric for Family {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, value) in &self.series {
            if labels.is_empty() {
                self.write(&mut encoder, *value)?;
            } else {
                self.write(&mut encoder.encode_family(labels)?, *value)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        if self.row.kind == Kind::Counter { MetricType::Counter } else { MetricType::Gauge }
    }
}

impl Family {
    fn write(&self, encoder: &mut MetricEncoder<'_>, value: Value) -> fmt::Result {
        match (self.row.kind, value) {
            (Kind::Counter, Value::Whole(value)) => {
                encoder.encode_counter::<NoLabelSet, _, f64>(&value.cast_unsigned(), None)
            }
            (Kind::Counter, Value::Real(value)) => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
            (_, Value::Whole(value)) => encoder.encode_gauge(&value),
            (_, Value::Real(value)) => encoder.encode_gauge(&value),
        }
    }
}
