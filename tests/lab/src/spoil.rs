//! Series after they were recorded: signals that are stuck or contradict others, and machines that are parts of one node.

use std::collections::BTreeMap;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs, is_stale};

const MINUTE_MS: i64 = 60_000;

/// Samples of GPUs that are not what was simulated.
#[derive(Clone, Debug)]
pub struct Spoilt {
    /// How the names of the metrics begin.
    pub metrics: &'static [&'static str],
    /// Minutes after which it begins, and how long it lasts.
    pub minutes: [i64; 2],
    /// What the exporters tell meanwhile; the last value before it where there is none.
    pub value: Option<f64>,
}

impl Spoilt {
    /// Changes the samples of a trace that begins then.
    pub fn spoil(&self, series: &mut [Series], start_ms: TimeMs) {
        let is_its = |s: &&mut Series| {
            self.metrics.iter().any(|start| s.labels.metric().starts_with(start)) && s.labels.get("UUID").is_some()
        };
        let [from, length] = self.minutes.map(|minutes| minutes * MINUTE_MS);
        let span = start_ms + from..start_ms + from + length;
        for series in series.iter_mut().filter(is_its) {
            let before = series.samples.iter().rfind(|s| s.time_ms < span.start && !is_stale(s.value)).map(|s| s.value);
            let Some(value) = self.value.or(before) else { continue };
            let spoilt = series.samples.iter_mut().filter(|s| span.contains(&s.time_ms) && !is_stale(s.value));
            spoilt.for_each(|sample| sample.value = value);
        }
    }
}

/// The series of machines that are parts of one node. What the node counts is the sum of its parts; of pressure, the part
/// that waits longest; of what does not add up, the first part's.
#[must_use]
pub fn merged(all: Vec<Series>) -> Vec<Series> {
    let mut nodes: BTreeMap<Labels, BTreeMap<TimeMs, f64>> = BTreeMap::new();
    for Series { labels, samples } in all {
        let is_pressure = labels.metric().contains("pressure");
        let is_sum = labels.metric().ends_with("_total");
        let known = nodes.entry(labels).or_default();
        for Sample { time_ms, value } in samples {
            known
                .entry(time_ms)
                .and_modify(|sum| {
                    *sum = match (is_pressure, is_sum) {
                        (true, _) => sum.max(value),
                        (_, true) => *sum + value,
                        _ => *sum,
                    }
                })
                .or_insert(value);
        }
    }
    let series = |(labels, samples): (Labels, BTreeMap<TimeMs, f64>)| {
        let samples = samples.into_iter().map(|(time_ms, value)| Sample { time_ms, value }).collect();
        Series { labels, samples }
    };
    nodes.into_iter().map(series).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, values: &[f64]) -> Series {
        let samples =
            values.iter().enumerate().map(|(n, value)| Sample { time_ms: n as i64 * MINUTE_MS, value: *value });
        Series { labels: Labels::new([("__name__", name), ("UUID", "GPU-a")]), samples: samples.collect() }
    }

    fn values(series: &Series) -> Vec<f64> {
        series.samples.iter().map(|s| s.value).collect()
    }

    #[test]
    fn a_signal_is_stuck_for_as_long_as_is_said() {
        let mut all = [series("a_util", &[1.0, 2.0, 3.0, 4.0]), series("b_util", &[1.0, 2.0, 3.0, 4.0])];
        Spoilt { metrics: &["a_"], minutes: [2, 1], value: None }.spoil(&mut all, 0);
        assert_eq!((values(&all[0]), values(&all[1])), (vec![1.0, 2.0, 2.0, 4.0], vec![1.0, 2.0, 3.0, 4.0]));
        Spoilt { metrics: &["b_"], minutes: [0, 9], value: Some(0.0) }.spoil(&mut all, 0);
        assert_eq!(values(&all[1]), [0.0; 4]);
    }

    #[test]
    fn parts_of_a_node_add_up() {
        let parts = [("cpu_total", [1.0, 2.0]), ("cpu_total", [10.0, 20.0])].map(|(name, v)| series(name, &v));
        let levels = [("info", [1.0, 1.0]), ("info", [1.0, 1.0])].map(|(name, v)| series(name, &v));
        let waiting =
            [("pressure_total", [5.0, 6.0]), ("pressure_total", [7.0, 1.0])].map(|(name, v)| series(name, &v));
        let all = merged(parts.into_iter().chain(levels).chain(waiting).collect());
        assert_eq!(all.iter().map(values).collect::<Vec<_>>(), [[11.0, 22.0], [1.0, 1.0], [7.0, 6.0]]);
    }
}
