//! Scrapes that failed, told from series that ended. Prometheus writes the same marker for both.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Source;
use super::identity::Target;
use crate::signal::{Kind, Signal};
use goodput_exposition::sample::{Sample, TimeMs, is_stale};

/// When scrapes of each target failed: all of its series were marked then, and none had a value. `up` has one either way.
pub(super) fn scrapes<'a>(sources: &[Source<'a>]) -> HashMap<Target<'a>, Arc<[TimeMs]>> {
    let mut marked: HashMap<Target<'a>, BTreeSet<TimeMs>> = HashMap::new();
    // Counters go on behind a marker, and are marked with the others.
    for source in sources.iter().filter(|s| s.has_markers && s.meaning.signal.kind() != Kind::Counter) {
        let mut markers = source.samples.iter().filter(|s| is_stale(s.value)).map(|s| s.time_ms).peekable();
        if markers.peek().is_some() {
            marked.entry(source.target).or_default().extend(markers);
        }
    }
    if !marked.is_empty() {
        for source in sources.iter().filter(|s| s.meaning.signal != Signal::Up) {
            let Some(times) = marked.get_mut(&source.target) else { continue };
            times.retain(|time| !has_value(source.samples, *time));
        }
    }
    let failed = marked.into_iter().filter(|(_, times)| !times.is_empty());
    failed.map(|(target, times)| (target, times.into_iter().collect())).collect()
}

fn has_value(samples: &[Sample], time: TimeMs) -> bool {
    let at = samples.partition_point(|s| s.time_ms < time);
    samples.get(at).is_some_and(|s| s.time_ms == time && !is_stale(s.value))
}

/// The samples without the markers of scrapes that failed at these times: a failed scrape does not end a series.
pub(super) fn without_markers<'s>(samples: &'s [Sample], failed: &[TimeMs]) -> Cow<'s, [Sample]> {
    if failed.is_empty() {
        return Cow::Borrowed(samples);
    }
    let is_told = |s: &&Sample| !is_stale(s.value) || failed.binary_search(&s.time_ms).is_err();
    samples.iter().filter(is_told).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;
    use goodput_exposition::sample::{Labels, STALE_BITS, Series};

    /// A series with a value at the times in `values`, and markers at those in `markers`.
    fn series(metric: &str, instance: &str, values: &[TimeMs], markers: &[TimeMs]) -> Series {
        let value = |time_ms: &TimeMs| Sample { time_ms: *time_ms, value: 1.0 };
        let marker = |time_ms: &TimeMs| Sample { time_ms: *time_ms, value: f64::from_bits(STALE_BITS) };
        let mut samples: Vec<Sample> = values.iter().map(value).chain(markers.iter().map(marker)).collect();
        samples.sort_by_key(|s| s.time_ms);
        Series { labels: Labels::new([("__name__", metric), ("UUID", "GPU-1"), ("instance", instance)]), samples }
    }

    #[test]
    fn a_scrape_failed_where_every_series_of_the_target_is_marked() {
        let all = [
            series("DCGM_FI_DEV_FB_USED", "a", &[0, 30, 60], &[10]),
            series("DCGM_FI_DEV_GPU_UTIL", "a", &[0, 20], &[10, 30]),
            series("up", "a", &[0, 10, 20, 30], &[]),
            series("DCGM_FI_DEV_GPU_UTIL", "b", &[0, 10], &[20]),
        ];
        let sources = sources(&all);
        let failed = scrapes(&sources);
        let of = |n: usize| failed.get(&sources[n].target).map(|times| times.to_vec());
        assert_eq!((of(0), of(3)), (Some(vec![10]), Some(vec![20])));
        let times = |samples: &[Sample]| samples.iter().map(|s| s.time_ms).collect::<Vec<_>>();
        assert_eq!(times(&without_markers(&all[1].samples, &[10])), [0, 20, 30], "at 30 it ended");
    }
}
