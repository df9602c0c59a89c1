//! Series that break the data model or a limit. Each costs itself alone: it is counted by reason, and its metric is named.

use std::collections::BTreeMap;

use goodput_exposition::{Fault, Reason, excerpt};

use super::Limits;
use goodput_exposition::sample::{Batch, Labels, LabelsRef};

/// Metrics that one delivery names; further ones are only counted.
const MAX_NAMED: usize = 64;

/// By which rules a delivery is read.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The bounds.
    pub limits: &'a Limits,
    /// Does the store keep metrics of this name? Limits of labels do not apply to the others.
    pub keeps: &'a dyn Fn(&str) -> bool,
}

impl<'a> Rules<'a> {
    /// With every metric kept.
    #[must_use]
    pub fn of_all(limits: &'a Limits) -> Self {
        Self { limits, keeps: &|_| true }
    }
}

impl Rules<'_> {
    /// The first fault of a series that is read as a whole. The readers of remote write and of text find the same faults
    /// label by label.
    pub(super) fn fault(&self, labels: LabelsRef<'_>) -> Option<Fault> {
        let Limits { labels: most, label_bytes, .. } = *self.limits;
        let (mut count, mut bytes, mut has_metric) = (0, 0, false);
        let mut fault = None;
        for (name, value) in labels.iter() {
            count += 1;
            bytes += name.len() + value.len();
            has_metric |= name == "__name__";
            let of_label = if name.is_empty() {
                Some(Fault::nameless(count))
            } else if name.len() + value.len() > label_bytes {
                Some(Fault::long_label(name, value, label_bytes))
            } else {
                None
            };
            fault = fault.or(of_label);
        }
        let many = (count > most).then(|| Fault::many_labels(most));
        let fault = fault.or(many).or_else(|| (!has_metric).then(Fault::no_metric));
        fault.map(|fault| Fault { bytes, ..fault })
    }

    /// The batch without the series that have a fault. Those of metrics that the store does not keep lose their labels only:
    /// they count as unknown.
    #[must_use]
    pub fn admitted(&self, batch: Batch) -> (Batch, Skipped) {
        let mut skipped = Skipped::default();
        // A reader has taken the labels off what counts as unknown.
        let fault = |labels: LabelsRef<'_>| self.fault(labels).filter(|_| !labels.key().is_empty());
        if batch.series().all(|series| fault(series.labels).is_none()) {
            return (batch, skipped);
        }
        let (mut kept, nameless) = (Batch::default(), Labels::new::<&str, &str>([]));
        for series in batch.series() {
            let metric = series.labels.metric();
            match fault(series.labels) {
                None => kept.push(series.labels, series.samples),
                Some(fault) if metric.is_empty() || (self.keeps)(metric) => {
                    skipped.add(metric, fault, series.samples.len());
                }
                Some(fault) => {
                    kept.push(nameless.as_ref(), series.samples);
                    skipped.mention(metric, fault);
                }
            }
        }
        (kept, skipped)
    }
}

/// What a delivery names: a fault of a metric, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its first fault.
    pub fault: Fault,
    /// Does the store keep the metric? Series of others count as unknown and are not skipped.
    pub kept: bool,
}

/// Series of one delivery that were skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    series: BTreeMap<Reason, u64>,
    samples: u64,
    named: BTreeMap<(Reason, String), Named>,
}

impl Skipped {
    /// Counts a series, with its number of samples, of a metric that is kept.
    pub(super) fn add(&mut self, metric: &str, fault: Fault, samples: usize) {
        *self.series.entry(fault.reason).or_default() += 1;
        self.samples += samples as u64;
        self.name(metric, fault, true);
    }

    /// Names a series of a metric that is not kept.
    pub(super) fn mention(&mut self, metric: &str, fault: Fault) {
        self.name(metric, fault, false);
    }

    fn name(&mut self, metric: &str, fault: Fault, kept: bool) {
        let key = (fault.reason, excerpt(metric).to_owned());
        if self.named.len() < MAX_NAMED || self.named.contains_key(&key) {
            self.named.entry(key).or_insert(Named { fault, kept });
        }
    }

    /// Adds what another delivery left out.
    pub fn absorb(&mut self, other: Self) {
        for (reason, count) in other.series {
            *self.series.entry(reason).or_default() += count;
        }
        self.samples += other.samples;
        for ((_, metric), Named { fault, kept }) in other.named {
            self.name(&metric, fault, kept);
        }
    }

    /// How many series were skipped, by reason.
    pub fn series(&self) -> impl Iterator<Item = (Reason, u64)> {
        self.series.iter().map(|(reason, count)| (*reason, *count))
    }

    /// How many samples they had.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The metrics with faults and the first fault of each.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Named)> {
        self.named.iter().map(|((_, metric), named)| (metric.as_str(), named))
    }

    /// The reasons and the number of series of each, for an answer.
    #[must_use]
    pub fn reasons(&self) -> String {
        let each: Vec<_> =
            self.series().map(|(reason, count)| format!("{count} series by {}", reason.name())).collect();
        each.join(", ")
    }

    /// The first fault, for an answer.
    #[must_use]
    pub fn first(&self) -> Option<String> {
        let (metric, named) = self.named().find(|(_, named)| named.kept)?;
        Some(format!("{metric:?}: {}", named.fault.detail))
    }
}
