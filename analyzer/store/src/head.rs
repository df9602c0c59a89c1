//! Samples that are on disk only in the write-ahead: per series, in order of time.

use std::ops::Range;

use super::catalogue::SeriesId;
use super::pages::Pages;
use goodput_exposition::sample::{Sample, TimeMs};

#[derive(Default)]
pub(super) struct Head {
    series: Pages<Vec<Sample>>,
    samples: usize,
    sample_bytes: usize,
}

impl Head {
    /// Memory taken, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.series.bytes() + self.sample_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// All samples of a series.
    pub(super) fn series(&self, id: SeriesId) -> &[Sample] {
        self.series.get(id).map_or(&[], Vec::as_slice)
    }

    /// A series' samples within the range.
    pub(super) fn range(&self, id: SeriesId, range: &Range<TimeMs>) -> &[Sample] {
        within(self.series(id), range)
    }

    /// Adds a sample, unless there is one of the same time.
    pub(super) fn insert(&mut self, id: SeriesId, sample: Sample) {
        let samples = self.series.get_mut(id);
        let before = samples.capacity();
        match samples.last() {
            Some(last) if last.time_ms >= sample.time_ms => {
                match samples.binary_search_by_key(&sample.time_ms, |s| s.time_ms) {
                    Ok(_) => return,
                    Err(place) => samples.insert(place, sample),
                }
            }
            _ => samples.push(sample),
        }
        self.samples += 1;
        self.sample_bytes += (samples.capacity() - before) * size_of::<Sample>();
    }

    /// Every series that may have samples.
    pub(super) fn all(&self) -> impl Iterator<Item = (SeriesId, &[Sample])> {
        self.series.iter().map(|(id, samples)| (id, samples.as_slice()))
    }
}

/// The part of samples in order of time that lies within the range.
pub(super) fn within<'a>(samples: &'a [Sample], range: &Range<TimeMs>) -> &'a [Sample] {
    let from = samples.partition_point(|s| s.time_ms < range.start);
    let to = samples.partition_point(|s| s.time_ms < range.end);
    samples.get(from..to).unwrap_or_default()
}

/// The value at exactly this time.
pub(super) fn value_at(samples: &[Sample], time_ms: TimeMs) -> Option<f64> {
    samples.binary_search_by_key(&time_ms, |s| s.time_ms).ok().map(|place| samples[place].value)
}
