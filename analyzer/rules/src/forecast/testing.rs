//! Series for the tests of forecasts.

use std::ops::Range;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};

const MINUTE: i64 = 60_000;

/// The labels of what one target tells.
#[derive(Clone, Debug)]
pub(super) struct Told(Vec<(&'static str, String)>);

impl Told {
    /// Of a node, by its name.
    pub(super) fn new(node: &str) -> Self {
        Told(vec![("node", node.to_owned()), ("instance", format!("{node}:9100"))])
    }

    /// With more labels.
    pub(super) fn and<const N: usize>(&self, labels: [(&'static str, &str); N]) -> Self {
        let more = labels.map(|(name, value)| (name, value.to_owned()));
        Told(self.0.iter().cloned().chain(more).collect())
    }

    /// The values of every minute of four hours.
    pub(super) fn series(&self, metric: &str, value: &dyn Fn(f64) -> f64) -> Series {
        let own = self.0.iter().map(|(name, value)| (*name, value.as_str()));
        let sample = |minute: i64| Sample { time_ms: minute * MINUTE, value: value(minute as f64) };
        Series {
            labels: Labels::new([("__name__", metric)].into_iter().chain(own)),
            samples: (0..=240).map(sample).collect(),
        }
    }
}

/// The samples of that time alone.
pub(super) fn hours(mut series: Vec<Series>, range: Range<TimeMs>) -> Vec<Series> {
    series.iter_mut().for_each(|s| s.samples.retain(|sample| range.contains(&sample.time_ms)));
    series
}
