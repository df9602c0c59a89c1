//! Series for windows that are judged one after another: what several of them rest on is read once.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::HOUR_MS;
use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_store::{Samples, Selection, StoreError};

/// Samples of one selection that are held when more is read than one window asks for: 448 MiB. It is four hours and a
/// half of what verdicts on 1,000 GPUs rest on that are scraped every 30 s.
const HELD_SAMPLES: usize = 28 << 20;
/// More than this is not read ahead: a reading has some cost of its own, which is little compared with that of six
/// hours.
const AHEAD_MS: i64 = 6 * HOUR_MS;
/// So much before a window is kept besides: the last minutes of an hour are asked for a little later than the hour is.
const KEPT_MS: i64 = 5 * 60_000;

/// Reads from a store, and keeps what it read as long as windows ask for it: what is asked for next is read from where that
/// ends.
#[derive(Debug)]
pub struct Reader<'s, S> {
    store: &'s S,
    /// The end of the last window.
    end: TimeMs,
    held: Vec<Held>,
    gpus: Gpus,
}

/// The GPUs that are judged: as many as may be, those that were stored first before others.
#[derive(Debug)]
struct Gpus {
    max: usize,
    judged: HashSet<Box<str>>,
    /// Those that are too many, since the judged ones were last counted.
    dropped: HashSet<u64>,
}

impl Gpus {
    /// Is the series of a GPU that is judged, or of none?
    fn take(&mut self, labels: &Labels) -> bool {
        let Some(uuid) = uuid_of(labels) else { return true };
        if self.judged.contains(uuid) {
            return true;
        }
        if self.judged.len() < self.max {
            return self.judged.insert(uuid.into());
        }
        self.dropped.insert(FixedState::default().hash_one(uuid));
        false
    }
}

fn uuid_of(labels: &Labels) -> Option<&str> {
    labels.get("UUID").or_else(|| labels.get("uuid"))
}

/// What was read of some metrics.
#[derive(Debug)]
struct Held {
    metrics: Vec<String>,
    range: Range<TimeMs>,
    series: Arc<Vec<Series>>,
}

impl<'s, S: Samples> Reader<'s, S> {
    /// For windows up to `end`. Samples that come in later may be missing.
    pub(super) fn new(store: &'s S, end: TimeMs, max_gpus: usize) -> Self {
        let gpus = Gpus { max: max_gpus, judged: HashSet::new(), dropped: HashSet::new() };
        Self { store, end, held: Vec::new(), gpus }
    }

    /// How many GPUs are not judged for there being too many.
    #[must_use]
    pub fn dropped_gpus(&self) -> usize {
        self.gpus.dropped.len()
    }

    /// The same for more windows, up to `end`. Samples from `changed_from` on may have come in since.
    pub fn renew(&mut self, end: TimeMs, changed_from: Option<TimeMs>) {
        self.end = end;
        for held in &mut self.held {
            held.forget_from(changed_from.unwrap_or(TimeMs::MAX));
        }
        if self.gpus.dropped.is_empty() {
            return;
        }
        // GPUs that are gone make room for others. The reader holds nothing of these, so it reads all again.
        let held = self.held.iter().flat_map(|held| held.series.iter()).filter_map(|series| uuid_of(&series.labels));
        let there: HashSet<Box<str>> = held.map(Into::into).collect();
        if there.len() < self.gpus.judged.len() {
            self.held.clear();
            self.gpus.judged = there;
        }
        self.gpus.dropped.clear();
    }

    /// The series of these metrics, with their samples of the window, of `before_ms` before it and `after_ms` after it,
    /// and perhaps others.
    pub(super) async fn around(
        &mut self,
        metrics: &[String],
        window: &Range<TimeMs>,
        (before_ms, after_ms): (i64, i64),
    ) -> Result<Arc<Vec<Series>>, StoreError> {
        let range = window.start - before_ms..window.end + after_ms;
        let known = self.held.iter().position(|held| held.metrics == metrics);
        // How dense samples are is known from the last reading; nothing is read ahead by the first.
        let (mut held, further_ms) = match known.map(|place| self.held.swap_remove(place)) {
            Some(held) => {
                let room_ms = held.length_of(HELD_SAMPLES) - (range.end - range.start);
                (held, room_ms.min(self.end - window.end).clamp(0, AHEAD_MS))
            }
            None => (Held { metrics: metrics.to_vec(), range: 0..0, series: Arc::default() }, 0),
        };
        if !(held.range.start..=held.range.end).contains(&range.start) {
            held = Held { range: range.start..range.start, series: Arc::default(), ..held };
        }
        if held.range.end < range.end {
            held.forget_before(range.start - KEPT_MS);
            let range = held.range.end..range.end + further_ms;
            let selection = Selection { metrics: metrics.to_vec(), labels: Vec::new(), range };
            let mut more = self.store.select(&selection).await?;
            more.retain(|series| self.gpus.take(&series.labels));
            held.extend(more, selection.range.end);
        }
        let series = Arc::clone(&held.series);
        self.held.push(held);
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
    /// The time in which there are about this many samples.
    fn length_of(&self, samples: usize) -> i64 {
        let held: usize = self.series.iter().map(|series| series.samples.len()).sum();
        let length = (self.range.end - self.range.start) as f64;
        (length * samples as f64 / held.max(1) as f64) as i64
    }

    fn forget_before(&mut self, time: TimeMs) {
        if self.range.start < time {
            self.range.start = time;
            self.keep(|samples| {
                samples.drain(..samples.partition_point(|sample| sample.time_ms < time));
                samples.shrink_to_fit();
            });
        }
    }

    fn forget_from(&mut self, time: TimeMs) {
        if time < self.range.end {
            self.range.end = time.max(self.range.start);
            self.keep(|samples| samples.truncate(samples.partition_point(|sample| sample.time_ms < time)));
        }
    }

    /// Of each series what is left of its samples, if any are.
    fn keep(&mut self, cut: impl Fn(&mut Vec<Sample>)) {
        let series = Arc::make_mut(&mut self.series);
        series.iter_mut().for_each(|series| cut(&mut series.samples));
        series.retain(|series| !series.samples.is_empty());
    }

    /// Adds what was read from the end of its range to another.
    fn extend(&mut self, more: Vec<Series>, end: TimeMs) {
        self.range.end = end;
        let series = Arc::make_mut(&mut self.series);
        let known: HashMap<Labels, usize> = series.iter().enumerate().map(|(n, s)| (s.labels.clone(), n)).collect();
        for one in more {
            match known.get(&one.labels) {
                Some(n) => series[*n].samples.extend(one.samples),
                None => series.push(one),
            }
        }
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

    const HOUR: i64 = 3_600_000;
    const MINUTE: i64 = 60_000;

    /// One series with a sample every minute, of whatever value is there now, and the ranges that were read of it.
    #[derive(Default)]
    struct Ticks(Mutex<(f64, Vec<Range<TimeMs>>)>);

    impl Samples for Ticks {
        async fn select(&self, selection: &Selection) -> Result<Vec<Series>, StoreError> {
            let (value, read) = &mut *self.0.lock();
            read.push(selection.range.clone());
            // Every range begins with a full minute.
            let times = selection.range.clone().step_by(MINUTE as usize);
            let samples = times.map(|time_ms| Sample { time_ms, value: *value }).collect();
            Ok(vec![Series { labels: Labels::new([("__name__", "ticks")]), samples }])
        }
    }

    #[tokio::test]
    async fn nothing_is_read_twice() {
        let (store, metrics) = (Ticks::default(), ["ticks".to_owned()]);
        let mut reader = Reader::new(&store, 12 * HOUR, usize::MAX);
        for hour in 0..12 {
            let window = hour * HOUR..(hour + 1) * HOUR;
            let series = reader.within(&metrics, &window, (HOUR, 2 * HOUR)).await.unwrap();
            let times: Vec<TimeMs> = series[0].samples.iter().map(|s| s.time_ms).collect();
            let asked = (window.start - HOUR..window.end + 2 * HOUR).step_by(MINUTE as usize);
            assert!(times.iter().copied().eq(asked), "hour {hour}: {} samples", times.len());
        }
        // The first reading tells how dense samples are; the last reaches to the end of the last window's.
        assert_eq!(store.0.lock().1, [-HOUR..3 * HOUR, 3 * HOUR..10 * HOUR, 10 * HOUR..14 * HOUR]);
    }

    #[tokio::test]
    async fn what_may_have_changed_is_read_again() {
        let (store, metrics) = (Ticks::default(), ["ticks".to_owned()]);
        let mut reader = Reader::new(&store, HOUR, usize::MAX);
        let rounds =
            [(HOUR, None), (HOUR + 9 * MINUTE, Some(HOUR)), (HOUR + 9 * MINUTE, None), (2 * HOUR, Some(30 * MINUTE))];
        for (n, (end, changed_from)) in rounds.into_iter().enumerate() {
            store.0.lock().0 = n as f64;
            reader.renew(end, changed_from);
            let series = reader.within(&metrics, &(0..end), (0, HOUR)).await.unwrap();
            assert_eq!(series[0].samples.len() as i64, end / MINUTE + 60);
            assert!(series[0].samples.is_sorted_by_key(|sample| sample.time_ms));
            let value = |time| series[0].samples[(time / MINUTE) as usize].value;
            let expected = [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 3.0, 3.0]][n];
            assert_eq!([0, 30 * MINUTE, HOUR].map(value), expected, "round {n}");
        }
        let end = HOUR + 9 * MINUTE;
        assert_eq!(store.0.lock().1, [0..2 * HOUR, HOUR..end + HOUR, 30 * MINUTE..3 * HOUR]);
    }

    #[tokio::test]
    async fn series_that_begin_and_end_are_held_as_long_as_they_have_samples() {
        let series = |name: &str, times: &[TimeMs]| Series {
            labels: Labels::new([("__name__", name)]),
            samples: times.iter().map(|time_ms| Sample { time_ms: *time_ms, value: 1.0 }).collect(),
        };
        let all = vec![series("ends", &[0, 1]), series("goes on", &[1, 8])];
        let mut held = Held { metrics: Vec::new(), range: 0..10, series: Arc::new(all) };
        held.forget_before(1);
        held.extend(vec![series("begins", &[12]), series("goes on", &[11])], 20);
        assert_eq!(*held.series, [series("ends", &[1]), series("goes on", &[1, 8, 11]), series("begins", &[12])]);
        held.forget_before(5);
        held.forget_from(11);
        assert_eq!((&*held.series, held.range), (&vec![series("goes on", &[8])], 5..11));
    }

    /// One series of each GPU that there is, in order.
    struct Fleet(Mutex<Vec<u32>>);

    impl Samples for Fleet {
        async fn select(&self, selection: &Selection) -> Result<Vec<Series>, StoreError> {
            let series = |uuid: &u32| Series {
                labels: Labels::new([("__name__", "m"), ("UUID", &format!("GPU-{uuid}"))]),
                samples: vec![Sample { time_ms: selection.range.start, value: 1.0 }],
            };
            let node = Series { labels: Labels::new([("__name__", "host")]), ..series(&0) };
            Ok(self.0.lock().iter().map(series).chain([node]).collect())
        }
    }

    #[tokio::test]
    async fn gpus_beyond_the_limit_are_dropped_until_others_go() {
        let (store, metrics) = (Fleet(Mutex::new((0..10).collect())), ["m".to_owned()]);
        let mut reader = Reader::new(&store, HOUR, 4);
        let mut read = async |end: TimeMs| {
            reader.renew(end, Some(end - HOUR));
            let series = reader.around(&metrics, &(end - HOUR..end), (0, 0)).await.unwrap();
            let uuids: Vec<String> = series.iter().filter_map(|s| uuid_of(&s.labels)).map(str::to_owned).collect();
            assert!(series.iter().any(|s| s.labels.metric() == "host"), "what is of no GPU is there");
            (uuids, reader.dropped_gpus())
        };
        let gpus = |uuids: &[u32]| uuids.iter().map(|uuid| format!("GPU-{uuid}")).collect::<Vec<_>>();
        assert_eq!(read(HOUR).await, (gpus(&[0, 1, 2, 3]), 6));
        assert_eq!(read(HOUR).await, (gpus(&[0, 1, 2, 3]), 6), "the same again");
        *store.0.lock() = vec![1, 3, 7, 8, 9];
        for hour in 2..5 {
            read(hour * HOUR).await;
        }
        assert_eq!(read(5 * HOUR).await, (gpus(&[1, 3, 7, 8]), 1));
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let samples = vec![Sample { time_ms: 0, value: 1.0 }; 100];
        let series = Arc::new(vec![Series { labels: Labels::new([("__name__", "ticks")]), samples }]);
        let held = Held { metrics: Vec::new(), range: 0..1_000, series };
        assert_eq!(held.length_of(50), 500);
    }
}
