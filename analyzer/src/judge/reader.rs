//! Series for windows that are judged one after another: what several of them rest on is read once.

use std::ops::Range;
use std::sync::Arc;

use super::HOUR_MS;
use crate::sample::{Series, TimeMs};
use crate::store::{Samples, Selection, StoreError};

/// Samples of one selection that are held when more is read than one window asks for: 448 MiB. It is four hours and a
/// half of what verdicts on 1,000 GPUs rest on that are scraped every 30 s.
const HELD_SAMPLES: usize = 28 << 20;
/// More than so much is not read ahead: what is read twice is a third of it then.
const AHEAD_MS: i64 = 6 * HOUR_MS;

/// Reads from a store, and keeps what it read until a window asks for something else.
#[derive(Debug)]
pub struct Reader<'s, S> {
    store: &'s S,
    /// The end of the last window.
    end: TimeMs,
    held: Vec<Held>,
}

/// What was read of some metrics.
#[derive(Debug)]
struct Held {
    metrics: Vec<String>,
    range: Range<TimeMs>,
    series: Arc<Vec<Series>>,
}

impl<'s, S: Samples> Reader<'s, S> {
    /// For windows of which the last ends then. Samples that come in later may be missing.
    pub(super) fn new(store: &'s S, end: TimeMs) -> Self {
        Self { store, end, held: Vec::new() }
    }

    /// The series of these metrics, with their samples of the window, of so many milliseconds before it and after it, and
    /// perhaps others.
    pub(super) async fn around(
        &mut self,
        metrics: &[String],
        window: &Range<TimeMs>,
        (before_ms, after_ms): (i64, i64),
    ) -> Result<Arc<Vec<Series>>, StoreError> {
        let range = window.start - before_ms..window.end + after_ms;
        let known = self.held.iter().position(|held| held.metrics == metrics);
        let further_ms = match known.map(|place| &self.held[place]) {
            Some(held) if held.range.start <= range.start && range.end <= held.range.end => {
                return Ok(Arc::clone(&held.series));
            }
            // How dense samples are is known from the last reading; nothing is read ahead by the first.
            Some(held) => {
                let room_ms = held.length_of(HELD_SAMPLES) - (range.end - range.start);
                room_ms.min(self.end - window.end).clamp(0, AHEAD_MS)
            }
            None => 0,
        };
        known.map(|place| self.held.swap_remove(place));
        let range = range.start..range.end + further_ms;
        let metrics = metrics.to_vec();
        let selection = Selection { metrics: metrics.clone(), labels: Vec::new(), range: range.clone() };
        let series = Arc::new(self.store.select(&selection).await?);
        self.held.push(Held { metrics, range, series: Arc::clone(&series) });
        Ok(series)
    }

    /// The same, without others.
    pub(super) async fn within(
        &mut self,
        metrics: &[String],
        window: &Range<TimeMs>,
        around_ms: (i64, i64),
    ) -> Result<Vec<Series>, StoreError> {
        let range = window.start - around_ms.0..window.end + around_ms.1;
        let series = self.around(metrics, window, around_ms).await?;
        Ok(series.iter().filter_map(|series| cut(series, &range)).collect())
    }
}

impl Held {
    /// The time in which there are about so many samples.
    fn length_of(&self, samples: usize) -> i64 {
        let held: usize = self.series.iter().map(|series| series.samples.len()).sum();
        let length = (self.range.end - self.range.start) as f64;
        (length * samples as f64 / held.max(1) as f64) as i64
    }
}

/// The series with its samples of the range; `None` if there are none.
fn cut(series: &Series, range: &Range<TimeMs>) -> Option<Series> {
    let at = |time| series.samples.partition_point(|sample| sample.time_ms < time);
    let samples = &series.samples[at(range.start)..at(range.end)];
    (!samples.is_empty()).then(|| Series { labels: series.labels.clone(), samples: samples.to_vec() })
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::sample::{Batch, Labels, Sample};
    use crate::store::Appended;

    const HOUR: i64 = 3_600_000;
    const MINUTE: i64 = 60_000;

    /// One series with a sample every minute, and the ranges that were read of it.
    struct Ticks(Mutex<Vec<Range<TimeMs>>>);

    impl Samples for Ticks {
        async fn append(&self, _: Batch) -> Result<Appended, StoreError> {
            unreachable!("nothing is written")
        }

        async fn select(&self, selection: &Selection) -> Result<Vec<Series>, StoreError> {
            self.0.lock().push(selection.range.clone());
            // Every range begins with a full minute.
            let times = selection.range.clone().step_by(MINUTE as usize);
            let samples = times.map(|time_ms| Sample { time_ms, value: 1.0 }).collect();
            Ok(vec![Series { labels: Labels::new([("__name__", "ticks")]), samples }])
        }
    }

    #[tokio::test]
    async fn what_several_windows_rest_on_is_read_once() {
        let (store, metrics) = (Ticks(Mutex::default()), ["ticks".to_owned()]);
        let mut reader = Reader::new(&store, 12 * HOUR);
        for hour in 0..12 {
            let window = hour * HOUR..(hour + 1) * HOUR;
            let series = reader.within(&metrics, &window, (HOUR, 2 * HOUR)).await.unwrap();
            let times: Vec<TimeMs> = series[0].samples.iter().map(|s| s.time_ms).collect();
            let asked = (window.start - HOUR..window.end + 2 * HOUR).step_by(MINUTE as usize);
            assert!(times.iter().copied().eq(asked), "hour {hour}: {} samples", times.len());
        }
        // The first reading tells how dense samples are; the last reaches to the end of the last window's.
        assert_eq!(*store.0.lock(), [-HOUR..3 * HOUR, 0..10 * HOUR, 7 * HOUR..14 * HOUR]);
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let samples = vec![Sample { time_ms: 0, value: 1.0 }; 100];
        let series = Arc::new(vec![Series { labels: Labels::new([("__name__", "ticks")]), samples }]);
        let held = Held { metrics: Vec::new(), range: 0..1_000, series };
        assert_eq!(held.length_of(50), 500);
    }
}
