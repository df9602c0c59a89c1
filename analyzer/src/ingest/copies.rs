//! One of each series, where an engine has it from several replicas of one Prometheus. Pure.
//!
//! What comes in live is taken from the replica that leads ([`super::replicas`]); history is there as a whole, so of each
//! series the copy with most samples is taken.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use goodput_exposition::sample::{Batch, Labels, Sample, Series, SeriesRef, is_stale};

/// Takes off the labels that tell replicas apart. Of copies of one series that with most samples is kept, staleness
/// markers not counted; of several such, the first by these labels.
pub(crate) fn one_of_each(batch: Batch, replica_labels: &[String]) -> Batch {
    let is_replica = |name: &str| replica_labels.iter().any(|label| label == name);
    if !batch.series().any(|series| series.labels.iter().any(|(name, _)| is_replica(name))) {
        return batch;
    }
    let mut copies: BTreeMap<Labels, BTreeMap<Labels, Vec<Sample>>> = BTreeMap::new();
    for SeriesRef { labels, samples } in batch.series() {
        let [own, replica] =
            [false, true].map(|of| Labels::new(labels.iter().filter(|(name, _)| is_replica(name) == of)));
        copies.entry(own).or_default().entry(replica).or_default().extend(samples);
    }
    let readings = |samples: &[Sample]| samples.iter().filter(|sample| !is_stale(sample.value)).count();
    let longest = |of: BTreeMap<Labels, Vec<Sample>>| {
        of.into_iter()
            .max_by_key(|(replica, samples)| (readings(samples), Reverse(replica.clone())))
            .map(|(_, samples)| samples)
    };
    let kept = copies.into_iter().filter_map(|(labels, of)| Some(Series { labels, samples: longest(of)? }));
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(gpu: &str, replica: Option<&str>, times: std::ops::Range<i64>) -> Series {
        let pairs = [("__name__", "busy"), ("gpu", gpu), ("prometheus_replica", replica.unwrap_or_default())];
        let samples = times.map(|time_ms| Sample { time_ms, value: 1.0 }).collect();
        Series { labels: Labels::new(pairs), samples }
    }

    #[test]
    fn of_each_series_the_copy_with_most_samples_is_kept() {
        let labels = ["prometheus_replica".to_owned()];
        let batch: Batch = [
            series("0", Some("b"), 0..5),
            series("0", Some("a"), 10..15),
            series("1", Some("a"), 0..2),
            // In two parts.
            series("1", Some("b"), 0..2),
            series("1", Some("b"), 2..4),
            series("2", None, 0..3),
        ]
        .into_iter()
        .collect();
        let kept: Vec<Series> = one_of_each(batch.clone(), &labels).into_iter().collect();
        assert_eq!(kept, [series("0", None, 10..15), series("1", None, 0..4), series("2", None, 0..3)]);
        assert_eq!(one_of_each(batch.clone(), &[]), batch, "no label tells replicas apart");
    }
}
