//! What Prometheus would have stored of scrapes: series with the target's labels, and where they ended. Pure.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_exposition::{Format, Limits, parse};
use goodput_rules::signal::resolve;

/// The scrapes so far. Series that the analyzer makes nothing of are left out: the trace would be ten times as large.
#[derive(Default)]
pub(super) struct Scrapes {
    series: BTreeMap<Labels, Vec<Sample>>,
    last: BTreeSet<Labels>,
}

impl Scrapes {
    /// Takes what a scrape at this time answered, in the text format 0.0.4.
    ///
    /// # Errors
    /// When the text cannot be read.
    pub(super) fn take(&mut self, time_ms: TimeMs, target: &[(&str, &str)], text: &str) -> Result<()> {
        let batch = parse(text, Format::Text, Limits::NONE, time_ms).context("what the exporter answers")?;
        let mut now = BTreeSet::new();
        let up = [("__name__", "up")].into_iter().chain(target.iter().copied());
        self.push(&mut now, Labels::new(up), Sample { time_ms, value: 1.0 });
        for series in batch.series() {
            let labels = Labels::new(series.labels.iter().chain(target.iter().copied()));
            for sample in series.samples {
                self.push(&mut now, labels.clone(), *sample);
            }
        }
        for gone in self.last.difference(&now) {
            let stale = Sample { time_ms, value: f64::from_bits(STALE_BITS) };
            self.series.entry(gone.clone()).or_default().push(stale);
        }
        self.last = now;
        Ok(())
    }

    fn push(&mut self, now: &mut BTreeSet<Labels>, labels: Labels, sample: Sample) {
        if resolve(&labels).is_some() {
            self.series.entry(labels.clone()).or_default().push(sample);
            now.insert(labels);
        }
    }

    /// All series.
    #[must_use]
    pub(super) fn into_series(self) -> Vec<Series> {
        self.series.into_iter().map(|(labels, samples)| Series { labels, samples }).collect()
    }
}

#[cfg(test)]
mod tests {
    use goodput_exposition::sample::is_stale;

    use super::*;

    #[test]
    fn series_have_the_targets_labels_and_end_where_they_are_gone() {
        let mut scrapes = Scrapes::default();
        let waiting = goodput_catalog::host::CGROUP_PRESSURE_WAITING.name;
        let one = format!("{waiting}{{owner=\"a\",resource=\"cpu\"}} 1.5\nsomething_else 1\n");
        scrapes.take(1000, &[("job", "goodput")], &one).unwrap();
        scrapes.take(2000, &[("job", "goodput")], "something_else 1\n").unwrap();
        let series = scrapes.into_series();
        let names: Vec<&str> = series.iter().map(|s| s.labels.metric()).collect();
        assert_eq!(names, [waiting, "up"], "what has no signal is left out");
        assert!(series.iter().all(|s| s.labels.get("job") == Some("goodput")));
        let (first, second) = (series[0].samples[0], series[0].samples[1]);
        assert_eq!((first.time_ms, first.value, second.time_ms), (1000, 1.5, 2000));
        assert!(is_stale(second.value) && series[1].samples.iter().all(|s| s.value == 1.0));
    }

    #[test]
    fn what_is_no_exposition_is_an_error() {
        let error = Scrapes::default().take(0, &[], "<html>").unwrap_err();
        assert!(format!("{error:#}").starts_with("what the exporter answers: line 1"), "{error:#}");
    }
}
